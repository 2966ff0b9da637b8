/*
 * Model providers, one row each: the provider's address, its requests and answers, and public facts
 * about its models. A row is a constant in its own file of
 * provider/ and a line of provider/providers.def.
 *
 * A provider of the configuration ("providers") has no row: it speaks one of these APIs at a base
 * URL of its own.
 */
#pragma once

#include "conversation.h"

struct encoding;
struct decode_protocol;

/* Dollars per million tokens; negative: not known. A request with more input than `long_above`
 * tokens (0: no such limit) costs `long_input` and `long_output` times as much, all of it. */
struct model_price {
    double input, output, cache_read, cache_write;
    uint64_t long_above;
    double long_input, long_output;
};
#define MODEL_PRICE_UNKNOWN ((struct model_price){-1, -1, -1, -1, 0, 1, 1})

/* Dollars; negative: not known. */
double model_price_of(const struct model_price *p, const struct model_usage *u);

struct model_facts {
    uint64_t window;     /* tokens; a low guess if not known */
    uint64_t max_output; /* tokens of one answer */
    struct model_price price;
};

/* A line of a provider's public price list. A name is a prefix; the longest that matches counts. */
struct provider_model {
    const char *name; /* NULL: the end of the list */
    struct model_facts facts;
};

struct provider {
    const char *base_url;   /* the provider's own server */
    const char *path;       /* of a request, below the base URL */
    const char *embed_path; /* of a request for embeddings; NULL: the provider has none */
    bool is_versioned;      /* every base URL gets "/v1", not only one without a path */
    const char *key_header; /* the header of the key, and the text before the key in it */
    const char *key_prefix;
    const char *const *headers; /* more of them: name, value, …, NULL */

    json_t *(*encode)(struct encoding *e); /* the body of a request; NULL: out of memory */
    const struct decode_protocol *decoder;

    /* A provider that is not reached by HTTP has these instead of all of the above. */
    int (*open)(const struct model_spec *spec, void **ret_state, struct error *err);
    int (*ask)(void *state, const struct model_spec *spec, const struct model_request *q,
               const struct model_sink *sink, struct model_reply *ret, struct error *err);
    void (*close)(void *state);

    const char *default_model;           /* NULL: only used if it is named */
    const char *const *model_prefixes;   /* bare names that mean this provider; NULL at the end */
    const struct provider_model *models; /* NULL: none, or in another row of the provider */
    struct model_facts guess;            /* about a model that is not in the list */
    double cache_read_rate, cache_write_rate; /* usual prices, relative to that of input */
    bool only_own_server; /* other servers mostly speak the API of the provider's next row */
    bool is_common;       /* the API of unknown servers */
};

/* The rows: PROVIDER_ANTHROPIC, … */
#define PROVIDER(row, name, api, key, url, api_variable)                                           \
    extern const struct provider PROVIDER_##row;
#include "providers.def"
#undef PROVIDER

/* The date of the price lists, for people. */
#define PROVIDER_PRICES_DATE "2026-11"

/* The row for a provider's name and API. `name` may be one of the configuration. `api` NULL: the
 * one that is usual at this base URL (NULL: the provider's own server). NULL: there is no such
 * API. */
const struct provider *provider_find(const char *name, const char *api, const char *base_url);

/* The names of the providers, and of one provider's APIs; NULL behind the last. */
const char *provider_name(size_t i);
const char *provider_api(const char *name, size_t i);

/* The variable of the key, or of the base URL, and for providers of the configuration a description
 * of the setting: for messages. */
const char *provider_key_setting(const char *name);
const char *provider_base_url_setting(const char *name);

/* Public facts about a model. */
void provider_model_facts(const char *provider, const char *model, struct model_facts *ret);
