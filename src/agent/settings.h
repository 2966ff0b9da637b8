/*
 * What an agent is set up with: the environment, .env of the current folder, .hutch/config.json of
 * the workspace, ~/.config/hutch/config.json, and hutch's own defaults, in this order of precedence
 * below the command line. What the two files of folders say counts only as far as the folders are
 * trusted (trust.h).
 */
#pragma once

#include <jansson.h>

#include "config.h"
#include "model.h"

/* Dollars per million tokens; negative: not known. A request with more input than `long_above` (0:
 * there is no such limit) costs so many times as much, all of it. */
struct model_price {
    double input, output, cache_read, cache_write;
    uint64_t long_above;
    double long_input, long_output;
};

struct settings;

/* `folder` is where .env is looked for: the current one; NULL: nowhere. `workspace` is the absolute
 * path of what the agent works on, NULL: that of SAFEDIR, or `folder`. `trust` trusts both for this
 * run. What is wrong in the person's own configuration, and USE_SANDBOX other than `true`, are
 * errors; what is wrong in the files of folders is a note, and so is what is ignored in them. */
int settings_read(const char *folder, const char *workspace, bool trust, struct settings **ret,
                  struct error *err);
struct settings *settings_free(struct settings *s);

/* Takes the configuration of another workspace instead: that of a session which is resumed. Returns
 * 1; 0 if it is the same folder. */
int settings_set_workspace(struct settings *s, const char *folder, struct error *err);

/* The folders whose files say something that is ignored for want of trust: up to 2, borrowed. */
size_t settings_untrusted(const struct settings *s, const struct trust *ret[2]);

/* What is ignored of one of them, as trust_items() describes it. */
json_t *settings_ignored(const struct settings *s, const struct trust *t);

/* A copy of the configuration for tool_sources_add(). */
int settings_config(const struct settings *s, struct config *ret, struct error *err);

/* What a person should be told about these settings, one line each: an array of strings, borrowed.
 */
const json_t *settings_notes(const struct settings *s);

/* A variable of the contract (ANTHROPIC_API_KEY, HUTCH_MODEL, …) from the environment or .env;
 * NULL: not set or empty. SAFEDIR is absolute and without links. A key and an address are not to be
 * taken from here: settings_model() knows which go together. */
const char *settings_get(const struct settings *s, const char *name);

/* MAX_TOKENS, or "max_tokens" of the configuration; 0: not set. */
uint64_t settings_max_tokens(const struct settings *s);

/* What `given` (PROVIDER/NAME; NULL: what is configured, or what there is a key for) means. The
 * spec's strings live as long as the settings. -ENOKEY: there is no key for it, or no model at all;
 * the text says in three lines how to give one. */
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

/* The instruction for summaries: the file that "summary_prompt" names, or
 * ~/.config/hutch/summary.md; a new string. 0 with NULL if there is none: the built-in text serves.
 */
int settings_summary_prompt(const struct settings *s, char **ret, struct error *err);

/* A member of the configuration, borrowed; NULL: not set. */
const json_t *settings_member(const struct settings *s, const char *name);
