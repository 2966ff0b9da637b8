/*
 * `hutch ask PROMPT`: one task without interaction. The model's words go to stdout as they come,
 * everything else in short lines to stderr; with --json, one event per line on stdout
 * (docs/agent.md).
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
#include "commands.h"
#include "interrupt.h"
#include "io.h"
#include "output.h"
#include "run_options.h"
#include "show_changes.h"
#include "summary.h"
#include "text.h"
#include "banned.h"

#define PROMPT_MAX    (16u << 20)
#define PIECE_MAX     (4u << 20)
#define CALL_WIDTH    60 /* columns */
#define CHANGES_SHOWN 20
#define EXIT_GAVE_UP  1
#define ATTEMPT_NONE  (~0u)

struct ask {
    struct run_options *options;
    struct settings *settings;
    struct agent *agent;

    /* What was shown. */
    bool json;
    bool terminal;            /* stdout is one: the model's words are made harmless */
    bool in_line;             /* a line of stdout has text */
    struct harmless harmless; /* of the model's words */

    /* How it ended. */
    struct agent_changes changes; /* pending */
    json_t *attempts;             /* how each did, for the last event; or NULL */
    bool done, applied;
    enum model_stop stop;
    char why[256]; /* the task was not finished; empty: it was */
    int conflicts, status;
};

static void ask_print_json(json_t *event, unsigned attempt)
{
    if (!event) /* one that --json does not show */
        return;
    if (attempt != ATTEMPT_NONE)
        json_object_set_new(event, "attempt", json_integer((json_int_t)attempt + 1));
    output_json(event, JSON_COMPACT);
}

static json_t *ask_usage_json(const struct model_usage *u, const struct agent_money *money)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "input", (json_int_t)u->input, "output",
                     (json_int_t)u->output, "cache_read", (json_int_t)u->cache_read, "cache_write",
                     (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking, "cost",
                     money->known ? json_real(money->cost) : json_null());
}

static json_t *ask_changes_json(const struct agent_changes *c)
{
    json_t *files = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const struct agent_change *one = &c->items[i];
        json_array_append_new(files,
                              json_pack("{s:o, s:s, s:I, s:I, s:b}", "path",
                                        text_json(one->path, strlen(one->path)), "kind", one->kind,
                                        "added", (json_int_t)one->added, "deleted",
                                        (json_int_t)one->deleted, "binary", one->binary));
    }
    return json_pack("{s:s, s:o, s:I, s:I, s:b}", "type", "changes", "changes", files, "added",
                     (json_int_t)c->added, "deleted", (json_int_t)c->deleted, "commits",
                     c->commits);
}

/* NULL: the event has no JSON form. */
static json_t *ask_event_json(const struct agent_event *e)
{
    const struct tool_result *r = e->result;
    json_t *event;
    switch (e->kind) {
    case AGENT_TEXT:
        return json_pack("{s:s, s:s%}", "type", "text", "text", e->text, e->n);
    case AGENT_THINKING:
        return json_pack("{s:s, s:s%}", "type", "thinking", "text", e->text, e->n);
    case AGENT_BACK:
        /* A second attempt at the answer differs: how much of what was printed still counts. */
        return json_pack("{s:s, s:s, s:I, s:I}", "type", "text", "text", "", "keep",
                         (json_int_t)e->keep, "keep_thinking", (json_int_t)e->keep_thinking);
    case AGENT_CALL:
        return json_pack("{s:s, s:s, s:s, s:O}", "type", "tool_call", "id", e->id, "name", e->name,
                         "input", e->input);
    case AGENT_RESULT:
        return json_pack("{s:s, s:s, s:s, s:b, s:f, s:o, s:o*}", "type", "tool_result", "id", e->id,
                         "name", e->name, "failed", r->failed, "seconds", e->seconds, "text",
                         json_stringn(r->text.len ? (const char *)r->text.data : "", r->text.len),
                         "data", r->data ? json_deep_copy(r->data) : NULL);
    case AGENT_WAIT:
        return json_pack("{s:s, s:s%, s:b, s:i, s:i}", "type", "error", "text", e->text, e->n,
                         "retrying", 1, "wait_ms", e->wait_ms, "attempts", e->attempt);
    case AGENT_USAGE:
        event = ask_usage_json(&e->usage, &e->money);
        json_object_set_new(event, "type", json_string("usage"));
        json_object_set_new(event, "session", ask_usage_json(&e->session_usage, &e->session_money));
        json_object_set_new(event, "context", json_integer((json_int_t)e->context));
        json_object_set_new(event, "window", json_integer((json_int_t)e->window));
        return event;
    case AGENT_CHANGES:
        return ask_changes_json(e->changes);
    default:
        return NULL;
    }
}

