/*
 * `hutch run`: one command in a fresh box.
 *
 * Options, box_open, box_exec, box_close; no allocation, locale or configuration before the box is
 * made, and no JSON unless it is asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "show_apply.h"
#include "commands.h"
#include "ended.h"
#include "git_box.h"
#include "interrupt.h"
#include "output.h"
#include "registry.h"
#include "result.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

static void close_box(struct box **b)
{
    box_close(*b);
}

static struct box_command command_of(const struct run_options *o, char *const *argv, int cancel)
{
    return (struct box_command){
        .argv = argv,
        .tty = o->tty,
        .in = STDIN_FILENO,
        .out = o->json ? -1 : STDOUT_FILENO,
        .err = o->json ? -1 : STDERR_FILENO,
        .capture = o->json,
        .last = !o->json && !o->apply,
        .cancel = cancel,
    };
}

/* The result object, with what the box changed. */
static int print_result(struct box *b, const struct run_options *o, const struct box_result *result,
                        struct error *err)
{
    struct box_changes changes = {0};
    int r = o->spec.box.mode == BOX_COW ? box_changes(b, &changes, err) : 0;
    if (r == 0)
        r = result_print(result, &changes, err);
    box_changes_free(&changes);
    return r;
}

/* What comes after the command: the result, what may have gone wrong in words, the changes. Returns
 * the exit status. */
static int finish(struct box *b, const struct run_options *o, char *const *argv,
                  const struct box_result *result)
{
    struct error err = {0};
    if (o->json && print_result(b, o, result, &err) < 0)
        return say_failure(&err);
    if (!o->json)
        ended_explain(result, &o->spec.box, argv[0]);
    if (!o->apply || result->exit_code != 0 || output_is_lost())
        return result->exit_code;
    int conflicts = show_apply(&(struct tool_box){.box = b, .registry = -1},
                               &(struct apply_options){.allow_git_dirs = o->allow_git_dirs},
                               o->spec.box.limits.disk, &err);
    if (conflicts < 0)
        return say_failure(&err);
    return conflicts ? 1 : 0;
}

static int run_in_box(const struct run_options *o, const struct git_box *git, char *const *argv)
{
    struct error err = {0};
    struct box_result result = {0};
    _cleanup_(close_box) struct box *b = NULL;
    int cancel = interrupt_watch(&err);
    if (cancel < 0 || box_begin(&o->spec.box, &b, &err) < 0)
        return say_failure(&err);
    registry_tidy(); /* while the box is being made */
    if (git_box_install(git, &(struct tool_box){.box = b, .registry = -1}, &err) < 0)
        return say_failure(&err);
    if (o->tty && interrupt_raw(STDIN_FILENO, &err) < 0)
        return say_failure(&err);
    struct box_command command = command_of(o, argv, cancel);
    int r = box_exec(b, &command, &result, &err);
    interrupt_restore();
    if (interrupt_signal())
        r = 128 + interrupt_signal();
    else
        r = r < 0 ? say_failure(&err) : finish(b, o, argv, &result);
    box_result_free(&result);
    return r;
}

int command_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    int used = 0;
    run_options_init(&o);
    int r = run_options_parse(&o, self->options, argc, argv, &used, &err);
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r < 0)
        return say_usage(&err);
    if (used == argc) {
        say("there is no command to run; usage: hutch run %s", self->usage);
        return EXIT_USAGE;
    }
    if (box_spec_resolve(&o.spec, &err) < 0)
        return say_failure(&err);
    run_options_say_notes(&o);
    _cleanup_git_box_ struct git_box git;
    git_box_prepare(&o.spec.box, false, &git);
    o.spec.box.one_shot = !o.apply && !git.worktree.needed; /* else git runs in the box, too */
    return run_in_box(&o, &git, argv + used);
}
