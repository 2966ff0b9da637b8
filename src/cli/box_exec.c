/* `hutch box exec`: like `hutch run`, in a box that is there; its keeper does the work. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boxes.h"
#include "commands.h"
#include "ended.h"
#include "interrupt.h"
#include "result.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

#define NOT_GIVEN INT64_MIN

/* box_command's way to say it: 0 is the box's limit, -1 is none. */
static int64_t limit_of(int64_t given)
{
    return given == NOT_GIVEN ? 0 : given == 0 ? -1 : given;
}

/* The variables of --env as a list. With --tty the terminal's kind goes first, from here: the
 * keeper does not know it. */
static void fill_env(const struct run_options *o, char *term, size_t size, char **env)
{
    const char *kind = getenv("TERM");
    size_t n = 0;
    if (o->tty && kind && (size_t)snprintf(term, size, "TERM=%s", kind) < size)
        env[n++] = term;
    for (size_t i = 0; i < o->spec.box.n_env; i++)
        env[n++] = (char *)o->spec.box.env[i];
    env[n] = NULL;
}

static int finish(const struct run_options *o, const char *name, const struct box_result *result,
                  const struct box_changes *changes)
{
    struct error err = {0};
    if (!o->json)
        ended_explain(result, NULL, name);
    else if (result_print(result, changes, &err) < 0)
        return say_failure(&err);
    return result->exit_code;
}

static int exec_in_box(const struct run_options *o, const char *box, char *const *argv)
{
    struct error err = {0};
    struct registry_id id;
    struct box_result result = {0};
    struct box_changes changes = {0};
    char term[64], *env[BOX_ENV_MAX + 2];
    _cleanup_fd_ int registry = -1;
    int cancel = interrupt_watch(&err);
    if (cancel < 0 || boxes_find(box, &registry, &id, &err) < 0)
        return say_failure(&err);
    fill_env(o, term, sizeof term, env);
    struct box_command command = {
        .argv = argv,
        .cwd = o->cwd,
        .env = env,
        .timeout_ns = limit_of(o->spec.box.limits.timeout_ns),
        .cpu_time_ns = limit_of(o->spec.box.limits.cpu_time_ns),
        .tty = o->tty,
        .in = STDIN_FILENO,
        .out = o->json ? -1 : STDOUT_FILENO,
        .err = o->json ? -1 : STDERR_FILENO,
        .capture = o->json,
        .cancel = cancel,
    };
    if (o->tty && interrupt_raw(STDIN_FILENO, &err) < 0)
        return say_failure(&err);
    int r = keeper_exec(registry, &id, &command, &result, o->json ? &changes : NULL, &err);
    interrupt_restore();
    if (interrupt_signal())
        r = 128 + interrupt_signal();
    else
        r = r < 0 ? say_failure(&err) : finish(o, argv[0], &result, &changes);
    box_result_free(&result);
    box_changes_free(&changes);
    return r;
}

/* Options may stand before and after the ID; what follows them is the command. */
int command_box_exec(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    int used = 0, more = 0;
    const char *box = NULL;
    run_options_init(&o);
    o.spec.box.limits.timeout_ns = o.spec.box.limits.cpu_time_ns = NOT_GIVEN;
    int r = run_options_parse(&o, self->options, argc, argv, &used, &err);
    if (r == 0 && used < argc) {
        box = argv[used++];
        r = run_options_parse(&o, self->options, argc - used, argv + used, &more, &err);
    }
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r < 0)
        return say_usage(&err);
    if (!box || used + more == argc) {
        say("%s; usage: hutch box exec %s", box ? "there is no command to run" : "which box?",
            self->usage);
        return EXIT_USAGE;
    }
    return exec_in_box(&o, box, argv + used + more);
}