/* Text for people. */

static void ask_put_words(struct ask *a, const char *text, size_t n)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PIECE_MAX);
    if (n == 0)
        return;
    a->in_line = text[n - 1] != '\n';
    if (a->terminal && harmless_append(&a->harmless, text, n, &out) == 0)
        output_write(out.data, out.len);
    else if (!a->terminal)
        output_write(text, n);
}

static void ask_end_line(struct ask *a)
{
    if (a->in_line)
        ask_put_words(a, "\n", 1);
}

static void ask_print_result(unsigned attempt, const struct agent_event *e)
{
    _cleanup_buf_ struct buf line = BUF_INIT(4096);
    char name[128], seconds[SUMMARY_TIME_MAX];
    if (attempt != ATTEMPT_NONE)
        buf_printf(&line, "[%u] ", attempt + 1);
    buf_printf(&line, "▸ %s  ", say_clean(e->name, name, sizeof name));
    summary_of_call(e->name, e->input, CALL_WIDTH, &line);
    buf_printf(&line, "   %s %s ", summary_time(e->seconds, seconds),
               summary_is_bad(e->result) ? "✗" : "✓");
    summary_of_result(e->name, e->result, 2 * CALL_WIDTH, &line);
    while (line.len > 0 && line.data[line.len - 1] == ' ')
        line.len--;
    buf_append(&line, "\n", 1);
    io_write_all(STDERR_FILENO, line.data, line.len);
}

static void ask_on_attempt_event(void *data, unsigned attempt, const struct agent_event *e)
{
    struct ask *a = data;
    bool alone = attempt == ATTEMPT_NONE, text = e->kind == AGENT_TEXT;
    if (e->kind == AGENT_CHANGES && alone) {
        agent_changes_free(&a->changes);
        agent_changes_copy(e->changes, &a->changes);
    } else if (e->kind == AGENT_DONE && alone) {
        a->done = true;
        a->stop = e->stop;
        snprintf(a->why, sizeof a->why, "%s", e->why ? e->why : "");
    }
    if (a->json)
        ask_print_json(ask_event_json(e), attempt);
    else if (text && alone)
        ask_put_words(a, e->text, e->n);
    if (e->kind == AGENT_NOTE || (!a->json && (e->kind == AGENT_BACK || e->kind == AGENT_SAID ||
                                               e->kind == AGENT_RESULT || e->kind == AGENT_WAIT)))
        ask_end_line(a);
    if (e->kind == AGENT_NOTE)
        say("%.*s", (int)e->n, e->text);
    else if (e->kind == AGENT_BACK && !a->json)
        say("the connection was lost; the new answer continues differently");
    else if (e->kind == AGENT_RESULT && !a->json)
        ask_print_result(attempt, e);
    else if (e->kind == AGENT_WAIT && !a->json)
        say("%.*s; retrying in %.1f s (attempt %d of %d)", (int)e->n, e->text, e->wait_ms / 1000.0,
            e->attempt + 1, e->attempts + 1);
}

static void ask_on_event(void *data, const struct agent_event *e)
{
    ask_on_attempt_event(data, ATTEMPT_NONE, e);
}

