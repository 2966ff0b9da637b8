/* Commands for the worker, and what comes of them. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "chat.h"
#include "thread.h"
#include "banned.h"

void chat_note(struct chat *c, const char *fmt, ...)
{
    _cleanup_free_ char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        return;
    }
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = 0;
    view_add(c->view, ITEM_NOTE, text, (size_t)n);
    c->changed = true;
}

void chat_run(struct chat *c, struct chat_entry *entry)
{
    const struct chat_command *command = entry->command;
    c->running = command;
    c->began = clock_now();
    c->stopping = false;
    c->n_attempts = 0;
    snprintf(c->busy, sizeof c->busy, "%s", command->busy ? command->busy : "working");
    if (command == &CHAT_MESSAGE) {
        c->has_messages = true;
        c->review = false;
        view_add(c->view, ITEM_USER, entry->text, strlen(entry->text));
    }
    worker_run(c->worker, entry);
    c->changed = true;
}

bool chat_is_busy(const struct chat *c)
{
    return c->running && !(c->running->flags & CHAT_INTERNAL);
}

/* Queued messages return to the input, before what is being written. */
void chat_stop(struct chat *c)
{
    _cleanup_buf_ struct buf all = BUF_INIT(EDITOR_TYPED_MAX);
    if (!chat_is_busy(c))
        return;
    worker_interrupt(c->worker);
    c->stopping = true;
    c->confirming = false;
    snprintf(c->busy, sizeof c->busy, "stopping");
    c->changed = true;
    if (c->n_queued == 0)
        return;
    for (size_t i = 0; i < c->n_queued; i++) {
        buf_printf(&all, "%s\n", c->queued[i]);
        free(c->queued[i]);
    }
    c->n_queued = 0;
    editor_copy(c->editor, true, &all, NULL);
    while (all.len && all.data[all.len - 1] == '\n')
        all.len--;
    char *text = buf_cstr(&all);
    if (text)
        chat_set_text(c, text);
}

/* What the agent is doing, in a word. */
static void busy_from_event(char *busy, size_t n, const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_TEXT:
        snprintf(busy, n, "answering");
        break;
    case AGENT_THINKING:
    case AGENT_RESULT:
        snprintf(busy, n, "thinking");
        break;
    case AGENT_WRITING:
        snprintf(busy, n, "writing %.40s", e->text ? e->text : "a call");
        break;
    case AGENT_CALL:
        snprintf(busy, n, "%.40s", e->name ? e->name : "a tool");
        break;
    case AGENT_WAIT:
        snprintf(busy, n, "waiting to retry");
        break;
    case AGENT_DONE:
        snprintf(busy, n, "finishing");
        break;
    default:
        break;
    }
}

static void take_event(struct chat *c, const struct agent_event *e, unsigned attempt)
{
    if (!attempt) {
        if (e->kind == AGENT_USAGE) {
            c->state.money = e->session_money;
            c->state.context = e->context ? e->context : c->state.context;
            c->state.window = e->window ? e->window : c->state.window;
        }
        if (!c->stopping)
            busy_from_event(c->busy, sizeof c->busy, e);
        view_event(c->view, e);
        return;
    }
    /* Of several attempts only one status line is shown: `1 thinking · 2 bash`. */
    size_t used = 0;
    if (attempt > ARRAY_SIZE(c->attempts))
        return;
    c->n_attempts = attempt > c->n_attempts ? attempt : c->n_attempts;
    char *doing = c->attempts[attempt - 1];
    if (e->kind == AGENT_DONE)
        snprintf(doing, sizeof c->attempts[0], "done");
    else
        busy_from_event(doing, sizeof c->attempts[0], e);
    c->busy[0] = 0;
    for (unsigned i = 0; i < c->n_attempts && used < sizeof c->busy; i++)
        used += (size_t)snprintf(c->busy + used, sizeof c->busy - used, "%s%u %.12s",
                                 i ? " · " : "", i + 1, c->attempts[i][0] ? c->attempts[i] : "…");
}

/* Names for completion: new ones, and those that may be wrong now are forgotten. */
static void take_names(struct chat *c, struct chat_result *r)
{
    if (r->command->flags & CHAT_CHANGES_FILES) {
        json_decref(c->names.files);
        json_decref(c->names.sessions);
        c->names.files = c->names.sessions = NULL;
        chat_complete_close(c);
    }
    json_t **to = r->command == &CHAT_FILE_NAMES ? &c->names.files : &c->names.sessions;
    if (r->names || r->command->flags & CHAT_INTERNAL) { /* failed: do not ask again and again */
        json_decref(*to);
        *to = r->names ? TAKE_PTR(r->names) : json_array();
    }
    if (r->models) {
        json_decref(c->names.models);
        c->names.models = TAKE_PTR(r->models);
    }
    chat_complete(c, c->completing && !c->completion.automatic);
}

static void take_result(struct chat *c, struct chat_result *r)
{
    c->running = NULL;
    c->confirming = false;
    c->state = r->state;
    if (r->command == &CHAT_OPEN && r->r < 0) {
        c->failure = r->err;
        c->failed = r->r;
        c->leaving = true;
        return;
    }
    take_names(c, r);
    if (r->changes_known) {
        agent_changes_free(&c->changes);
        c->changes = r->changes;
        r->changes = (struct agent_changes){0};
    }
    if (r->command->flags & CHAT_REVIEWS)
        c->review = agent_changes_any(&c->changes);
    c->review_chosen = -1;
    if (r->diff.len)
        view_add(c->view, ITEM_DIFF, (const char *)r->diff.data, r->diff.len);
    if (r->text.len)
        chat_note(c, "%.*s", (int)r->text.len, (const char *)r->text.data);
    if (r->r < 0 && !(r->command->flags & CHAT_INTERNAL))
        chat_note(c, "%s", r->err.text);
    c->changed = true;
    while (!c->running && c->n_queued > 0 && !c->leaving) {
        _cleanup_free_ char *entered = c->queued[0];
        memmove(c->queued, c->queued + 1, --c->n_queued * sizeof *c->queued);
        chat_submit(c, entered);
    }
    chat_complete_fetch(c);
}

void chat_take_updates(struct chat *c)
{
    for (struct update *u; !c->leaving && (u = update_queue_take(c->updates)); update_free(u)) {
        const char *text = u->text ? u->text : "";
        switch (u->kind) {
        case UPDATE_EVENT:
            take_event(c, &u->event, u->attempt);
            break;
        case UPDATE_RESET:
            transcript_clear(&c->view->transcript);
            break;
        case UPDATE_USER:
            view_add(c->view, ITEM_USER, text, strlen(text));
            break;
        case UPDATE_RESULT:
            take_result(c, u->command_result);
            break;
        case UPDATE_CONFIRM:
            c->confirming = !c->stopping;
            if (c->confirming)
                snprintf(c->busy, sizeof c->busy, "waiting for your answer");
            chat_note(c, "%s", text);
            break;
        }
        c->changed = true;
    }
}
