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

#include "cli.h"
#include "exec_result.h"
#include "git_box.h"
#include "io.h"
#include "keeper.h"
#include "run_options.h"
#include "banned.h"

/* Says that a program is on the host and not in the box. False: that is not the reason, since the
 * box shows the program's folder or the host has no such program. */
static bool explain_missing_program(const char *name, const struct box_options *o)
{
    static const char *const selection[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    char path[PATH_MAX], folder[PATH_MAX];
    if (strchr(name, '/') || !missing_on_host(name, path, sizeof path))
        return false;
    for (size_t i = 0; !(o && o->image) && i < ARRAY_SIZE(selection); i++)
        if (missing_is_below(path, selection[i]))
            return false;
    for (size_t i = 0; o && i < o->n_shares; i++)
        if (missing_is_below(path, o->shares[i].source) || missing_is_below(path, o->shares[i].at))
            return false;
    missing_folder(path, folder, sizeof folder);
    if (o && o->image && missing_is_below(path, "/usr"))
        say("'%s' is not in the image but is at %s on the host", name, path);
    else
        say("'%s' is not in the box but is at %s on the host; show it with --ro %s and call it by "
            "that path",
            name, path, folder);
    return true;
}

/* Says on stderr why a command ended other than by itself, and what to do about it; nothing where
 * the exit status says all. `options` is NULL where the box's are not known. */
static void explain_end(const struct box_result *r, const struct box_options *options,
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
    if (r->failure[0] && !(r->exit_code == 127 && explain_missing_program(name, options)))
        say("cannot run %s", r->failure);
}

/* Runs the command, prints the result or why it ended, and applies the changes. Returns the exit
 * status. `kept`: the box is not made by these options. */
static int exec_and_report(struct box *b, const struct run_options *o, struct box_command *command,
                           bool kept)
{
    struct error err = {0};
    struct box_result result = {0};
    struct box_changes changes = {0};
    command->tty = o->tty;
    command->in = STDIN_FILENO;
    command->out = o->json ? -1 : STDOUT_FILENO;
    command->err = o->json ? -1 : STDERR_FILENO;
    command->capture = o->json;
    command->cancel = interrupt_descriptor();
    if (o->tty && interrupt_raw(STDIN_FILENO, &err) < 0)
        return say_failure(&err);
    int r = box_exec(b, command, &result, &err), status = result.exit_code;
    interrupt_restore();
    if (r == 0 && o->json && !interrupt_signal() && (kept || o->spec.box.mode == BOX_COW))
        r = box_changes(b, &changes, &err);
    if (interrupt_signal()) {
        status = 128 + interrupt_signal();
    } else if (r < 0) {
        status = say_failure(&err);
    } else {
        if (o->json)
            output_json(exec_result_json(&result, &changes), JSON_COMPACT);
        else
            explain_end(&result, kept ? NULL : &o->spec.box, command->argv[0]);
        if (o->apply && status == 0 && !output_is_lost())
            status = apply_box(b, &(struct apply_options){.allow_git_dirs = o->allow_git_dirs},
                               o->spec.box.limits.disk);
    }
    box_result_free(&result);
    if (changes.count)
        box_changes_free(&changes);
    return status;
}

static int run_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    int used = 0;
    run_options_init(&o);
    int r = run_options_parse(&o, self->body->options, argc, argv, &used, &err);
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r == 0 && used == argc)
        r = error_set(&err, EINVAL, "no command given; usage: hutch run %s", self->body->usage);
    if (r < 0)
        return say_usage(&err);
    if (box_spec_resolve(&o.spec, &err) < 0)
        return say_failure(&err);
    run_options_say_notes(&o);
    _cleanup_git_box_ struct git_box git = {0};
    if (o.spec.box.workspace && io_folder_with(o.spec.box.workspace, ".git"))
        git_box_prepare(&o.spec.box, &git);
    o.spec.box.one_shot = !o.apply && !git.worktree.needed; /* else git runs in the box, too */
    _cleanup_box_ struct box *b = NULL;
    if (interrupt_watch(&err) < 0 || box_begin(&o.spec.box, &b, &err) < 0)
        return say_failure(&err);
    if (git.worktree.needed && git_box_install(&git, b, &err) < 0)
        return say_failure(&err);
    struct box_command command = {.argv = argv + used, .last = !o.json && !o.apply};
    return exec_and_report(b, &o, &command, false);
}

const struct command_body COMMAND_RUN = {
    .usage = "[OPTIONS] [--] COMMAND [ARG...]",
    .options = {{RUN_OPTIONS, FOR_RUN}, {BOX_OPTIONS, BOX_OPTION_NEW}},
    .notes =
        "Sizes are 512M, 2G; times are 250ms, 30s, 5m, or none. The exit status is the command's; "
        "128+N if signal N killed it; 124 if a time limit did; 125 if the box could not be "
        "created; "
        "126 if the command could not be started, 127 if it was not found; 1 if --apply left "
        "conflicts.",
    .run = run_run};

#define NOT_GIVEN INT64_MIN

/* In a struct box_command, 0 is the box's limit and -1 is none. */
static int64_t exec_limit(int64_t given)
{
    return given == NOT_GIVEN ? 0 : given == 0 ? -1 : given;
}

/* Options may stand before and after the ID; what follows them is the command. */
static int exec_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    int used = 0, more = 0;
    const char *box = NULL;
    run_options_init(&o);
    o.spec.box.limits.timeout_ns = o.spec.box.limits.cpu_time_ns = NOT_GIVEN;
    int r = run_options_parse(&o, self->body->options, argc, argv, &used, &err);
    if (r == 0 && used < argc) {
        box = argv[used++];
        r = run_options_parse(&o, self->body->options, argc - used, argv + used, &more, &err);
    }
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r == 0 && (!box || used + more == argc))
        r = error_set(&err, EINVAL, "%s; usage: hutch box exec %s",
                      box ? "no command given" : "no box given", self->body->usage);
    if (r < 0)
        return say_usage(&err);

    char term[64], *env[BOX_ENV_MAX + 2];
    _cleanup_box_ struct box *b = NULL;
    if (interrupt_watch(&err) < 0 || keeper_find(box, &b, &err) < 0)
        return say_failure(&err);
    /* The variables of --env; before them, with --tty, the kind of this terminal, which the keeper
     * does not know. */
    const char *kind = getenv("TERM");
    size_t n = 0;
    if (o.tty && kind && (size_t)snprintf(term, sizeof term, "TERM=%s", kind) < sizeof term)
        env[n++] = term;
    for (size_t i = 0; i < o.spec.box.n_env; i++)
        env[n++] = (char *)o.spec.box.env[i];
    env[n] = NULL;
    struct box_command command = {.argv = argv + used + more,
                                  .cwd = o.cwd,
                                  .env = env,
                                  .timeout_ns = exec_limit(o.spec.box.limits.timeout_ns),
                                  .cpu_time_ns = exec_limit(o.spec.box.limits.cpu_time_ns)};
    return exec_and_report(b, &o, &command, true);
}

const struct command_body COMMAND_BOX_EXEC = {
    .usage = "ID [OPTIONS] [--] COMMAND [ARG...]",
    .options = {{RUN_OPTIONS, FOR_EXEC}, {BOX_OPTIONS, BOX_OPTION_EXEC}},
    .notes = "The exit status is that of 'hutch run'.",
    .run = exec_run};
