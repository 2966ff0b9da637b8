/*
 * Settings: the environment, .env of the current folder, .hutch/config.json of the workspace and
 * ~/.config/hutch/config.json, in this order of precedence, below the command line. What the files
 * of the two folders say counts only as far as the folders are trusted (trust.h).
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "config.h"

struct settings;

/* `folder` is where .env is looked for: the current one; NULL: nowhere. `workspace` is the absolute
 * path of what the agent works on, NULL: that of SAFEDIR, or `folder`. `trust` trusts both for this
 * run. Mistakes in the person's own configuration, and USE_SANDBOX other than `true`, are errors;
 * mistakes in the files of folders are notes, and so is what is ignored in them. */
int settings_read(const char *folder, const char *workspace, bool trust, struct settings **ret,
                  struct error *err);
struct settings *settings_free(struct settings *s);

/* Reads the configuration of another workspace instead, for a session that is resumed. Returns 1; 0
 * if it is the same folder. */
int settings_set_workspace(struct settings *s, const char *folder, struct error *err);

/* The folders whose files say something that is ignored for want of trust: up to 2, borrowed. */
size_t settings_untrusted(const struct settings *s, const struct trust *ret[2]);

/* What is ignored of one of them, as trust_items() describes it. */
json_t *settings_ignored(const struct settings *s, const struct trust *t);

/* A copy of the configuration for tool_sources_add(). */
int settings_config(const struct settings *s, struct config *ret, struct error *err);

/* What a person should know about these settings, one line each: an array of strings, borrowed. */
const json_t *settings_notes(const struct settings *s);

/* A variable that hutch reads (HUTCH_MODEL, MAX_TOKENS, …) from the environment or .env; NULL: not
 * set or empty. SAFEDIR is absolute and without links. Keys and base URLs belong together: take
 * them from settings_provider(). */
const char *settings_get(const struct settings *s, const char *name);

/* MAX_TOKENS, or "max_tokens" of the configuration; 0: not set. */
uint64_t settings_max_tokens(const struct settings *s);

/* A member of the configuration, borrowed; NULL: not set. */
const json_t *settings_member(const struct settings *s, const char *name);

/* The instruction for summaries: the file that "summary_prompt" names, or
 * ~/.config/hutch/summary.md; a new string. 0 with NULL if there is none. */
int settings_summary_prompt(const struct settings *s, char **ret, struct error *err);

/* Keeps a string as long as the settings live and frees `text`; NULL: not UTF-8, or out of
 * memory. */
const char *settings_keep(struct settings *s, char *text);

/* How to reach a provider. The strings live as long as the settings. */
struct provider_settings {
    const char *base_url, *key; /* NULL: not set */
    const char *api;            /* NULL: not set */
    const char *api_variable;   /* the variable that set `api`; NULL: the configuration did */
    json_t *headers, *extra;    /* objects; or NULL */
    int idle_ms, retries;       /* 0 and -1: not set */
};

/* -ENODATA: there is no such provider, -ENOKEY: neither a key nor a base URL is set; both without a
 * text in `err`. */
int settings_provider(struct settings *s, const char *provider, struct provider_settings *ret,
                      struct error *err);

bool settings_has_key(const struct settings *s, const char *provider);
bool settings_has_base_url(const struct settings *s, const char *provider);
