/*
 * `hutch chat` and `hutch ask PROMPT`: the commands that talk to an agent.
 *
 * `ask` runs one task without interaction. The model's words go to stdout as they come, everything
 * else in short lines to stderr; with --json, one event per line on stdout (docs/agent.md). Ctrl-C
 * ends the turn and what runs in the box; the session is saved and can be resumed. The box stays if
 * it has changes that were not applied.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "cli.h"
#include "git.h"
#include "text.h"
#include "io.h"
#include "run_options.h"
#include "config.h"
#include "tui.h"
#include "banned.h"

#define ATTEMPTS_MAX  16
#define PROMPT_MAX    (16u << 20)
#define PIECE_MAX     (4u << 20)
#define CALL_WIDTH    60 /* columns */
#define CHANGES_SHOWN 20
#define EXIT_GAVE_UP  1
#define ATTEMPT_NONE  (~0u)

/* Do the options go together? */
static int agent_check_options(const struct run_options *o, struct error *err)
{
    if (o->apply && o->no_apply)
        return error_set(err, EINVAL, "--apply and --no-apply contradict each other");
    if (o->apply && o->spec.box.mode != BOX_COW)
        return error_set(err, EINVAL, APPLY_NEEDS_COW);
    if (o->attempts > 1 && !o->test)
        return error_set(err, EINVAL, "--attempts needs --test CMD, which scores each attempt");
    if (o->attempts > ATTEMPTS_MAX)
        return error_set(err, EINVAL, "--attempts: at most %d", ATTEMPTS_MAX);
    if (o->attempts > 1 && o->spec.box.mode != BOX_COW)
        return error_set(err, EINVAL,
                         "--attempts needs --mode cow: each attempt has its own files");
    if (o->attempts > 1 && o->record)
        return error_set(err, EINVAL,
                         "--record records one conversation: it cannot be used with --attempts");
    return 0;
}

/* Reads the settings, resolves the options and says notes about both. */
static int agent_setup(struct run_options *o, struct settings **ret_settings,
                       struct agent_options *ret, struct error *err)
{
    struct settings *settings = NULL;
    bool named = o->spec.box.workspace;
    size_t i;
    json_t *note;
    int r = named ? box_spec_resolve(&o->spec, err) : 0;
    if (r == 0)
        r = settings_read(".", o->spec.box.workspace, o->trust, &settings, err);
    if (r == 0 && named) {
        const char *folder = o->spec.box.workspace;
        _cleanup_free_ char *top = folder ? git_repo_top(folder) : NULL;
        if (top && strcmp(top, folder) != 0)
            say("the workspace is only a part of a git repository, so git does not work in the "
                "box; to change that, use -w %s",
                top);
    } else if (r == 0) {
        /* SAFEDIR, else the whole repository that the person is in, since git and most builds need
         * its top. The agent starts in the folder that they are in. */
        _cleanup_free_ char *here = realpath(".", NULL);
        const char *safe = settings_get(settings, "SAFEDIR");
        char *top = here && !safe ? git_repo_top(here) : NULL;
        size_t n = top ? strlen(top) : 0;
        if (top && strlen(here) > n)
            snprintf(o->start, sizeof o->start, "%s", here + n + 1);
        o->spec.box.workspace = top ? box_spec_keep(&o->spec, top) : safe;
        r = top && !o->spec.box.workspace ? error_set(err, ENOMEM, "no memory")
                                          : box_spec_resolve(&o->spec, err);
    }
    if (r == 0 && !o->no_toolchains && !o->spec.image)
        r = box_spec_add_toolchains(&o->spec, err);
    if (r < 0) {
        settings_free(settings);
        return r;
    }
    json_array_foreach((json_t *)settings_notes(settings), i, note)
        say("%s", json_string_value(note));
    run_options_say_notes(o);
    *ret_settings = settings;
    *ret = (struct agent_options){.host = run_options_host(o),
                                  .box = &o->spec.box,
                                  .settings = settings,
                                  .model = o->model,
                                  .resume = o->resume,
                                  .system_file = o->system,
                                  .record = o->record,
                                  .box_options_given = o->spec.fields & ~(unsigned)BOX_SET_FOLDER,
                                  .max_tokens =
                                      o->max_tokens ? o->max_tokens : settings_max_tokens(settings),
                                  .max_turns = (unsigned)o->max_turns,
                                  .max_cost = o->max_cost,
                                  .start = o->start[0] ? o->start : NULL};
    return 0;
}

/* hutch chat */

/* Asks the person at the terminal, if there is one, about each folder that would set something and
 * that they have not decided about. */
static int chat_ask_trust(const struct run_options *o, struct error *err)
{
    struct settings *s = NULL;
    const struct trust *folders[2];
    int r = 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return 0;
    if (settings_read(".", o->spec.box.workspace, o->trust, &s, NULL) < 0)
        return 0; /* agent_setup() fails for the same reason and says it */
    size_t n = settings_untrusted(s, folders);
    for (size_t i = 0; i < n && r >= 0; i++) {
        json_t *items = settings_ignored(s, folders[i]);
        if (folders[i]->state != TRUST_NO)
            r = trust_ask(folders[i], items, err);
        json_decref(items);
    }
    settings_free(s);
    return r;
}