static void ask_print_changes(const struct agent_changes *c)
{
    char path[512];
    for (size_t i = 0; i < c->count && i < CHANGES_SHOWN; i++) {
        const struct agent_change *one = &c->items[i];
        say_clean(one->path, path, sizeof path);
        if (one->binary)
            dprintf(STDERR_FILENO, "  %-8s %s (binary)\n", one->kind, path);
        else
            dprintf(STDERR_FILENO, "  %-8s %s +%" PRIu64 " -%" PRIu64 "\n", one->kind, path,
                    one->added, one->deleted);
    }
    if (c->count > CHANGES_SHOWN)
        dprintf(STDERR_FILENO, "  and %zu more\n", c->count - CHANGES_SHOWN);
    if (c->count)
        say("%zu file%s changed, +%" PRIu64 " -%" PRIu64, c->count, c->count == 1 ? "" : "s",
            c->added, c->deleted);
}

/* Attempts in parallel: a table for people, objects for the last event. */

static void attempt_print(unsigned i, const struct attempt *t, bool best)
{
    char tests[64], changes[64], cost[32], why[512];
    if (!t->tested)
        snprintf(tests, sizeof tests, "not tested");
    else if (t->passed || t->failed)
        snprintf(tests, sizeof tests, "%" PRIu64 " passed, %" PRIu64 " failed", t->passed,
                 t->failed);
    else
        snprintf(tests, sizeof tests, "exit status %d", t->test_status);
    snprintf(changes, sizeof changes, "%zu file%s +%" PRIu64 " -%" PRIu64, t->files,
             t->files == 1 ? "" : "s", t->added, t->deleted);
    snprintf(cost, sizeof cost, t->money.known ? "$%.4f" : "-", t->money.cost);
    dprintf(STDERR_FILENO, "%s %-8u %-24s %-18s %-9s %s%s%s\n", best ? "*" : " ", i + 1, tests,
            changes, cost, t->session, t->why[0] ? "  " : "", say_clean(t->why, why, sizeof why));
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

/* Runs the attempts and shows how each did; the agent has the changes of the best then. */
static int ask_attempts(struct ask *a, const char *prompt, struct error *err)
{
    struct attempt all[AGENT_ATTEMPTS_MAX];
    unsigned n = (unsigned)a->options->attempts;
    int best = -1;
    const struct attempts_sink sink = {.event = ask_on_attempt_event, .data = a};
    const struct attempts_options how = {.n = n, .test = a->options->test};
    int r = agent_attempts(a->agent, prompt, &how, &sink, all, &best, err);
    if (r < 0)
        return r;
    a->attempts = json_array();
    if (!a->json)
        dprintf(STDERR_FILENO, "  %-8s %-24s %-18s %-9s %s\n", "attempt", "tests", "changes",
                "cost", "session");
    for (unsigned i = 0; i < n; i++) {
        json_array_append_new(a->attempts, attempt_json(&all[i], (int)i == best));
        if (!a->json)
            attempt_print(i, &all[i], (int)i == best);
    }
    a->done = true;
    if (best < 0 || !all[best].ended_well)
        snprintf(a->why, sizeof a->why, "%s",
                 best < 0 ? "no attempt could be tested" : all[best].why);
    else if (all[best].test_status != 0 || all[best].failed)
        snprintf(a->why, sizeof a->why, "the test passed in no attempt; the best one is kept");
    return 0;
}

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
    int r = agent_setup(a->options, &a->settings, err);
    if (r < 0)
        return r;
    struct agent_options how = agent_setup_options(a->options, a->settings);
    const struct agent_sink sink = {.event = ask_on_event, .data = a};
    how.unattended = true;
    r = agent_open(&how, &sink, &a->agent, err);
    if (r == 0)
        r = interrupt_watch(err);
    if (r < 0)
        return r;
    interrupt_call(ask_interrupt_agent, a->agent);
    struct agent_state state;
    agent_state(a->agent, &state);
    if (a->json)
        ask_print_json(json_pack("{s:s, s:s, s:s, s:s*, s:b}", "type", "session", "session",
                                 state.session, "model", state.model, "workspace", state.workspace,
                                 "resumed", a->options->resume != NULL),
                       ATTEMPT_NONE);
    return 0;
}

