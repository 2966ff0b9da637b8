#include <stdlib.h>
#include <string.h>

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
    item_free(t->passing);
    free(t->items);
    transcript_open(t);
}

static size_t bytes_of(const struct transcript *t)
{
    size_t bytes = 0;
    for (size_t i = 0; i < t->count; i++)
        bytes += t->items[i]->text.cap + t->items[i]->raw.cap;
    return bytes;
}

/* The oldest tenth, at once, so that this happens seldom. */
static void drop_oldest(struct transcript *t)
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
        drop_oldest(t);
    while (t->count > 64 && t->count % 64 == 0 && bytes_of(t) > TRANSCRIPT_BYTES)
        drop_oldest(t);
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

static size_t total(const struct transcript *t)
{
    return t->count + (t->passing != NULL);
}

static struct item *item_at(const struct transcript *t, size_t i)
{
    return i < t->count ? t->items[i] : t->passing;
}

/* Calls that have nothing under them stand close together. */
static size_t gap_before(const struct transcript *t, size_t i, const struct item_look *look)
{
    if (i == 0)
        return 0;
    struct item *above = item_at(t, i - 1), *it = item_at(t, i);
    bool calls = above->kind == ITEM_CALL && (it->kind == ITEM_CALL || it->kind == ITEM_PASSING);
    return !(calls && item_lines(above, look)->count <= 1);
}

/* Lines of an item with the empty one before it. */
static size_t extent(const struct transcript *t, size_t i, const struct item_look *look)
{
    size_t n = item_lines(item_at(t, i), look)->count;
    return n ? n + gap_before(t, i, look) : 0;
}

/* The position `lines` above that one, as far as there is something. */
static void go_up(struct transcript *t, const struct item_look *look, size_t lines)
{
    while (lines > 0 && (t->top > 0 || t->top_line > 0)) {
        if (t->top_line == 0) {
            t->top--;
            t->top_line = extent(t, t->top, look);
            continue;
        }
        size_t step = t->top_line < lines ? t->top_line : lines;
        t->top_line -= step;
        lines -= step;
    }
}

static void go_down(struct transcript *t, const struct item_look *look, size_t lines)
{
    while (t->top < total(t)) {
        size_t here = extent(t, t->top, look);
        if (t->top_line + lines < here) {
            t->top_line += lines;
            return;
        }
        lines -= here > t->top_line ? here - t->top_line : 0;
        t->top++;
        t->top_line = 0;
    }
}

/* Where the last `height` lines begin. */
static void go_to_end(struct transcript *t, const struct item_look *look, int height)
{
    t->top = total(t);
    t->top_line = 0;
    go_up(t, look, (size_t)height);
}

/* Are there as many lines from the position on as rows? If not, the end is what is shown. */
static bool reaches_down(struct transcript *t, const struct item_look *look, int height)
{
    size_t rows = 0;
    for (size_t i = t->top; i < total(t); i++) {
        rows += extent(t, i, look);
        if (rows > (size_t)height + t->top_line)
            return true;
    }
    return false;
}

/* Layouts that are not shown are dropped when there are many; looked at now and then. */
static void forget_far(struct transcript *t)
{
    size_t kept = 0;
    if (t->shows++ % 64)
        return;
    for (size_t i = 0; i < t->count; i++)
        kept += t->items[i]->width ? t->items[i]->height : 0;
    if (kept <= TRANSCRIPT_LINES)
        return;
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i]->width && (i + 1 < t->top || i >= t->shown_end))
            item_forget(t->items[i]);
}

/* In another width the item at the top has another height: the same share of it stays above. */
static void keep_place(struct transcript *t, const struct item_look *look)
{
    size_t before = item_at(t, t->top)->height + 1, now = extent(t, t->top, look);
    t->top_line = t->top_line * now / before;
}

void transcript_rows(struct transcript *t, const struct item_look *look, int height,
                     struct row *ret)
{
    int at = 0;
    memset(ret, 0, (size_t)height * sizeof *ret);
    if (t->width != look->width && !t->follow && t->top < total(t))
        keep_place(t, look);
    t->height = height;
    t->width = look->width;
    if (!t->follow && !reaches_down(t, look, height))
        t->follow = true;
    if (t->follow)
        go_to_end(t, look, height);
    size_t i = t->top, line = t->top_line;
    for (; i < total(t) && at < height; i++, line = 0) {
        const struct lines *lines = item_lines(item_at(t, i), look);
        size_t gap = lines->count ? gap_before(t, i, look) : 0;
        for (; line < lines->count + gap && at < height; line++, at++)
            if (line >= gap)
                ret[at] = (struct row){lines, line - gap, i == t->selected};
    }
    t->shown_end = i;
    forget_far(t);
}

size_t transcript_below(const struct transcript *t, int width)
{
    size_t lines = 0;
    if (t->follow)
        return 0;
    for (size_t i = t->top; i < total(t); i++)
        lines += item_height(item_at(t, i), width) + 1;
    size_t shown = t->top_line + (size_t)t->height;
    return lines > shown ? lines - shown : 1;
}

bool transcript_moves(const struct transcript *t)
{
    for (size_t i = t->top; i < t->shown_end && i < total(t); i++)
        if (item_moves(item_at(t, i)))
            return true;
    return false;
}

void transcript_scroll(struct transcript *t, const struct item_look *look, long lines)
{
    if (lines < 0) {
        if (t->follow)
            go_to_end(t, look, t->height);
        t->follow = false;
        go_up(t, look, (size_t)-lines);
    } else if (!t->follow) {
        go_down(t, look, (size_t)lines);
    }
}

void transcript_top(struct transcript *t)
{
    t->follow = false;
    t->top = t->top_line = 0;
}

void transcript_end(struct transcript *t)
{
    t->follow = true;
}

/* Shows an item's first line, if it is not on the screen. */
static void reveal(struct transcript *t, const struct item_look *look, size_t i)
{
    bool above = i < t->top || (i == t->top && t->top_line > 1), below = i >= t->shown_end;
    if (!above && !below)
        return;
    t->follow = false;
    t->top = i;
    t->top_line = 0;
    if (below)
        go_up(t, look, (size_t)t->height / 2);
}

static bool can_fold(struct item *it, const struct item_look *look)
{
    if (it->kind == ITEM_ANSWER || it->kind == ITEM_NOTE || it->kind == ITEM_CHANGES)
        return false;
    item_lines(it, look);
    return it->folds;
}

void transcript_select(struct transcript *t, const struct item_look *look, int by)
{
    size_t i = t->selected == TRANSCRIPT_NONE ? t->count : t->selected;
    if (by == 0) {
        t->selected = TRANSCRIPT_NONE;
        return;
    }
    while (by < 0 ? i-- > 0 : ++i < t->count) {
        if (!can_fold(t->items[i], look))
            continue;
        t->selected = i;
        reveal(t, look, i);
        return;
    }
    if (by > 0) { /* behind the last: none, and the end */
        t->selected = TRANSCRIPT_NONE;
        t->follow = true;
    }
}

bool transcript_toggle(struct transcript *t, const struct item_look *look)
{
    size_t i = t->selected;
    if (i == TRANSCRIPT_NONE)
        for (i = t->count; i-- > 0;)
            if (can_fold(t->items[i], look))
                break;
    if (i >= t->count)
        return false;
    t->items[i]->open = !t->items[i]->open;
    item_forget(t->items[i]);
    return true;
}

void transcript_toggle_all(struct transcript *t)
{
    t->all_open = !t->all_open;
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i]->open != t->all_open) {
            t->items[i]->open = t->all_open;
            item_forget(t->items[i]);
        }
}
