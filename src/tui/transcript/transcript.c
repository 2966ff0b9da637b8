#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "thread.h"
#include "tui.h"
#include "transcript.h"
#include "banned.h"

void transcript_open(struct transcript *t)
{
    *t = (struct transcript){.follow = true, .selected = TRANSCRIPT_NONE};
}

void transcript_clear(struct transcript *t)
{
    for (size_t i = 0; i < t->count; i++)
        item_free(t->items[i]);
    item_free(t->transient);
    free(t->items);
    transcript_open(t);
}

/* Drops a tenth at once, so that it happens seldom. */
static void transcript_drop_oldest(struct transcript *t)
{
    size_t n = t->count / 10 + 1;
    for (size_t i = 0; i < n; i++)
        item_free(t->items[i]);
    t->count -= n;
    memmove(t->items, t->items + n, t->count * sizeof(void *));
    t->answer = t->answer > n ? t->answer - n : 0;
    t->top = t->top > n ? t->top - n : 0;
    t->selected =
        t->selected != TRANSCRIPT_NONE && t->selected >= n ? t->selected - n : TRANSCRIPT_NONE;
}

struct item *transcript_add(struct transcript *t, enum item_kind kind)
{
    if (t->count >= TRANSCRIPT_ITEMS)
        transcript_drop_oldest(t);
    for (size_t bytes = 0, i = 0; t->count > 64 && t->count % 64 == 0 && i < t->count; i++) {
        bytes += t->items[i]->text.cap + t->items[i]->raw.cap;
        if (bytes > TRANSCRIPT_BYTES) { /* and count again */
            transcript_drop_oldest(t);
            bytes = i = 0;
        }
    }
    if (t->count == t->cap) {
        struct item **more = reallocarray(t->items, t->cap ? t->cap * 2 : 32, sizeof(void *));
        if (!more)
            return NULL;
        t->items = more;
        t->cap = t->cap ? t->cap * 2 : 32;
    }
    struct item *it = item_new(kind);
    if (!it)
        return NULL;
    it->open = t->all_open;
    t->items[t->count++] = it;
    return it;
}

static size_t transcript_total(const struct transcript *t)
{
    return t->count + (t->transient != NULL);
}

static struct item *transcript_item(const struct transcript *t, size_t i)
{
    return i < t->count ? t->items[i] : t->transient;
}

/* No empty line between calls that have nothing under them. */
static size_t transcript_gap(const struct transcript *t, size_t i, const struct layout *l)
{
    if (i == 0)
        return 0;
    struct item *above = transcript_item(t, i - 1), *it = transcript_item(t, i);
    bool calls = above->kind == ITEM_CALL && (it->kind == ITEM_CALL || it->kind == ITEM_TRANSIENT);
    return !(calls && item_lines(above, l)->count <= 1);
}

/* Lines of an item with the empty one before it. */
static size_t transcript_extent(const struct transcript *t, size_t i, const struct layout *l)
{
    size_t n = item_lines(transcript_item(t, i), l)->count;
    return n ? n + transcript_gap(t, i, l) : 0;
}

/* Moves the position up by `lines`, as far as there is something. */
static void transcript_go_up(struct transcript *t, const struct layout *l, size_t lines)
{
    while (lines > 0 && (t->top > 0 || t->top_line > 0)) {
        if (t->top_line == 0) {
            t->top--;
            t->top_line = transcript_extent(t, t->top, l);
            continue;
        }
        size_t step = t->top_line < lines ? t->top_line : lines;
        t->top_line -= step;
        lines -= step;
    }
}

