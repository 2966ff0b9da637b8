/*
 * What an agent reports: events for its frontend, notes for the model, and what was used up; and
 * its status for the model, the plan and background commands of the box. Every request has that, so
 * that the model knows it however much of the conversation was pruned.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent_session.h"
#include "banned.h"

#define RUNNING_MAX 64
#define COMMAND_MAX 200
#define ITEM_MAX    300

void agent_emit(struct agent *a, const struct agent_event *e)
{
    if (a->sink.event)
        a->sink.event(a->sink.data, e);
}

void agent_note(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    agent_emit(a, &(struct agent_event){.kind = AGENT_NOTE, .text = text, .n = strlen(text)});
}

void prompt_note_printf(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_printf(&a->prompt_notes, "[%s]\n", text);
}

void prompt_note(struct agent *a, const char *text, size_t n)
{
    if (a->prompt_notes.len + n + 1 > a->prompt_notes.max) /* the model can look for itself */
        return;
    buf_append(&a->prompt_notes, text, n);
    buf_append(&a->prompt_notes, "\n", 1);
}

void agent_account(struct agent *a, const struct model_usage *u)
{
    double cost = u->known ? model_price_of(&a->facts.price, u) : -1;
    model_usage_add(&a->usage, u);
    a->turn.tokens += u->output;
    if (cost >= 0) {
        a->turn.cost += cost;
        a->money.cost += cost;
        a->money.known = true;
    }
    agent_emit(a, &(struct agent_event){.kind = AGENT_USAGE,
                                        .usage = *u,
                                        .money = {.known = cost >= 0, .cost = cost >= 0 ? cost : 0},
                                        .session_usage = a->usage,
                                        .session_money = a->money,
                                        .context = context_tokens(a->context),
                                        .window = a->facts.window});
}

/* Undone turns count as well: they were paid for. */
void agent_restore_usage(struct agent *a)
{
    struct history_totals t;
    history_totals(a->history, &t);
    a->usage = (struct model_usage){.known = t.input || t.output,
                                    .input = t.input,
                                    .output = t.output,
                                    .cache_read = t.cache_read,
                                    .cache_write = t.cache_write};
    a->money = (struct agent_money){.known = t.cost >= 0, .cost = t.cost >= 0 ? t.cost : 0};
}

static void background_forget(struct agent *a, size_t i)
{
    free(a->running[i].command);
    memmove(&a->running[i], &a->running[i + 1], (--a->n_running - i) * sizeof *a->running);
}

void agent_status_prompt(struct agent *a, struct buf *text)
{
    size_t k;
    json_t *item;
    _cleanup_json_ json_t *plan = tool_session_plan(a->tools);
    if (json_array_size(plan) > 0)
        buf_append_str(text, "Your plan:\n");
    json_array_foreach(plan, k, item)
        buf_printf(text, "- %s: %.*s\n", json_get_string(item, "state"), ITEM_MAX,
                   json_get_string(item, "text"));
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

/* Those that the history has of this very box; whether they still run is checked when it
 * matters. */
void agent_restore_background(struct agent *a)
{
    for (size_t i = 0; i < history_count(a->history); i++) {
        _cleanup_json_ json_t *m = NULL;
        const struct history_entry *e = history_entry(a->history, i);
        if (e->role != HISTORY_HUTCH || e->kind != HISTORY_OTHER ||
            history_read(a->history, i, &m, NULL) < 0)
            continue;
        const char *command = json_get_string(m, "command");
        if (command && strcmp(json_get_string_or(m, "kind", ""), "background") == 0 &&
            strcmp(json_get_string_or(m, "box", ""), workbox_id(a->box)) == 0)
            background_add(a, (uint64_t)json_get_integer(m, "handle"), command);
    }
}

void agent_forget_background(struct agent *a)
{
    while (a->n_running)
        background_forget(a, a->n_running - 1);
    free(a->running);
    a->running = NULL;
}