static int chat_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    _cleanup_buf_ struct buf first = BUF_INIT(PROMPT_MAX);
    struct settings *settings = NULL;
    struct agent_options how;
    struct model_spec spec;
    struct error err = {0};
    int n = 0, status = 0;
    run_options_init_agent(&o);
    if (!command_words(self, argc, argv, &o, 0, -1, &n, &status))
        return status;
    if (agent_check_options(&o, &err) < 0)
        return say_usage(&err);
    for (int i = 0; i < n; i++)
        buf_printf(&first, "%s%s", i ? " " : "", argv[i]);
    int r = n && !buf_cstr(&first) ? error_set(&err, E2BIG, "the first message is too long") : 0;
    if (r == 0)
        r = chat_ask_trust(&o, &err);
    if (r == 0)
        r = agent_setup(&o, &settings, &how, &err);
    /* A missing key is an error before the full-screen interface starts, which would hide it. */
    if (r == 0)
        r = settings_model(settings, o.model, &spec, &err);
    if (r == 0)
        r = tui_run(&(struct tui_options){.agent = &how,
                                          .apply = o.apply,
                                          .no_apply = o.no_apply,
                                          .allow_git_dirs = o.allow_git_dirs,
                                          .plain = o.plain,
                                          .first = n ? (const char *)first.data : NULL,
                                          .attempts = (unsigned)o.attempts,
                                          .test = o.test},
                    &err);
    settings_free(settings);
    if (r < 0)
        say_lines(err.text);
    return r < 0 ? EXIT_HUTCH : 0;
}

const struct command_body COMMAND_CHAT = {
    .usage = "[OPTIONS] [WORDS...]",
    .options = {{RUN_OPTIONS, FOR_CHAT}, {BOX_OPTIONS, BOX_OPTION_AGENT}},
    .notes = "The agent works in a box. It shows its changes at the end of a turn; they reach your "
             "folder when you apply them. /help lists the commands of the chat.",
    .run = chat_run};

/* hutch ask */

