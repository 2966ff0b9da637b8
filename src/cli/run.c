/*
 * `hutch run`: one command in a fresh box; `hutch box exec`: one in a box that a keeper holds.
 *
 * `run` is options, box_begin, box_exec, box_close: no allocation, locale or configuration before
 * the box is made, and no JSON unless it is asked for.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "exec_result.h"
#include "git_box.h"
#include "interrupt.h"
#include "keeper.h"
#include "output.h"
#include "registry.h"
#include "run_options.h"
#include "show_changes.h"
#include "banned.h"

/* Is a program at this path of the host in the box, too? If so it was found, and the status is its
 * own. */
static bool ended_is_shown(const char *path, const struct box_options *o)
{
    static const char *const selection[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    for (size_t i = 0; !(o && o->image) && i < ARRAY_SIZE(selection); i++)
        if (missing_is_below(path, selection[i]))
            return true;
    for (size_t i = 0; o && i < o->n_shares; i++)
        if (missing_is_below(path, o->shares[i].source) || missing_is_below(path, o->shares[i].at))
            return true;
    return false;
}

/* A program that is on the host and not in the box: true if that was it, and was said. */
static bool ended_explain_missing(const char *name, const struct box_options *o)
{
    char path[PATH_MAX], folder[PATH_MAX];
    if (strchr(name, '/') || !missing_on_host(name, path, sizeof path) || ended_is_shown(path, o))
        return false;
    if (o && o->image && missing_is_below(path, "/usr")) {
        say("'%s' is not in the image but is at %s on the host", name, path);
        return true;
    }
    missing_folder(path, folder, sizeof folder);
    say("'%s' is not in the box but is at %s on the host; show it with --ro %s and call it by"
        " that path",
        name, path, folder);
    return true;
}

/* Says on stderr why a command ended other than by itself, and what to do about it; nothing where
 * the exit status says all. `options` is NULL where the box's are not known. */
static void ended_explain(const struct box_result *r, const struct box_options *options,
                          const char *name)
{
    /* The limits on processes and disk give the command errors; the others kill it. */
    static const char *const limits[] = {
        [WIRE_LIMIT_TIMEOUT] =
            "the command was killed: it ran longer than its time limit (--timeout)",
        [WIRE_LIMIT_CPU] =
            "the command was killed: it used more CPU time than its limit (--cpu-time)",
        [WIRE_LIMIT_MEMORY] =
            "the command was killed: it needed more memory than the box has (--memory)",
        [WIRE_LIMIT_PIDS] = "the command reached the limit on processes (--pids)",
        [WIRE_LIMIT_DISK] = "the command filled the disk of the box (--disk)",
        [WIRE_LIMIT_OUTPUT] =
            "the command was killed: it printed more than its limit (--output-total)",
    };
    /* A reader that went away is the command's own matter: it got the signal. */
    if (r->out_error && r->out_error != EPIPE)
        output_failed(r->out_error);
    if ((size_t)r->limit < ARRAY_SIZE(limits) && limits[r->limit])
        say("%s", limits[r->limit]);
    for (size_t i = 0; i < r->n_refused; i++) {
        const char *target = r->refused[i].target;
        if (r->refused[i].is_private)
            say("the box tried to reach %s: not allowed, its address is private or local; name the "
                "address itself with --net allow:ADDRESS:PORT",
                target);
        else
            say("the box tried to reach %s: not allowed; %s allow:%s", target,
                options ? "--net" : "hutch box set ID --net", target);
    }
    if (r->failure[0] && !(r->exit_code == 127 && ended_explain_missing(name, options)))
        say("cannot run %s", r->failure);
}

/* After the command: prints the result or why it ended, and applies the changes. Returns the exit
 * status. */
static int run_report(struct box *b, const struct run_options *o, char *const *argv,
                      const struct box_result *result)
{
    struct error err = {0};
    struct box_changes changes = {0};
    if (!o->json) {
        ended_explain(result, &o->spec.box, argv[0]);
    } else {
        if (o->spec.box.mode == BOX_COW && box_changes(b, &changes, &err) < 0)
            return say_failure(&err);
        output_json(exec_result_json(result, &changes), JSON_COMPACT);
        box_changes_free(&changes);
    }
    if (!o->apply || result->exit_code != 0 || output_is_lost())
        return result->exit_code;
    int conflicts = show_apply(b, &(struct apply_options){.allow_git_dirs = o->allow_git_dirs},
                               o->spec.box.limits.disk, &err);
    if (conflicts < 0)
        return say_failure(&err);
    return conflicts ? 1 : 0;
}

static int run_in_box(const struct run_options *o, const struct git_box *git, char *const *argv)
{
    struct error err = {0};
    struct box_result result = {0};
    _cleanup_box_ struct box *b = NULL;
    int cancel = interrupt_watch(&err);
    if (cancel < 0 || box_begin(&o->spec.box, &b, &err) < 0)
        return say_failure(&err);
    registry_tidy(); /* while the box is being made */
    if (git_box_install(git, b, &err) < 0)
        return say_failure(&err);
    if (o->tty && interrupt_raw(STDIN_FILENO, &err) < 0)
        return say_failure(&err);
    struct box_command command = {
        .argv = argv,
        .tty = o->tty,
        .in = STDIN_FILENO,
        .out = o->json ? -1 : STDOUT_FILENO,
        .err = o->json ? -1 : STDERR_FILENO,
        .capture = o->json,
        .last = !o->json && !o->apply,
        .cancel = cancel,
    };
    int r = box_exec(b, &command, &result, &err);
    interrupt_restore();
    if (interrupt_signal())
        r = 128 + interrupt_signal();
    else
        r = r < 0 ? say_failure(&err) : run_report(b, o, argv, &result);
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
        say("no command given; usage: hutch run %s", self->usage);
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

#define NOT_GIVEN INT64_MIN

/* box_command's way to say it: 0 is the box's limit, -1 is none. */
static int64_t exec_limit(int64_t given)
{
    return given == NOT_GIVEN ? 0 : given == 0 ? -1 : given;
}

static int exec_in_box(const struct run_options *o, const char *box, char *const *argv)
{
    struct error err = {0};
    struct box_result result = {0};
    struct box_changes changes = {0};
    char term[64], *env[BOX_ENV_MAX + 2];
    _cleanup_box_ struct box *b = NULL;
    int cancel = interrupt_watch(&err);
    if (cancel < 0 || keeper_find(box, &b, &err) < 0)
        return say_failure(&err);
    /* The variables of --env; before them, with --tty, the kind of this terminal, which the keeper
     * does not know. */
    const char *kind = getenv("TERM");
    size_t n = 0;
    if (o->tty && kind && (size_t)snprintf(term, sizeof term, "TERM=%s", kind) < sizeof term)
        env[n++] = term;
    for (size_t i = 0; i < o->spec.box.n_env; i++)
        env[n++] = (char *)o->spec.box.env[i];
    env[n] = NULL;
    struct box_command command = {
        .argv = argv,
        .cwd = o->cwd,
        .env = env,
        .timeout_ns = exec_limit(o->spec.box.limits.timeout_ns),
        .cpu_time_ns = exec_limit(o->spec.box.limits.cpu_time_ns),
        .tty = o->tty,
        .in = STDIN_FILENO,
        .out = o->json ? -1 : STDOUT_FILENO,
        .err = o->json ? -1 : STDERR_FILENO,
        .capture = o->json,
        .cancel = cancel,
    };
    if (o->tty && interrupt_raw(STDIN_FILENO, &err) < 0)
        return say_failure(&err);
    int r = box_exec(b, &command, &result, &err);
    if (r == 0 && o->json)
        r = box_changes(b, &changes, &err);
    interrupt_restore();
    if (interrupt_signal()) {
        r = 128 + interrupt_signal();
    } else if (r < 0) {
        r = say_failure(&err);
    } else {
        if (o->json)
            output_json(exec_result_json(&result, &changes), JSON_COMPACT);
        else
            ended_explain(&result, NULL, argv[0]);
        r = result.exit_code;
    }
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
        say("%s; usage: hutch box exec %s", box ? "no command given" : "no box given", self->usage);
        return EXIT_USAGE;
    }
    return exec_in_box(&o, box, argv + used + more);
}
