/*
 * The agent's status for the model: its plan, and background commands of the box. Every request has
 * it, so that the model knows it however much of the conversation was pruned.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent_session.h"
#include "session.h"
#include "banned.h"

#define RUNNING_MAX 64
#define COMMAND_MAX 200
#define ITEM_MAX    300

static void background_forget(struct agent *a, size_t i)
{
    free(a->running[i].command);
    memmove(&a->running[i], &a->running[i + 1], (--a->n_running - i) * sizeof *a->running);
}

int agent_status_prompt(struct agent *a, struct buf *text)
{
    size_t k;
    json_t *item, *plan = tool_session_plan(a->tools);
    if (json_array_size(plan) > 0)
        buf_append_str(text, "Your plan:\n");
    json_array_foreach(plan, k, item)
        buf_printf(text, "- %s: %.*s\n", json_get_string(item, "state"), ITEM_MAX,
                   json_get_string(item, "text"));
    json_decref(plan);
    for (size_t i = 0; i < a->n_running;) { /* forget those that have ended */
        bool runs = false;
        if (tool_session_is_running(a->tools, a->running[i].handle, &runs) < 0 || !runs)
            background_forget(a, i);
        else
            i++;
    }
    if (a->n_running > 0)
        buf_append_str(
            text,
            "Running in the background (bash with the handle shows new output, or kills it):\n");
    for (size_t i = 0; i < a->n_running; i++)
        buf_printf(text, "- handle %" PRIu64 ": %s\n", a->running[i].handle, a->running[i].command);
    return text->failed ? -ENOMEM : 0;
}

static void background_add(struct agent *a, uint64_t handle, const char *command)
{
    struct running *more = a->n_running < RUNNING_MAX
                               ? reallocarray(a->running, a->n_running + 1, sizeof *more)
                               : NULL;
    if (!more)
        return;
    a->running = more;
    char *text = strndup(command, COMMAND_MAX);
    if (!text)
        return;
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    a->running[a->n_running++] = (struct running){.handle = handle, .command = text};
}

void agent_note_background(struct agent *a, const json_t *input, const struct tool_result *r)
{
    const char *command = json_get_string(input, "command");
    json_int_t handle = json_get_integer(r->data, "handle");
    if (!r->lingers || r->failed || handle <= 0 || !command)
        return;
    background_add(a, (uint64_t)handle, command);
    agent_append(a,
                 message_of_hutch("background", "{s:s, s:I, s:s}", "box", workbox_id(a->box),
                                  "handle", handle, "command", command),
                 NULL);
}

/* Those that the history has of this very box; whether they still run is checked when it matters.
 */
void agent_restore_background(struct agent *a)
{
    for (size_t i = 0; i < history_count(a->history); i++) {
        json_t *m = NULL;
        const struct history_entry *e = history_entry(a->history, i);
        if (e->role != HISTORY_HUTCH || e->kind != HISTORY_OTHER ||
            history_read(a->history, i, &m, NULL) < 0)
            continue;
        const char *kind = json_get_string(m, "kind");
        const char *box = json_get_string(m, "box");
        const char *command = json_get_string(m, "command");
        if (kind && box && command && strcmp(kind, "background") == 0 &&
            strcmp(box, workbox_id(a->box)) == 0)
            background_add(a, (uint64_t)json_get_integer(m, "handle"), command);
        json_decref(m);
    }
}

void agent_forget_background(struct agent *a)
{
    while (a->n_running)
        background_forget(a, a->n_running - 1);
    free(a->running);
    a->running = NULL;
}