void transcript_rows(struct transcript *t, const struct layout *l, int height, struct row *ret)
{
    int at = 0;
    memset(ret, 0, (size_t)height * sizeof *ret);
    if (t->width != l->width && !t->follow && t->top < transcript_total(t)) {
        /* In another width the top item has another height: the same share of it stays above. */
        size_t before = transcript_item(t, t->top)->height + 1;
        t->top_line = t->top_line * transcript_extent(t, t->top, l) / before;
    }
    t->height = height;
    t->width = l->width;

    /* If fewer lines than `height` follow the position, the end is shown. */
    size_t rows = 0, i = t->top;
    for (; !t->follow && i < transcript_total(t) && rows <= (size_t)height + t->top_line; i++)
        rows += transcript_extent(t, i, l);
    if (rows <= (size_t)height + t->top_line)
        t->follow = true;
    if (t->follow) {
        t->top = transcript_total(t);
        t->top_line = 0;
        transcript_go_up(t, l, (size_t)height);
    }

    size_t line = t->top_line;
    for (i = t->top; i < transcript_total(t) && at < height; i++, line = 0) {
        const struct lines *lines = item_lines(transcript_item(t, i), l);
        size_t gap = lines->count ? transcript_gap(t, i, l) : 0;
        for (; line < lines->count + gap && at < height; line++, at++)
            if (line >= gap)
                ret[at] = (struct row){lines, line - gap, i == t->selected};
    }
    t->shown_end = i;

    /* Layouts that are not shown are dropped when there are many; checked now and then. */
    size_t kept = 0;
    if (t->shows++ % 64)
        return;
    for (i = 0; i < t->count; i++)
        kept += t->items[i]->width ? t->items[i]->height : 0;
    for (i = 0; kept > TRANSCRIPT_LINES && i < t->count; i++)
        if (t->items[i]->width && (i + 1 < t->top || i >= t->shown_end))
            item_forget_layout(t->items[i]);
}

size_t transcript_below(const struct transcript *t, int width)
{
    size_t lines = 0, columns = width > 20 ? (size_t)width * 2 / 3 : 14;
    if (t->follow)
        return 0;
    for (size_t i = t->top; i < transcript_total(t); i++) {
        const struct item *it = transcript_item(t, i);
        lines += 1 + (it->height                  ? it->height
                      : it->kind == ITEM_THINKING ? 1
                      : it->kind == ITEM_CALL     ? 1u + it->view->head + it->view->tail
                                                  : 1 + it->text.len / columns);
    }
    size_t shown = t->top_line + (size_t)t->height;
    return lines > shown ? lines - shown : 1;
}

bool transcript_moves(const struct transcript *t)
{
    for (size_t i = t->top; i < t->shown_end && i < transcript_total(t); i++)
        if (item_moves(transcript_item(t, i)))
            return true;
    return false;
}

void transcript_scroll(struct transcript *t, const struct layout *l, long lines)
{
    if (lines == LONG_MAX) {
        t->follow = true;
    } else if (lines == LONG_MIN) {
        t->follow = false;
        t->top = t->top_line = 0;
    } else if (lines < 0) {
        if (t->follow) { /* the position is where the last rows begin */
            t->top = transcript_total(t);
            t->top_line = 0;
            transcript_go_up(t, l, (size_t)t->height);
        }
        t->follow = false;
        transcript_go_up(t, l, (size_t)-lines);
    }
    while (lines > 0 && !t->follow && t->top < transcript_total(t)) {
        size_t here = transcript_extent(t, t->top, l), down = (size_t)lines;
        if (t->top_line + down < here) {
            t->top_line += down;
            return;
        }
        lines -= here > t->top_line ? (long)(here - t->top_line) : 0;
        t->top++;
        t->top_line = 0;
    }
}

void transcript_page(struct transcript *t, const struct layout *l, int pages)
{
    transcript_scroll(t, l, pages * (t->height > 4 ? t->height - 2 : 1));
}

static bool item_can_fold(struct item *it, const struct layout *l)
{
    if (it->kind == ITEM_ANSWER || it->kind == ITEM_NOTE || it->kind == ITEM_CHANGES)
        return false;
    item_lines(it, l);
    return it->folds;
}

void transcript_select(struct transcript *t, const struct layout *l, int by)
{
    size_t i = t->selected == TRANSCRIPT_NONE ? t->count : t->selected;
    while (by < 0 ? i-- > 0 : ++i < t->count) {
        if (!item_can_fold(t->items[i], l))
            continue;
        t->selected = i;
        /* Show its first line, if that is not on the screen. */
        bool above = i < t->top || (i == t->top && t->top_line > 1), below = i >= t->shown_end;
        if (above || below) {
            t->follow = false;
            t->top = i;
            t->top_line = 0;
            transcript_go_up(t, l, below ? (size_t)t->height / 2 : 0);
        }
        return;
    }
    if (by > 0) { /* past the last one: none, and the end */
        t->selected = TRANSCRIPT_NONE;
        t->follow = true;
    }
}

bool transcript_toggle(struct transcript *t, const struct layout *l)
{
    size_t i = t->selected;
    if (i == TRANSCRIPT_NONE)
        for (i = t->count; i-- > 0;)
            if (item_can_fold(t->items[i], l))
                break;
    if (i >= t->count)
        return false;
    t->items[i]->open = !t->items[i]->open;
    item_forget_layout(t->items[i]);
    return true;
}

