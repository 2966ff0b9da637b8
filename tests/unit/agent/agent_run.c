/*
 * An agent driven line by line, for tests/agent/test_agent.py: what chat does with it, without a
 * terminal.
 *
 *     agent_run FOLDER MODEL [SESSION]
 *
 *     turn WORDS | own COMMAND | undo N | fork TURN | use N | apply | changes | clear | state |
 *     close | model
 * NAME
 *
 * Answers are lines of JSON, one per command; notes of the agent come before it. Agents are
 * numbered from 0, `fork` makes the next one, `use` says which is meant.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "banned.h"

#define AGENTS_MAX 8

static json_t *notes;
static json_t *why;

static void take(void *data, const struct agent_event *e)
{
    if (e->kind == AGENT_NOTE)
        json_array_append_new(notes, json_stringn(e->text, e->n));
    if (e->kind == AGENT_DONE && e->why)
        why = json_string(e->why);
}

static json_t *changes_of(struct agent *a)
{
    struct agent_changes c = {0};
    json_t *o = json_object();
    if (agent_changes(a, &c, NULL) < 0)
        return o;
    for (size_t i = 0; i < c.count; i++)
        json_object_set_new(o, c.items[i].path,
                            json_pack("[s, I, I]", c.items[i].kind, (json_int_t)c.items[i].added,
                                      (json_int_t)c.items[i].deleted));
    agent_changes_free(&c);
    return o;
}

static json_t *state_of(struct agent *a)
{
    struct agent_state s;
    agent_state(a, &s);
    return json_pack("{s:s, s:s, s:i, s:i, s:I, s:I}", "session", s.session, "model", s.model,
                     "turns", (int)s.turns, "running", (int)s.running, "input",
                     (json_int_t)s.usage.input, "output", (json_int_t)s.usage.output);
}

static void answer(int r, const struct error *err, struct agent *a)
{
    const char *box = a ? agent_box(a) : NULL;
    json_t *o = json_pack("{s:i, s:s, s:O, s:o*, s:o*, s:o*, s:s*}", "result", r, "error",
                          err->text, "notes", notes, "why", why, "changes",
                          a ? changes_of(a) : NULL, "state", a ? state_of(a) : NULL, "box", box);
    char *line = json_dumps(o, JSON_COMPACT);
    puts(line);
    fflush(stdout);
    free(line);
    json_decref(o);
    json_array_clear(notes);
    why = NULL;
}

/* A command of the person's own in the agent's box. */
static void run_own(struct agent *a, const char *command)
{
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    json_t *input = json_pack("{s:s}", "command", command);
    tool_call(agent_tools(a), &(struct tool_request){.name = "bash", .input = input, .cancel = -1},
              &result);
    json_decref(input);
}

/* What it did comes as a note. */
static int run_undo(struct agent *a, unsigned n, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    struct agent_undone undone;
    int r = agent_undo(a, n, &undone, err);
    if (r == 0 && agent_undone_text(&undone, &text) == 0)
        json_array_append_new(notes, json_stringn((const char *)text.data, text.len));
    return r;
}

static int run(struct agent **agents, size_t *at, size_t *n, char *line, struct error *err)
{
    const struct agent_sink sink = {.event = take};
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = 0;
    struct agent *a = agents[*at];
    if (strcmp(line, "turn") == 0)
        return agent_turn(a, rest, err);
    if (strcmp(line, "own") == 0)
        run_own(a, rest);
    if (strcmp(line, "undo") == 0)
        return run_undo(a, (unsigned)atoi(rest), err);
    if (strcmp(line, "clear") == 0)
        return agent_clear(a, err);
    if (strcmp(line, "model") == 0)
        return agent_set_model(a, rest, err);
    if (strcmp(line, "apply") == 0)
        return agent_apply(a, NULL, err);
    if (strcmp(line, "use") == 0)
        *at = (size_t)atoi(rest);
    if (strcmp(line, "close") == 0)
        agents[*at] = agent_close(a, true);
    if (strcmp(line, "fork") == 0 && *n < AGENTS_MAX) {
        int r = agent_fork(a, (unsigned)atoi(rest), &sink, &agents[*n], err);
        if (r == 0)
            *at = (*n)++;
        return r;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct box_options box;
    struct settings *settings = NULL;
    struct error err = {0};
    struct agent *agents[AGENTS_MAX] = {0};
    size_t at = 0, n = 1, size = 0;
    char *line = NULL;
    notes = json_array();
    box_options_default(&box);
    box.workspace = argv[1];
    int r = settings_read(argv[1], argv[1], true, &settings, &err);
    const struct agent_options o = {
        .box = &box, .settings = settings, .model = argv[2], .resume = argc > 3 ? argv[3] : NULL};
    if (r == 0)
        r = agent_open(&o, &(struct agent_sink){.event = take}, &agents[0], &err);
    answer(r, &err, agents[0]);
    while (r == 0 && getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        err = (struct error){0};
        int result = run(agents, &at, &n, line, &err);
        answer(result, &err, agents[at]);
    }
    for (size_t i = 0; i < n; i++)
        agent_close(agents[i], true);
    settings_free(settings);
    json_decref(notes);
    free(line);
    return r < 0;
}