struct ask {
    struct agent *agent;
    bool json;
    bool terminal;            /* stdout is one: the model's words are made harmless */
    bool in_line;             /* a line of stdout has text */
    struct harmless harmless; /* of the model's words */

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

/* `[2] ▸ bash  make test   0.3s ✗ exit 2` */
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

/* Fits attempts_sink.event. */
static void ask_on_attempt_event(void *data, unsigned attempt, const struct agent_event *e)
{
    struct ask *a = data;
    bool alone = attempt == ATTEMPT_NONE;
    if (e->kind == AGENT_CHANGES && alone) {
        agent_changes_free(&a->changes);
        agent_changes_copy(e->changes, &a->changes);
    } else if (e->kind == AGENT_DONE && alone) {
        a->done = true;
        a->stop = e->stop;
        snprintf(a->why, sizeof a->why, "%s", e->why ? e->why : "");
    }
    if (a->json)
        ask_print_json(agent_event_json(e), attempt);
    if (e->kind == AGENT_NOTE) {
        ask_end_line(a);
        say("%.*s", (int)e->n, e->text);
    }
    if (a->json)
        return;
    switch (e->kind) {
    case AGENT_TEXT:
        if (alone)
            ask_put_words(a, e->text, e->n);
        break;
    case AGENT_SAID:
        ask_end_line(a);
        break;
    case AGENT_BACK:
        ask_end_line(a);
        say("the connection was lost; the new answer continues differently");
        break;
    case AGENT_RESULT:
        ask_end_line(a);
        ask_print_result(attempt, e);
        break;
    case AGENT_WAIT:
        ask_end_line(a);
        say("%.*s; retrying in %.1f s (attempt %d of %d)", (int)e->n, e->text, e->wait_ms / 1000.0,
            e->attempt + 1, e->attempts + 1);
        break;
    default:
        break;
    }
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

/* Runs the attempts in parallel and shows how each did; the agent has the changes of the best
 * then. */
static int ask_attempts(struct ask *a, const struct run_options *o, const char *prompt,
                        struct error *err)
{
    struct attempt all[ATTEMPTS_MAX];
    int best = -1;
    const struct attempts_sink sink = {.event = ask_on_attempt_event, .data = a};
    const struct attempts_options how = {.n = (unsigned)o->attempts, .test = o->test};
    int r = agent_attempts(a->agent, prompt, &how, &sink, all, &best, err);
    if (r < 0)
        return r;
    a->attempts = json_array();
    if (!a->json)
        dprintf(STDERR_FILENO, "  %-8s %-24s %-18s %-9s %s\n", "attempt", "tests", "changes",
                "cost", "session");
    for (unsigned i = 0; i < how.n; i++) {
        const struct attempt *t = &all[i];
        char tests[64] = "not tested", changes[64], cost[32], why[512];
        bool is_best = (int)i == best;
        json_array_append_new(
            a->attempts,
            json_pack("{s:s, s:b, s:b, s:b, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:s*}", "session",
                      t->session, "best", is_best, "ended_well", t->ended_well, "tested", t->tested,
                      "test_status", t->test_status, "passed", (json_int_t)t->passed, "failed",
                      (json_int_t)t->failed, "files", (json_int_t)t->files, "added",
                      (json_int_t)t->added, "deleted", (json_int_t)t->deleted, "cost",
                      t->money.known ? json_real(t->money.cost) : json_null(), "why",
                      t->why[0] ? t->why : NULL));
        if (a->json)
            continue;
        if (t->tested && (t->passed || t->failed))
            snprintf(tests, sizeof tests, "%" PRIu64 " passed, %" PRIu64 " failed", t->passed,
                     t->failed);
        else if (t->tested)
            snprintf(tests, sizeof tests, "exit status %d", t->test_status);
        snprintf(changes, sizeof changes, "%zu file%s +%" PRIu64 " -%" PRIu64, t->files,
                 t->files == 1 ? "" : "s", t->added, t->deleted);
        snprintf(cost, sizeof cost, t->money.known ? "$%.4f" : "-", t->money.cost);
        dprintf(STDERR_FILENO, "%s %-8u %-24s %-18s %-9s %s%s%s\n", is_best ? "*" : " ", i + 1,
                tests, changes, cost, t->session, t->why[0] ? "  " : "",
                say_clean(t->why, why, sizeof why));
    }
    a->done = true;
    if (best < 0 || !all[best].ended_well)
        snprintf(a->why, sizeof a->why, "%s",
                 best < 0 ? "no attempt could be tested" : all[best].why);
    else if (all[best].test_status != 0 || all[best].failed)
        snprintf(a->why, sizeof a->why, "no attempt passed the test; the best one is kept");
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

/* A turn without a call reports no changes, but earlier turns of the session may have left some
 * pending. */
static int ask_find_pending(struct ask *a, struct error *err)
{
    if (a->changes.count)
        return 0;
    agent_changes_free(&a->changes);
    int r = agent_changes(a->agent, &a->changes, err);
    if (r == 0 && a->json && a->changes.count)
        ask_print_json(agent_changes_json(&a->changes), ATTEMPT_NONE);
    return r;
}

/* The turn, then what is pending, and whether it goes to the folder. */
static int ask_work(struct ask *a, const struct run_options *o, struct agent_options *how,
                    const char *prompt, struct error *err)
{
    const struct agent_sink sink = {.event = ask_on_event, .data = a};
    struct agent_state state;
    how->unattended = true;
    int r = agent_open(how, &sink, &a->agent, err);
    if (r == 0)
        r = interrupt_watch(err);
    if (r < 0)
        return r;
    interrupt_call(ask_interrupt_agent, a->agent);
    agent_state(a->agent, &state);
    if (a->json)
        ask_print_json(json_pack("{s:s, s:s, s:s, s:s*, s:b}", "type", "session", "session",
                                 state.session, "model", state.model, "workspace", state.workspace,
                                 "resumed", o->resume != NULL),
                       ATTEMPT_NONE);
    r = o->attempts > 1 ? ask_attempts(a, o, prompt, err) : agent_turn(a->agent, prompt, err);
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
    struct tool_apply_options apply = apply_tally_options(&tally);
    apply.files.allow_git_dirs = o->allow_git_dirs;
    a->conflicts = agent_apply(a->agent, &apply, err);
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

static int ask_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    _cleanup_buf_ struct buf prompt = BUF_INIT(PROMPT_MAX);
    struct settings *settings = NULL;
    struct agent_options how;
    struct error err = {0};
    int n, status;
    run_options_init_agent(&o);
    if (!command_words(self, argc, argv, &o, 0, -1, &n, &status))
        return status;
    if (agent_check_options(&o, &err) < 0 || ask_read_prompt(n, argv, &prompt, &err) < 0)
        return say_usage(&err);
    struct ask a = {.json = o.json, .terminal = isatty(STDOUT_FILENO)};
    if (agent_setup(&o, &settings, &how, &err) < 0 ||
        ask_work(&a, &o, &how, buf_cstr(&prompt), &err) < 0) {
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
    settings_free(settings);
    agent_changes_free(&a.changes);
    json_decref(a.attempts);
    return a.status;
}

const struct command_body COMMAND_ASK = {
    .usage = "[OPTIONS] PROMPT",
    .options = {{RUN_OPTIONS, FOR_ASK}, {BOX_OPTIONS, BOX_OPTION_AGENT}},
    .notes =
        "PROMPT may be several words; - reads it from stdin. The exit status is 0 if the agent "
        "finished the task, 1 if it gave up, reached a limit or left conflicts, 130 after Ctrl-C, "
        "125 if the model or the box failed. Changes that are not applied stay in the box; "
        "continue the session with --resume ID.",
    .run = ask_run};
