/* What the agent tells becomes items. */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "transcript.h"
#include "banned.h"

static void drop_passing(struct transcript *t)
{
    t->passing = item_free(t->passing);
}

static struct item *set_passing(struct transcript *t)
{
    drop_passing(t);
    return t->passing = item_new(ITEM_PASSING);
}

static struct item *last_item(struct transcript *t)
{
    return t->count > t->answer ? t->items[t->count - 1] : NULL;
}

static void streams_over(struct transcript *t)
{
    for (size_t i = t->answer; i < t->count; i++) {
        struct item *it = t->items[i];
        if (it->kind != ITEM_ANSWER && it->kind != ITEM_THINKING)
            continue;
        it->over = it->stale = true;
        buf_free(&it->raw);
    }
    t->answer = t->count;
}

/* More of what streams: to the item at the end, if it is of that kind and of this answer. */
static void stream(struct transcript *t, enum item_kind kind, const struct agent_event *e,
                   int64_t now)
{
    struct item *it = last_item(t);
    if (!it || it->kind != kind || it->over) {
        if (it && it->kind == ITEM_THINKING)
            it->over = it->stale = true;
        it = transcript_add(t, kind);
        if (!it)
            return;
        it->began = now;
    }
    item_stream(it, e->text, e->n);
}

/* Only so many bytes of each count still. Items of which nothing is left are gone. */
static void go_back(struct transcript *t, size_t keep, size_t keep_thinking)
{
    size_t kept = t->answer;
    for (size_t i = t->answer; i < t->count; i++) {
        struct item *it = t->items[i];
        bool streams = it->kind == ITEM_ANSWER || it->kind == ITEM_THINKING;
        size_t *left = it->kind == ITEM_ANSWER ? &keep : &keep_thinking;
        size_t had = it->raw.len;
        if (streams) {
            item_stream_cut(it, *left);
            *left -= *left < had ? *left : had;
        }
        if (streams && it->raw.len == 0)
            item_free(it);
        else
            t->items[kept++] = it;
    }
    t->count = kept;
    if (t->selected != TRANSCRIPT_NONE && t->selected >= kept)
        t->selected = TRANSCRIPT_NONE;
}

static struct item *find_call(struct transcript *t, const char *id)
{
    for (size_t i = t->count; i-- > 0;) {
        struct item *it = t->items[i];
        if (it->kind == ITEM_CALL && it->state == CALL_RUNNING && it->id && id &&
            strcmp(it->id, id) == 0)
            return it;
    }
    return NULL;
}

static void take_result(struct transcript *t, const struct agent_event *e, int64_t now)
{
    struct item *it = find_call(t, e->id);
    if (!it && (it = transcript_add(t, ITEM_CALL)))
        item_call(it, e, now);
    if (it && e->result)
        item_result(it, e);
}

static void wait(struct transcript *t, const struct agent_event *e, int64_t now)
{
    struct item *it = set_passing(t);
    char more[48];
    if (!it)
        return;
    item_say(it, e->text ? e->text : "", e->text ? strlen(e->text) : 0, false);
    if (e->attempt > 0) {
        snprintf(more, sizeof more, " (attempt %d)", e->attempt + 1);
        item_say(it, more, strlen(more), false);
    }
    it->began = now + e->wait_ms * NS_PER_MS;
}

static void writes(struct transcript *t, const char *tool)
{
    struct item *it = set_passing(t);
    if (!it || !tool)
        return;
    item_say(it, tool, strlen(tool), false);
    item_say(it, " …", strlen(" …"), false);
}

static void note(struct transcript *t, const char *text)
{
    struct item *it = text && *text ? transcript_add(t, ITEM_NOTE) : NULL;
    if (it)
        item_say(it, text, strlen(text), false);
}

static const char *why_stopped(const struct agent_event *e)
{
    if (e->why)
        return e->why;
    return e->stop == MODEL_REFUSAL           ? "The model refused to answer."
           : e->stop == MODEL_MAX_TOKENS      ? "The answer was cut at the limit on its tokens."
           : e->stop == MODEL_WINDOW_EXCEEDED ? "The model's window is full."
                                              : NULL;
}

static void turn_over(struct transcript *t, const struct agent_event *e)
{
    streams_over(t);
    for (size_t i = t->count; i-- > 0 && t->items[i]->kind != ITEM_PERSON;)
        if (t->items[i]->kind == ITEM_CALL && t->items[i]->state == CALL_RUNNING) {
            t->items[i]->state = CALL_STOPPED;
            t->items[i]->stale = true;
        }
    note(t, why_stopped(e));
}

void transcript_event(struct transcript *t, const struct agent_event *e, int64_t now)
{
    struct item *it;
    if (e->kind != AGENT_USAGE && e->kind != AGENT_PROGRESS)
        drop_passing(t);
    switch (e->kind) {
    case AGENT_TEXT:
        stream(t, ITEM_ANSWER, e, now);
        break;
    case AGENT_THINKING:
        stream(t, ITEM_THINKING, e, now);
        break;
    case AGENT_BACK:
        go_back(t, e->keep, e->keep_thinking);
        break;
    case AGENT_SAID:
        streams_over(t);
        break;
    case AGENT_WRITING:
        writes(t, e->text);
        break;
    case AGENT_CALL:
        streams_over(t);
        if ((it = transcript_add(t, ITEM_CALL)))
            item_call(it, e, now);
        t->answer = t->count;
        break;
    case AGENT_PROGRESS:
        if ((it = find_call(t, e->id)))
            item_progress(it, e->text);
        break;
    case AGENT_RESULT:
        take_result(t, e, now);
        break;
    case AGENT_WAIT:
        wait(t, e, now);
        break;
    case AGENT_NOTE:
        note(t, e->text);
        break;
    case AGENT_CHANGES:
        if (e->changes && (it = transcript_add(t, ITEM_CHANGES)))
            item_changes(it, e->changes);
        break;
    case AGENT_DONE:
        turn_over(t, e);
        break;
    case AGENT_USAGE:
        break;
    }
}
