/* Which model to use, what is known about it, and what an answer costs. */
#pragma once

#include "model.h"
#include "settings.h"

/* Dollars per million tokens; negative: not known. A request with more input than `long_above` (0:
 * there is no such limit) costs so many times as much, all of it. */
struct model_price {
    double input, output, cache_read, cache_write;
    uint64_t long_above;
    double long_input, long_output;
};

/* Finds the model that `given` (PROVIDER/NAME; NULL: the configured one, or one there is a key for)
 * means. The spec's strings live as long as the settings. -ENOKEY: there is no key for it, or no
 * model at all; the text says in three lines how to set one. */
int settings_model(struct settings *s, const char *given, struct model_spec *ret,
                   struct error *err);

/* What is known about a model: of the configuration's table "models" over the built-in one. */
struct model_facts {
    uint64_t window;     /* tokens; a careful guess where not known */
    uint64_t max_output; /* tokens of one answer */
    struct model_price price;
};
void settings_facts(const struct settings *s, const struct model_spec *spec,
                    struct model_facts *ret);

double price_of(const struct model_price *p, const struct model_usage *u); /* negative: not known */
