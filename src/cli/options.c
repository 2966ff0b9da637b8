#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nearest_name.h"
#include "options.h"
#include "optval.h"
#include "banned.h"

static void *field_of(void *target, const struct option *self)
{
    return (char *)target + self->field;
}

int option_parse_flag(void *target, const struct option *self, const char *value, struct error *err)
{
    *(bool *)field_of(target, self) = true;
    return 0;
}

/* "--name": what an option is called in complaints. */
#define SHOWN_MAX 64
static const char *shown(const struct option *self, char text[SHOWN_MAX])
{
    snprintf(text, SHOWN_MAX, "--%s", self->name);
    return text;
}

int option_parse_size(void *target, const struct option *self, const char *value, struct error *err)
{
    char name[SHOWN_MAX];
    return optval_size(shown(self, name), value, field_of(target, self), err);
}

int option_parse_count(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    char name[SHOWN_MAX];
    return optval_count(shown(self, name), value, field_of(target, self), err);
}

int option_parse_time(void *target, const struct option *self, const char *value, struct error *err)
{
    char name[SHOWN_MAX];
    return optval_time(shown(self, name), value, field_of(target, self), err);
}

int option_parse_string(void *target, const struct option *self, const char *value,
                        struct error *err)
{
    char name[SHOWN_MAX];
    return optval_string(shown(self, name), value, field_of(target, self), err);
}

static const struct option *find_long(const struct option *table, unsigned mask, const char *name,
                                      size_t n)
{
    for (const struct option *o = table; o && o->name; o++)
        if ((o->where & mask) && strncmp(o->name, name, n) == 0 && !o->name[n])
            return o;
    return NULL;
}

static const struct option *find_short(const struct option *table, unsigned mask, char letter)
{
    for (const struct option *o = table; o && o->name; o++)
        if ((o->where & mask) && o->letter && o->letter == letter)
            return o;
    return NULL;
}

static int unknown_option(const struct option *table, unsigned mask, const char *word, size_t n,
                          struct error *err)
{
    struct nearest near = nearest_to(word + 2, n - 2);
    for (const struct option *o = table; o && o->name; o++)
        if (o->where & mask)
            nearest_offer(&near, o->name);
    if (near.best)
        return error_set(err, EINVAL, "unknown option '%.*s'; did you mean '--%s'?", (int)n, word,
                         near.best);
    return error_set(err, EINVAL, "unknown option '%.*s'", (int)n, word);
}

/* One word that begins with `--`. `next` is the word after it or NULL; *ret_took_next says whether
 * it was the value. */
static int parse_long(const struct option *table, unsigned mask, const char *word, const char *next,
                      void *target, bool *ret_took_next, struct error *err)
{
    size_t n = strcspn(word, "=");
    const char *value = word[n] ? word + n + 1 : NULL;
    const struct option *o = find_long(table, mask, word + 2, n - 2);
    if (!o)
        return unknown_option(table, mask, word, n, err);
    if (!o->arg && value)
        return error_set(err, EINVAL, "--%s takes no value", o->name);
    *ret_took_next = o->arg && !value;
    if (*ret_took_next && !next)
        return error_set(err, EINVAL, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
    return o->parse(target, o, *ret_took_next ? next : value, err);
}

/* One word of short options: flags may stand together, a value follows its letter or is the next
 * word. */
static int parse_short(const struct option *table, unsigned mask, const char *word,
                       const char *next, void *target, bool *ret_took_next, struct error *err)
{
    *ret_took_next = false;
    for (const char *at = word + 1; *at; at++) {
        const struct option *o = find_short(table, mask, *at);
        if (!o)
            return error_set(err, EINVAL, "unknown option '-%c'", *at);
        if (!o->arg) {
            int r = o->parse(target, o, NULL, err);
            if (r < 0)
                return r;
            continue;
        }
        *ret_took_next = !at[1];
        if (!at[1] && !next)
            return error_set(err, EINVAL, "-%c needs a value: -%c %s", *at, *at, o->arg);
        return o->parse(target, o, at[1] ? at + 1 : next, err);
    }
    return 0;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Parses up to the first word that is no option, or past `--`, which *ret_ended then tells. */
static int parse_some(const struct option *table, unsigned mask, int argc, char *const *argv,
                      void *target, int *ret_used, bool *ret_ended, struct error *err)
{
    int i = 0;
    bool ended = false;
    while (i < argc && !ended && argv[i][0] == '-' && argv[i][1]) {
        const char *word = argv[i];
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool took_next = false;
        if (is_help(word))
            return OPTIONS_HELP;
        ended = strcmp(word, "--") == 0;
        int r = 0;
        if (word[1] != '-')
            r = parse_short(table, mask, word, next, target, &took_next, err);
        else if (!ended)
            r = parse_long(table, mask, word, next, target, &took_next, err);
        if (r < 0)
            return r;
        i += took_next ? 2 : 1;
    }
    *ret_used = i;
    *ret_ended = ended;
    return 0;
}

int options_parse(const struct option *table, unsigned mask, int argc, char *const *argv,
                  void *target, int *ret_used, struct error *err)
{
    bool ended;
    return parse_some(table, mask, argc, argv, target, ret_used, &ended, err);
}

int options_parse_mixed(const struct option *table, unsigned mask, int argc, char **argv,
                        void *target, int *ret_n_words, struct error *err)
{
    int n_words = 0;
    bool ended = false;
    for (int i = 0; i < argc;) {
        int used = 0;
        int r = ended ? 0 : parse_some(table, mask, argc - i, argv + i, target, &used, &ended, err);
        if (r != 0)
            return r;
        i += used;
        if (i < argc)
            argv[n_words++] = argv[i++];
    }
    *ret_n_words = n_words;
    return 0;
}
