/*
 * Boxes at the level of the library, without the start of a program around them.
 *
 *     box_bench start ROUNDS WORKSPACE :: NAME PROGRAM…        a fresh box, a box from a warm pool,
 *                                                              and
 * programs box_bench exec ROUNDS WORKSPACE :: NAME PROGRAM…         a command in a live box, and
 *                                                                   programs
 *     box_bench rate ROUNDS WORKSPACE IN_FLIGHT SLICE_MS :: …  runs per second of the same as
 *                                                              `start`
 *     box_bench fork ROUNDS LARGE                              see fork_bench.c
 *     box_bench leftovers BOXES                                see leftover_bench.c
 *     box_bench idle BOXES                                     see idle_bench.c
 *
 * hutch-guest must be beside this program. All print JSON, for bench.py.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "box_bench.h"
#include "command.h"
#include "subject.h"
#include "banned.h"

#define POOL_SIZE 4

static const char *const PIPED_PARTS[] = {"ns", "bytes", NULL};

static unsigned number(const char *text)
{
    int n = atoi(text);
    if (n <= 0)
        errx(2, "'%s' is not a number above 0", text);
    return (unsigned)n;
}

static int run_start(char **args)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    struct subject s;
    size_t n = 2;
    subject_init(&s, args[1]);
    subject_open_pool(&s, POOL_SIZE);
    list[0] = subject_fresh(&s);
    list[1] = subject_pooled(&s);
    command_parse(args + 2, commands, list, &n);
    int r = contest_print(list, n, number(args[0]));
    subject_free(&s);
    return r;
}

/* A command in a box has its output collected through pipes; so there is posix_spawn with a pipe to
 * compare with too. */
static int run_exec(char **args)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    struct subject s;
    size_t n = 1;
    subject_init(&s, args[1]);
    subject_open_live(&s);
    list[0] = subject_live(&s);
    command_parse(args + 2, commands, list, &n);
    if (n == 2) {
        list[n] = list[1];
        list[n].name = "piped";
        list[n].parts = PIPED_PARTS;
        list[n++].run = command_run_piped;
    }
    int r = contest_print(list, n, number(args[0]));
    subject_free(&s);
    return r;
}

static int run_rate(char **args)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    struct subject s;
    unsigned in_flight = number(args[2]);
    size_t n = 2;
    subject_init(&s, args[1]);
    subject_open_pool(&s, in_flight);
    list[0] = subject_fresh(&s);
    list[1] = subject_pooled(&s);
    command_parse(args + 4, commands, list, &n);
    int r = rate_print(list, n, in_flight, number(args[0]), number(args[3]));
    subject_free(&s);
    return r;
}

static int run_fork(char **args)
{
    return fork_bench(args[1], number(args[0]));
}

static int run_leftovers(char **args)
{
    return leftover_bench(number(args[0]));
}

static int run_idle(char **args)
{
    return idle_bench(number(args[0]));
}

static const struct {
    const char *name;
    int n_args; /* at least */
    int (*run)(char **args);
} MODES[] = {
    {"start", 2, run_start}, {"exec", 2, run_exec},           {"rate", 4, run_rate},
    {"fork", 2, run_fork},   {"leftovers", 1, run_leftovers}, {"idle", 1, run_idle},
};

/* Many boxes at once hold many descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    raise_limit();
    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(MODES); i++)
        if (strcmp(argv[1], MODES[i].name) == 0 && argc - 2 >= MODES[i].n_args)
            return MODES[i].run(argv + 2) < 0;
    errx(2, "usage: box_bench start|exec|rate|fork|leftovers|idle NUMBER …");
}
