/*
 * What an agent is set up with: the environment, .env of the current folder, .hutch/config.json of the
 * workspace,
 * ~/.config/hutch/config.json, and hutch's own defaults, in this order of precedence below the command line.
 *
 * Who wrote it? A .env or a workspace's configuration may have come with a clone. So an address for a
 * provider counts only together with a key from the same file: a stranger's file can never send the person's
 * key elsewhere.
 */
#pragma once

#include <jansson.h>

#include "model.h"

/* Dollars per million tokens; negative: not known. */
struct model_price {
    double input, output, cache_read, cache_write;
};

struct settings;

/* `folder` is where .env is looked for: the current one. */
int settings_read(const char *folder, const char *workspace, struct settings **ret, struct error *err);
struct settings *settings_free(struct settings *s);

/* A variable of the contract (ANTHROPIC_API_KEY, HUTCH_MODEL, …) from the environment or .env; NULL: not set
 * or empty. */
const char *settings_get(const struct settings *s, const char *name);

/* What `given` (PROVIDER/NAME; NULL: what is configured, or what there is a key for) means. The spec's
 * strings live as long as the settings. -ENOKEY: there is no key for it, or no model at all; the text says in
 * three lines how to give one. */
int settings_model(struct settings *s, const char *given, struct model_spec *ret, struct error *err);

/* What is known about a model: of the configuration's table "models" over the built-in one. */
struct model_facts {
    uint64_t window;     /* tokens; a careful guess where not known */
    uint64_t max_output; /* tokens of one answer */
    struct model_price price;
};
void settings_facts(const struct settings *s, const struct model_spec *spec, struct model_facts *ret);

double price_of(const struct model_price *p, const struct model_usage *u); /* negative: not known */

/* A member of the configuration, borrowed; NULL: not set. */
const json_t *settings_member(const struct settings *s, const char *name);
