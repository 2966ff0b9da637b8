/*
 * `hutch ask PROMPT`: one task without interaction.
 *
 * Ctrl-C ends the turn and what runs in the box; the session is saved and can be resumed. The box
 * stays if it has changes that were not applied.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_setup.h"
#include "ask_show.h"
#include "commands.h"
#include "interrupt.h"
#include "io.h"
#include "output.h"
#include "run_options.h"
#include "show_changes.h"
#include "banned.h"

static void attempt_test_text(const struct attempt *t, char *text, size_t size)
{
    if (!t->tested)
        snprintf(text, size, "not tested");
    else if (t->passed || t->failed)
        snprintf(text, size, "%" PRIu64 " passed, %" PRIu64 " failed", t->passed, t->failed);
    else
        snprintf(text, size, "exit status %d", t->test_status);
}

static void attempts_show(const struct attempt *all, unsigned n, int best)
{
    char tests[64], cost[32], why[512];
    dprintf(STDERR_FILENO, "  %-8s %-24s %-18s %-9s %s\n", "attempt", "tests", "changes", "cost",
            "session");
    for (unsigned i = 0; i < n; i++) {
        const struct attempt *t = &all[i];
        char changes[64];
        attempt_test_text(t, tests, sizeof tests);
        snprintf(changes, sizeof changes, "%zu file%s +%" PRIu64 " -%" PRIu64, t->files,
                 t->files == 1 ? "" : "s", t->added, t->deleted);
        snprintf(cost, sizeof cost, t->money.known ? "$%.4f" : "-", t->money.cost);
        dprintf(STDERR_FILENO, "%s %-8u %-24s %-18s %-9s %s%s%s\n", (int)i == best ? "*" : " ",
                i + 1, tests, changes, cost, t->session, t->why[0] ? "  " : "",
                say_clean(t->why, why, sizeof why));
    }
}

static json_t *attempt_json(const struct attempt *t, bool best)
{
    return json_pack("{s:s, s:b, s:b, s:b, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:s*}", "session",
                     t->session, "best", best, "ended_well", t->ended_well, "tested", t->tested,
                     "test_status", t->test_status, "passed", (json_int_t)t->passed, "failed",
                     (json_int_t)t->failed, "files", (json_int_t)t->files, "added",
                     (json_int_t)t->added, "deleted", (json_int_t)t->deleted, "cost",
                     t->money.known ? json_real(t->money.cost) : json_null(), "why",
                     t->why[0] ? t->why : NULL);
}

/* Runs the attempts, shows how each did, and leaves the changes of the best in `show`. */
static int ask_attempts(struct agent *a, const char *words, const struct run_options *o,
                        struct ask_show *show, struct error *err)
{
    struct attempt all[AGENT_ATTEMPTS_MAX];
    unsigned n = (unsigned)o->attempts;
    int best = -1;
    const struct attempts_sink sink = {.event = ask_show_attempt, .data = show};
    int r = agent_attempts(a, words, &(struct attempts_options){.n = n, .test = o->test}, &sink,
                           all, &best, err);
    if (r < 0)
        return r;
    show->attempts = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(show->attempts, attempt_json(&all[i], (int)i == best));
    if (!show->json)
        attempts_show(all, n, best);
    show->done = true;
    if (best < 0 || !all[best].ended_well)
        snprintf(show->why, sizeof show->why, "%s",
                 best < 0 ? "no attempt could be tested" : all[best].why);
    else if (all[best].test_status != 0 || all[best].failed)
        snprintf(show->why, sizeof show->why,
                 "the test passed in no attempt; the best one is kept");
    return 0;
}

#define PROMPT_MAX   (16u << 20)
#define EXIT_GAVE_UP 1

struct ask {
    struct run_options *options;
    struct settings *settings;
    struct ask_show show;
    struct agent *agent;
    struct ask_end end;
};

/* The words of the command line; `-` stands for what is on stdin, and so does nothing at all. */
static int ask_read_prompt(int n, char **words, struct buf *prompt, struct error *err)
{
    bool from_stdin = n == 0 || strcmp(words[n - 1], "-") == 0;
    if (n == 0 && isatty(STDIN_FILENO))
        return error_set(err, EINVAL, "no prompt; usage: hutch ask [OPTIONS] PROMPT");
    for (int i = 0; i < (from_stdin && n ? n - 1 : n); i++)
        buf_printf(prompt, "%s%s", i ? " " : "", words[i]);
    if (from_stdin && prompt->len)
        buf_append_str(prompt, "\n\n");
    int r = from_stdin ? io_read_all(STDIN_FILENO, prompt) : 0;
    if (r == -ENOBUFS || prompt->failed)
        return error_set(err, E2BIG, "the prompt is longer than %u MB", PROMPT_MAX >> 20);
    if (r < 0)
        return error_errno(err, -r, "cannot read the prompt from stdin");
    if (prompt->len == 0 || strspn(buf_cstr(prompt), " \t\r\n") == prompt->len)
        return error_set(err, EINVAL, "the prompt is empty");
    return 0;
}