void transcript_toggle_all(struct transcript *t)
{
    t->all_open = !t->all_open;
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i]->open != t->all_open) {
            t->items[i]->open = t->all_open;
            item_forget_layout(t->items[i]);
        }
}

/* Events of the agent become items. */

static void streams_end(struct transcript *t)
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

/* Appends to the last item if it is of that kind and of this answer, else to a new one. */
static void stream_append(struct transcript *t, enum item_kind kind, const struct agent_event *e,
                          int64_t now)
{
    struct item *it = t->count > t->answer ? t->items[t->count - 1] : NULL;
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

/* The model started over: only the first bytes of each stream remain. Empty items go. */
static void streams_cut(struct transcript *t, size_t keep, size_t keep_thinking)
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

static struct item *transcript_find_call(struct transcript *t, const char *id)
{
    for (size_t i = t->count; i-- > 0;) {
        struct item *it = t->items[i];
        if (it->kind == ITEM_CALL && it->state == CALL_RUNNING && it->id && id &&
            strcmp(it->id, id) == 0)
            return it;
    }
    return NULL;
}

static void transcript_note(struct transcript *t, const char *text)
{
    struct item *it = text && *text ? transcript_add(t, ITEM_NOTE) : NULL;
    if (it)
        item_append(it, text, strlen(text), false);
}

void transcript_event(struct transcript *t, const struct agent_event *e, int64_t now)
{
    const char *text = e->text ? e->text : "";
    struct item *it;
    if (e->kind != AGENT_USAGE && e->kind != AGENT_PROGRESS)
        t->transient = item_free(t->transient);
    if ((e->kind == AGENT_WRITING && e->text) || e->kind == AGENT_WAIT)
        t->transient = item_new(ITEM_TRANSIENT);
    switch (e->kind) {
    case AGENT_TEXT:
        stream_append(t, ITEM_ANSWER, e, now);
        break;
    case AGENT_THINKING:
        stream_append(t, ITEM_THINKING, e, now);
        break;
    case AGENT_BACK:
        streams_cut(t, e->keep, e->keep_thinking);
        break;
    case AGENT_SAID:
        streams_end(t);
        break;
    case AGENT_WRITING:
        if (t->transient) {
            item_append(t->transient, text, strlen(text), false);
            item_append(t->transient, " …", strlen(" …"), false);
        }
        break;
    case AGENT_CALL:
        streams_end(t);
        if ((it = transcript_add(t, ITEM_CALL)))
            item_set_call(it, e, now);
        t->answer = t->count;
        break;
    case AGENT_PROGRESS:
        if ((it = transcript_find_call(t, e->id))) {
            free(it->last_output);
            it->last_output = *text ? clean_string(text, strlen(text), 1024) : NULL;
        }
        break;
    case AGENT_RESULT:
        if (!(it = transcript_find_call(t, e->id)) && (it = transcript_add(t, ITEM_CALL)))
            item_set_call(it, e, now);
        if (it && e->result)
            item_set_result(it, e);
        break;
    case AGENT_WAIT:
        if ((it = t->transient)) {
            item_append(it, text, strlen(text), false);
            it->attempt = e->attempt + 1;
            it->began = now + e->wait_ms * NS_PER_MS;
        }
        break;
    case AGENT_NOTE:
        transcript_note(t, e->text);
        break;
    case AGENT_CHANGES:
        if (e->changes && (it = transcript_add(t, ITEM_CHANGES))) {
            _cleanup_buf_ struct buf list = BUF_INIT(ITEM_TEXT_MAX);
            summary_list_changes(e->changes, &list);
            item_append(it, (const char *)list.data, list.len, false);
        }
        break;
    case AGENT_DONE:
        streams_end(t);
        for (size_t i = t->count; i-- > 0 && t->items[i]->kind != ITEM_USER;)
            if (t->items[i]->kind == ITEM_CALL && t->items[i]->state == CALL_RUNNING) {
                t->items[i]->state = CALL_STOPPED;
                t->items[i]->stale = true;
            }
        transcript_note(t, e->why                     ? e->why
                           : e->stop == MODEL_REFUSAL ? "The model refused to answer."
                           : e->stop == MODEL_MAX_TOKENS
                               ? "The answer was cut off at the token limit."
                           : e->stop == MODEL_WINDOW_EXCEEDED ? "The context window is full."
                                                              : NULL);
        break;
    case AGENT_USAGE:
        break;
    }
}
