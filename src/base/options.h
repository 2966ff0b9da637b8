/*
 * Options from tables: on the command line, and by name from other places (a JSON object).
 *
 * A table has one row per option. Parsing, --help, `hutch help --json` and from it the option
 * sections of the manual and the shell completions all read the same rows. Parsing is pure: it
 * touches no file, prints nothing, and keeps pointers to the values. What depends on the host (does
 * the folder exist?) is checked later by the owner of the values.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* short form, or 0 */
    const char *arg;  /* placeholder of its value, or the values: `a|b`; NULL: takes no value */
    const char *help;
    const char *fallback; /* the default as a person would write it, or NULL */
    unsigned where;       /* bits: the commands that take it, and OPTION_REPEATS */
    size_t field;         /* offset in the target that `parse` fills */
    /* The value is NULL for an option that takes none. Returns 0 or a negative errno; the caller
     * puts the option's name in front of the text. */
    int (*parse)(void *target, const struct option *self, const char *value, struct error *err);
};

#define OPTION_ALWAYS  1u         /* of a table that only one command uses */
#define OPTION_REPEATS (1u << 31) /* may be given several times */

/* The rows of a table that a command takes: those that share a bit with `mask`. Sets are passed as
 * arrays that end with a NULL table. */
struct option_set {
    const struct option *table;
    unsigned mask;
};

/* The first row of the sets, and the row after `last`; NULL after the last one. */
const struct option *option_next(const struct option_set *sets, const struct option *last);

/* NULL if there is none of that name. */
const struct option *option_find(const struct option_set *sets, const char *name, size_t n);

/* What options_parse returns for --help and -h. */
#define OPTIONS_HELP 1

/* Parses options up to `--` or the first word that is not an option; *ret_used counts the words
 * parsed. Returns 0, OPTIONS_HELP, or -EINVAL with the text set. */
int options_parse(const struct option_set *sets, int argc, char *const *argv, void *target,
                  int *ret_used, struct error *err);

/* The same for commands whose options and words may be mixed (`fork ID -n 2`): moves the words to
 * the front of argv. */
int options_parse_mixed(const struct option_set *sets, int argc, char **argv, void *target,
                        int *ret_n_words, struct error *err);

/* Parse functions for rows. They fill a bool, a size in bytes (uint64_t), a count of 1 or more
 * (uint64_t), nanoseconds (int64_t; `none` is 0), or a string that is not empty (const char *) at
 * `field`, and do not touch it on failure. */
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

/* Sizes (`512M`, `2G`), times (`250ms`, `30s`, `5m`) and counts as people write them. 0, -EINVAL
 * (not of that form) or -ERANGE (too large). */
int units_parse_size(const char *s, uint64_t *ret_bytes);
int units_parse_time(const char *s, int64_t *ret_ns);
int units_parse_count(const char *s, uint64_t *ret);
int units_parse_decimal(const char *s, double *ret); /* digits with at most one point: `1.5` */

/* `42s`, `5m`, `3h`, `2d`: about how long; `-` for a negative time. Returns `out`. */
const char *units_rough_time(int64_t ns, char *out, size_t size);
