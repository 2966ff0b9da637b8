/* The table of providers, and facts and prices of models. */
#include <string.h>

#include "cleanup.h"
#include "provider.h"
#include "banned.h"

static const struct provider_entry {
    const struct provider *row;
    const char *name, *api, *key_variable, *base_url_variable;
} PROVIDERS[] = {
#define PROVIDER(row, name, api, key, url, api_variable) {&PROVIDER_##row, name, api, key, url},
#include "providers.def"
#undef PROVIDER
};

/* The first line of a provider; NULL: it is not in the table. */
static const struct provider_entry *provider_entry(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROVIDERS); i++)
        if (strcmp(PROVIDERS[i].name, name) == 0)
            return &PROVIDERS[i];
    return NULL;
}

const struct provider *provider_find(const char *name, const char *api, const char *base_url)
{
    bool is_known = provider_entry(name) != NULL;
    for (const struct provider_entry *e = PROVIDERS; e < PROVIDERS + ARRAY_SIZE(PROVIDERS); e++) {
        const struct provider *p = e->row;
        bool fits = api        ? e->api && strcmp(e->api, api) == 0
                    : is_known ? strcmp(e->name, name) == 0
                               : p->is_common;
        if (!api && fits && is_known && p->only_own_server && base_url) {
            /* The provider's own server? Its origin must end there, with a path or a port. */
            const char *host = strstr(p->base_url, "://") + 3;
            size_t n = (size_t)(host - p->base_url) + strcspn(host, "/");
            fits =
                strncmp(base_url, p->base_url, n) == 0 && base_url[n] && strchr("/:", base_url[n]);
        }
        if (fits)
            return p;
    }
    return NULL;
}

const char *provider_name(size_t i)
{
    for (const struct provider_entry *e = PROVIDERS; e < PROVIDERS + ARRAY_SIZE(PROVIDERS); e++)
        if (provider_entry(e->name) == e && i-- == 0)
            return e->name;
    return NULL;
}

const char *provider_api(const char *name, size_t i)
{
    for (const struct provider_entry *e = PROVIDERS; e < PROVIDERS + ARRAY_SIZE(PROVIDERS); e++)
        if (strcmp(e->name, name) == 0 && e->api && i-- == 0)
            return e->api;
    return NULL;
}

const char *provider_key_setting(const char *name)
{
    const struct provider_entry *e = provider_entry(name);
    return e && e->key_variable ? e->key_variable : "the provider's key in the configuration";
}

const char *provider_base_url_setting(const char *name)
{
    const struct provider_entry *e = provider_entry(name);
    return e && e->base_url_variable ? e->base_url_variable : "the provider's base URL";
}

/* The longest name of the list that the model's begins with; NULL: none. */
static const struct provider_model *models_find(const struct provider_model *list,
                                                const char *model)
{
    const struct provider_model *best = NULL;
    for (; list && list->name; list++) {
        size_t n = strlen(list->name);
        if (strncmp(list->name, model, n) == 0 && (!best || n > strlen(best->name)))
            best = list;
    }
    return best;
}

void provider_model_facts(const char *provider, const char *model, struct model_facts *ret)
{
    const struct provider_entry *own = provider_entry(provider);
    const struct provider_model *found = own ? models_find(own->row->models, model) : NULL;
    if (found) {
        *ret = found->facts;
        return;
    }
    /* A well-known model at another provider ("anthropic/claude-…" of a gateway): its size is
     * known, its price is that provider's own. A recording's name is a file's. */
    const char *last = strrchr(model, '/');
    last = last ? last + 1 : model;
    const struct model_facts *guess = NULL, *common = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(PROVIDERS); i++) {
        const struct provider *row = PROVIDERS[i].row;
        if (!found && !(own && own->row->ask))
            found = models_find(row->models, last);
        if (row->model_prefixes && strstr(model, row->model_prefixes[0]))
            guess = &row->guess;
        if (row->is_common)
            common = &row->guess;
    }
    *ret = found ? found->facts : guess ? *guess : *common;
    ret->price = MODEL_PRICE_UNKNOWN;
}

double model_price_of(const struct model_price *p, const struct model_usage *u)
{
    uint64_t cached = u->cache_read + u->cache_write;
    uint64_t fresh = u->input > cached ? u->input - cached : 0;
    bool is_long = p->long_above > 0 && u->input > p->long_above;
    if (!u->known || p->input < 0 || p->output < 0)
        return -1;
    double read = p->cache_read < 0 ? p->input : p->cache_read;
    double write = p->cache_write < 0 ? p->input : p->cache_write;
    double in =
        (double)fresh * p->input + (double)u->cache_read * read + (double)u->cache_write * write;
    double out = (double)u->output * p->output;
    return (in * (is_long ? p->long_input : 1) + out * (is_long ? p->long_output : 1)) / 1e6;
}