static void ask_interrupt_agent(void *data)
{
    agent_interrupt(data);
}

static int ask_open_agent(struct ask *a, struct error *err)
{
    const struct run_options *o = a->options;
    struct agent_options how = agent_setup_options(o, a->settings);
    how.unattended = true;
    int r = agent_open(&how, &(struct agent_sink){.event = ask_show_event, .data = &a->show},
                       &a->agent, err);
    if (r == 0)
        r = interrupt_watch(err);
    if (r < 0)
        return r;
    interrupt_call(ask_interrupt_agent, a->agent);
    ask_show_session(&a->show, a->agent, o->resume != NULL);
    return 0;
}

static int ask_apply(struct ask *a, struct error *err)
{
    struct apply_tally tally = {0};
    struct tool_apply_options how = apply_tally_options(&tally);
    how.files.allow_git_dirs = a->options->allow_git_dirs;
    a->end.conflicts = agent_apply(a->agent, &how, err);
    if (a->end.conflicts < 0)
        return a->end.conflicts;
    a->end.applied = a->end.conflicts == 0;
    apply_summary(&tally);
    return 0;
}

/* A turn without a call reports no changes, but earlier turns of the session may have left some
 * pending. */
static int ask_find_pending(struct ask *a, struct error *err)
{
    if (a->show.changes.count)
        return 0;
    int r = agent_changes(a->agent, &a->show.changes, err);
    if (r == 0 && a->show.json && a->show.changes.count)
        ask_json_print(ask_json_changes(&a->show.changes), ATTEMPT_NONE);
    return r;
}

/* After the turn: what is pending, and whether it goes to the folder. */
static int ask_finish(struct ask *a, struct error *err)
{
    a->end.status = interrupt_signal() ? 128 + interrupt_signal()
                    : a->show.why[0]   ? EXIT_GAVE_UP
                                       : 0;
    int r = ask_find_pending(a, err);
    if (r == 0 && !a->show.json)
        ask_show_changes(&a->show);
    if (r == 0 && a->options->apply && a->end.status == 0 && agent_changes_any(&a->show.changes))
        r = ask_apply(a, err);
    if (r == 0 && a->end.conflicts > 0)
        a->end.status = EXIT_GAVE_UP;
    return r;
}

static int ask_work(struct ask *a, const char *words, struct error *err)
{
    int r = agent_setup(a->options, &a->settings, err);
    if (r == 0)
        r = ask_open_agent(a, err);
    if (r < 0)
        return r;
    if (a->options->attempts > 1)
        r = ask_attempts(a->agent, words, a->options, &a->show, err);
    else
        r = agent_turn(a->agent, words, err);
    if (r < 0)
        ask_find_pending(a,
                         NULL); /* the turn failed, but the person still learns what is pending */
    return r < 0 ? r : ask_finish(a, err);
}

static int ask_run(struct ask *a, const char *words)
{
    struct error err = {0};
    int r = ask_work(a, words, &err);
    if (r < 0) {
        ask_show_error(&a->show, &err);
        a->end.status = interrupt_signal() ? 128 + interrupt_signal() : EXIT_HUTCH;
    }
    a->end.agent = a->agent;
    if (a->agent)
        ask_show_end(&a->show, &a->end);
    interrupt_call(NULL, NULL);
    agent_close(a->agent, true);
    settings_free(a->settings);
    ask_show_free(&a->show);
    return a->end.status;
}

int command_ask(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    _cleanup_buf_ struct buf prompt = BUF_INIT(PROMPT_MAX);
    struct error err = {0};
    int n, status;
    run_options_init_agent(&o);
    if (!command_words(self, argc, argv, &o, 0, -1, &n, &status))
        return status;
    if (agent_setup_check(&o, &err) < 0 || ask_read_prompt(n, argv, &prompt, &err) < 0)
        return say_usage(&err);
    struct ask a = {.options = &o};
    ask_show_init(&a.show, o.json);
    return ask_run(&a, buf_cstr(&prompt));
}
