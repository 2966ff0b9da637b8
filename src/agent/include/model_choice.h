/* Which model to use, and what is known about it: settings and providers put together. */
#pragma once

#include "model.h"
#include "provider.h"
#include "settings.h"

/* Finds the model that `given` (PROVIDER/NAME; NULL: the configured one, or one there is a key for)
 * means. The spec's strings live as long as the settings. -ENOKEY: there is no key for it, or no
 * model at all; the text says in three lines how to set one. */
int settings_model(struct settings *s, const char *given, struct model_spec *ret,
                   struct error *err);

/* What is known about a model: of the configuration's table "models" over the provider's row. */
void settings_facts(const struct settings *s, const struct model_spec *spec,
                    struct model_facts *ret);
