/* The chat: jobs for the worker, and what comes of them. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "chat.h"
#include "clock.h"
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
    view_note(c->view, text);
    c->changed = true;
}

static const char *first_busy(enum job_kind kind)
{
    switch (kind) {
    case JOB_OPEN:
        return "starting";
    case JOB_SAY:
        return "thinking";
    case JOB_SHELL:
        return "bash";
    case JOB_UNDO:
        return "undoing";
    case JOB_APPLY:
        return "applying";
    case JOB_SYNC:
        return "syncing";
    case JOB_COMPACT:
        return "summarising";
    case JOB_FORK:
        return "forking";
    case JOB_LOAD:
        return "loading";
    default:
        return "working";
    }
}

void chat_begin(struct chat *c, struct job *job)
{
    c->job = job->kind;
    c->job_began = clock_now();
    c->stopping = false;
    c->talked = c->talked || job->kind == JOB_SAY;
    c->attempts.n = 0;
    snprintf(c->busy, sizeof c->busy, "%s", first_busy(job->kind));
    if (job->kind == JOB_SAY) {
        c->review = false;
        view_person(c->view, job->text);
        view_end(c->view);
    }
    worker_give(c->worker, job);
    c->changed = true;
}

bool chat_is_busy(const struct chat *c)
{
    return c->job != JOB_NONE && c->job < JOB_FILES;
}

void chat_next(struct chat *c)
{
    while (c->job == JOB_NONE && c->n_waiting > 0 && !c->leaving) {
        char *said = c->waiting[0];
        memmove(c->waiting, c->waiting + 1, --c->n_waiting * sizeof *c->waiting);
        chat_say(c, said);
        free(said);
    }
}

/* What waits comes back into the input, before what is being written. */
static void take_back_waiting(struct chat *c)
{
    _cleanup_buf_ struct buf all = BUF_INIT(EDITOR_TYPED_MAX);
    if (c->n_waiting == 0)
        return;
    for (size_t i = 0; i < c->n_waiting; i++) {
        buf_printf(&all, "%s\n", c->waiting[i]);
        free(c->waiting[i]);
    }
    c->n_waiting = 0;
    editor_whole(c->editor, &all);
    while (all.len && all.data[all.len - 1] == '\n')
        all.len--;
    char *text = buf_cstr(&all);
    if (text)
        chat_set_text(c, text);
}

void chat_stop(struct chat *c)
{
    if (!chat_is_busy(c))
        return;
    worker_interrupt(c->worker);
    c->stopping = true;
    c->confirming = false;
    snprintf(c->busy, sizeof c->busy, "stopping");
    take_back_waiting(c);
    c->changed = true;
}

/* What goes on, in a word. */
static void tell_busy(char *busy, size_t n, const struct agent_event *e)
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
        snprintf(busy, n, "waiting to ask again");
        break;
    case AGENT_DONE:
        snprintf(busy, n, "finishing");
        break;
    default:
        break;
    }
}

/* Several attempts at once would be a jumble: of each only what it does is told, in one line. */
static void take_attempt(struct chat *c, unsigned attempt, const struct agent_event *e)
{
    struct attempts_shown *s = &c->attempts;
    size_t used = 0;
    if (attempt == 0 || attempt > ARRAY_SIZE(s->doing))
        return;
    s->n = attempt > s->n ? attempt : s->n;
    if (e->kind == AGENT_DONE)
        snprintf(s->doing[attempt - 1], sizeof s->doing[0], "done");
    else
        tell_busy(s->doing[attempt - 1], sizeof s->doing[0], e);
    c->busy[0] = 0;
    for (unsigned i = 0; i < s->n && used < sizeof c->busy; i++)
        used += (size_t)snprintf(c->busy + used, sizeof c->busy - used, "%s%u %.12s",
                                 i ? " · " : "", i + 1, s->doing[i][0] ? s->doing[i] : "…");
}

static void set_changes(struct chat *c, struct agent_changes *changes)
{
    agent_changes_free(&c->changes);
    c->changes = *changes;
    *changes = (struct agent_changes){0};
}

static void take_usage(struct chat *c, const struct agent_event *e)
{
    c->state.usage = e->session_usage;
    c->state.money = e->session_money;
    c->state.context = e->context ? e->context : c->state.context;
    c->state.window = e->window ? e->window : c->state.window;
}

static void take_event(struct chat *c, const struct told *t)
{
    if (t->attempt) {
        take_attempt(c, t->attempt, &t->event);
        return;
    }
    if (t->event.kind == AGENT_USAGE)
        take_usage(c, &t->event);
    if (!c->stopping)
        tell_busy(c->busy, sizeof c->busy, &t->event);
    view_event(c->view, &t->event);
}

static void take_names(struct chat *c, struct answer *a)
{
    json_t **to = a->kind == JOB_FILES ? &c->names.files : &c->names.sessions;
    if (a->names ||
        a->kind >= JOB_FILES) { /* what cannot be had is not asked for again and again */
        json_decref(*to);
        *to = a->names ? TAKE_PTR(a->names) : json_array();
    }
    if (a->models) {
        json_decref(c->names.models);
        c->names.models = TAKE_PTR(a->models);
    }
    chat_complete_update(c, c->completing && !c->completion.by_itself);
}

/* Files may be others now than those that were listed. */
static void forget_files(struct chat *c, const struct answer *a)
{
    if (a->kind != JOB_SAY && a->kind != JOB_SHELL && a->kind != JOB_UNDO && a->kind != JOB_LOAD &&
        a->kind != JOB_SYNC)
        return;
    json_decref(c->names.files);
    json_decref(c->names.sessions);
    c->names.files = c->names.sessions = NULL;
    chat_complete_close(c);
}

static void show_answer(struct chat *c, struct answer *a)
{
    if (a->diff.len)
        view_diff(c->view, (const char *)a->diff.data, a->diff.len);
    if (a->text.len)
        chat_note(c, "%.*s", (int)a->text.len, (const char *)a->text.data);
    if (a->r < 0 && a->kind < JOB_FILES)
        chat_note(c, "%s", a->err.text);
}

static void take_answer(struct chat *c, struct answer *a)
{
    c->job = JOB_NONE;
    c->confirming = false;
    c->state = a->state;
    if (a->kind == JOB_OPEN && a->r < 0) {
        c->failure = a->err;
        c->failed = a->r;
        c->leaving = true;
        return;
    }
    forget_files(c, a);
    take_names(c, a);
    if (a->changes_known)
        set_changes(c, &a->changes);
    if (a->kind == JOB_SAY || a->kind == JOB_SHELL || a->kind == JOB_OPEN || a->kind == JOB_LOAD ||
        a->kind == JOB_DIFF)
        c->review = agent_changes_any(&c->changes);
    c->review_chosen = -1;
    show_answer(c, a);
    c->changed = true;
    chat_next(c);
    chat_complete_ask(c);
}

void chat_take(struct chat *c)
{
    for (struct told *t; !c->leaving && (t = queue_take(c->queue)); told_free(t)) {
        switch (t->kind) {
        case TOLD_EVENT:
            take_event(c, t);
            break;
        case TOLD_ANEW:
            view_clear(c->view);
            break;
        case TOLD_PERSON:
            view_person(c->view, t->text ? t->text : "");
            break;
        case TOLD_ANSWER:
            take_answer(c, t->data);
            break;
        case TOLD_CONFIRM:
            c->confirming = !c->stopping;
            if (c->confirming)
                snprintf(c->busy, sizeof c->busy, "waiting for your answer");
            chat_note(c, "%s", t->text ? t->text : "");
            break;
        }
        c->changed = true;
    }
}
