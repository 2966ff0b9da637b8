/*
 * Options of the command line, from tables.
 *
 * A table has one row per option; parsing, --help, `hutch help --json` and through it the tests of
 * the manual and of the completions all read the same rows. Parsing is pure: it touches no file,
 * prints nothing, and keeps pointers into argv. What depends on the host (does the folder exist?)
 * is checked afterwards by whoever owns the values.
 */
#pragma once

#include <stddef.h>

#include "error.h"

struct option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* short form, or 0 */
    const char *arg;  /* what its value is called; NULL: takes none */
    const char *help;
    const char *fallback; /* the default as a person would write it; NULL: none worth telling */
    unsigned where;       /* the commands that take it, as bits; see command.mask */
    size_t field;         /* offset in the target that `parse` fills */
    /* value is NULL for an option that takes none. Returns 0 or a negative errno with the text set.
     */
    int (*parse)(void *target, const struct option *self, const char *value, struct error *err);
};

/* A row of a table that only one command uses. */
#define OPTION_ALWAYS 1u

/* What options_parse returns when --help was among them. */
#define OPTIONS_HELP 1

/*
 * Parses options up to `--` or the first word that is none, and says in *ret_used how many words
 * they were. Returns 0, OPTIONS_HELP, or -EINVAL with the text set.
 */
int options_parse(const struct option *table, unsigned mask, int argc, char *const *argv,
                  void *target, int *ret_used, struct error *err);

/*
 * The same for commands whose options and words may be mixed (`fork ID -n 2`): the words that are
 * no options are moved to the front of argv.
 */
int options_parse_mixed(const struct option *table, unsigned mask, int argc, char **argv,
                        void *target, int *ret_n_words, struct error *err);

/* Parse functions for rows, filling a bool, uint64_t, int64_t (nanoseconds) or const char * at
 * `field`. */
int option_parse_flag(void *target, const struct option *self, const char *value,
                      struct error *err);
int option_parse_size(void *target, const struct option *self, const char *value,
                      struct error *err);
int option_parse_count(void *target, const struct option *self, const char *value,
                       struct error *err);
int option_parse_time(void *target, const struct option *self, const char *value,
                      struct error *err);
int option_parse_string(void *target, const struct option *self, const char *value,
                        struct error *err);
