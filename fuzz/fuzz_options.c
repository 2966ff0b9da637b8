/*
 * Fuzz target of the option parser: any words, as `run`, `box new` and `box exec` would be given
 * them. Parsing is pure, so whatever comes must either fail with a text or leave options that keep
 * to their bounds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "run_options.h"
#include "banned.h"

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool held)
{
    if (!held)
        abort();
}

static void check(const struct run_options *o, int used, int argc)
{
    require(used >= 0 && used <= argc);
    require(o->spec.box.n_allow <= BOX_ALLOW_MAX && o->spec.box.n_shares <= BOX_SHARES_MAX &&
            o->spec.box.n_env <= BOX_ENV_MAX);
    require(o->spec.box.limits.timeout_ns >= 0 && o->spec.box.limits.cpu_time_ns >= 0 &&
            o->ttl_ns >= 0);
    require(o->spec.box.limits.pids > 0 && o->spec.box.limits.files > 0 &&
            o->spec.box.limits.memory > 0 && o->spec.box.limits.disk > 0);
    require(o->spec.box.limits.cpus >= 0);
    for (size_t i = 0; i < o->spec.box.n_env; i++)
        require(strchr(o->spec.box.env[i], '=') != NULL);
    for (size_t i = 0; i < o->spec.box.n_allow; i++)
        require(o->spec.box.allow[i][0] != 0);
}

/* The first byte picks the command; the words are separated by NUL bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned masks[] = {FOR_RUN, FOR_NEW, FOR_EXEC};
    if (size == 0)
        return 0;
    char *words[WORDS_MAX + 1], *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    int argc = 0;
    for (size_t at = 0; at < size && argc < WORDS_MAX; at += strlen(text + at) + 1)
        words[argc++] = text + at;
    words[argc] = NULL;
    struct run_options o;
    struct error err = {0};
    int used = 0;
    run_options_init(&o);
    unsigned mask = masks[data[0] % 3];
    const struct option_set sets[] = {
        {RUN_OPTIONS, mask},
        {BOX_OPTIONS, mask == FOR_EXEC ? BOX_OPTION_EXEC : BOX_OPTION_NEW},
        {0}};
    int r = run_options_parse(&o, sets, argc, words, &used, &err);
    if (r == 0)
        check(&o, used, argc);
    else
        require(r == OPTIONS_HELP || err.text[0] != 0);
    run_options_free(&o);
    free(text);
    return 0;
}