/* A turn without a call reports no changes, but earlier turns of the session may have left some
 * pending. */
static int ask_find_pending(struct ask *a, struct error *err)
{
    if (a->changes.count)
        return 0;
    int r = agent_changes(a->agent, &a->changes, err);
    if (r == 0 && a->json && a->changes.count)
        ask_print_json(ask_changes_json(&a->changes), ATTEMPT_NONE);
    return r;
}

/* The turn, then what is pending, and whether it goes to the folder. */
static int ask_work(struct ask *a, const char *prompt, struct error *err)
{
    const struct run_options *o = a->options;
    int r = ask_open_agent(a, err);
    if (r < 0)
        return r;
    r = o->attempts > 1 ? ask_attempts(a, prompt, err) : agent_turn(a->agent, prompt, err);
    if (r < 0) {
        ask_find_pending(a, NULL); /* the person still learns what is pending */
        return r;
    }
    a->status = interrupt_signal() ? 128 + interrupt_signal() : a->why[0] ? EXIT_GAVE_UP : 0;
    r = ask_find_pending(a, err);
    if (r < 0)
        return r;
    if (!a->json)
        ask_print_changes(&a->changes);
    if (!o->apply || a->status != 0 || !agent_changes_any(&a->changes))
        return 0;

    struct apply_tally tally = {0};
    struct tool_apply_options how = apply_tally_options(&tally);
    how.files.allow_git_dirs = o->allow_git_dirs;
    a->conflicts = agent_apply(a->agent, &how, err);
    if (a->conflicts < 0)
        return a->conflicts;
    a->applied = a->conflicts == 0;
    a->status = a->applied ? 0 : EXIT_GAVE_UP;
    apply_summary(&tally);
    return 0;
}

static void ask_print_end(struct ask *a)
{
    struct agent_state state;
    const char *box = agent_changes_any(&a->changes) && !a->applied ? agent_box(a->agent) : NULL;
    agent_state(a->agent, &state);
    if (a->json)
        ask_print_json(json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:b, s:i, s:o, s:i, s:O*}", "type",
                                 "done", "session", state.session, "stop",
                                 a->done ? model_stop_name(a->stop) : NULL, "why",
                                 a->why[0] ? a->why : NULL, "box", box, "applied", a->applied,
                                 "conflicts", a->conflicts, "cost",
                                 state.money.known ? json_real(state.money.cost) : json_null(),
                                 "status", a->status, "attempts", a->attempts),
                       ATTEMPT_NONE);
    if (a->why[0])
        say("%s; resume with 'hutch --resume %s'", a->why, state.session);
    if (box && !a->json)
        say("the changes are pending in the box: 'hutch box diff %s' shows them, 'hutch box apply "
            "%s' applies them, 'hutch --resume %s' continues the session",
            box, box, state.session);
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
    struct ask a = {.options = &o, .json = o.json, .terminal = isatty(STDOUT_FILENO)};
    if (ask_work(&a, buf_cstr(&prompt), &err) < 0) {
        ask_end_line(&a);
        if (a.json)
            ask_print_json(
                json_pack("{s:s, s:s, s:b}", "type", "error", "text", err.text, "retrying", 0),
                ATTEMPT_NONE);
        say_lines(err.text); /* may have several lines: how to give a key */
        a.status = interrupt_signal() ? 128 + interrupt_signal() : EXIT_HUTCH;
    }
    if (a.agent)
        ask_print_end(&a);
    interrupt_call(NULL, NULL);
    agent_close(a.agent, true);
    settings_free(a.settings);
    agent_changes_free(&a.changes);
    json_decref(a.attempts);
    return a.status;
}
