#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "editor.h"
#include "editor_private.h"
#include "grapheme.h"
#include "banned.h"

int editor_new(struct editor **ret)
{
    struct editor *e = calloc(1, sizeof *e);
    if (!e)
        return -ENOMEM;
    e->text = e->killed = BUF_INIT(EDITOR_TYPED_MAX);
    if (!buf_cstr(&e->text)) {
        free(e);
        return -ENOMEM;
    }
    *ret = e;
    return 0;
}

static void forget_pastes(struct editor *e)
{
    for (size_t i = 0; i < e->n_pastes; i++)
        free(e->pastes[i].text);
    e->n_pastes = e->pasted = 0;
}

struct editor *editor_free(struct editor *e)
{
    if (!e)
        return NULL;
    editor_undo_forget(e);
    forget_pastes(e);
    buf_free(&e->text);
    buf_free(&e->killed);
    free(e);
    return NULL;
}

void editor_reset(struct editor *e)
{
    editor_undo_forget(e);
    forget_pastes(e);
    e->text.len = e->cursor = 0;
    e->text.failed = false;
    buf_cstr(&e->text);
    e->last = EDIT_NOTHING;
    e->column = SIZE_MAX;
}

const char *editor_text(const struct editor *e, size_t *ret_n, size_t *ret_cursor)
{
    if (ret_n)
        *ret_n = e->text.len;
    if (ret_cursor)
        *ret_cursor = e->cursor;
    return (const char *)e->text.data;
}

bool editor_is_empty(const struct editor *e)
{
    return e->text.len == 0;
}

static const char *text_of(const struct editor *e)
{
    return (const char *)e->text.data;
}

/* The one place where the text changes. Keeps a NUL behind it. */
static int splice(struct editor *e, size_t from, size_t to, const char *text, size_t n)
{
    size_t tail = e->text.len - to;
    if (e->text.len - (to - from) + n + 1 > EDITOR_TYPED_MAX)
        return -ENOBUFS;
    if (n > to - from && !buf_reserve(&e->text, n - (to - from) + 1)) {
        e->text.failed = false;
        return -ENOMEM;
    }
    memmove(e->text.data + from + n, e->text.data + to, tail);
    memcpy(e->text.data + from, text, n);
    e->text.len = from + n + tail;
    e->text.data[e->text.len] = 0;
    e->cursor = from + n;
    e->column = SIZE_MAX;
    return 0;
}

int editor_splice(struct editor *e, size_t from, size_t to, const char *text, size_t n)
{
    if (to > e->text.len || from > to)
        return -EINVAL;
    editor_undo_note(e, EDIT_NOTHING);
    return splice(e, from, to, text, n);
}

/* A text of somebody else's may hold the characters that stand for pastes: they must not become
 * one. */
static bool holds_mark(const char *text, size_t n)
{
    return n >= 4 && memmem(text, n, EDITOR_PASTE_BYTES, 3);
}

static char *without_marks(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    for (char *at = copy; (at = memmem(at, n - (size_t)(at - copy), EDITOR_PASTE_BYTES, 3));)
        memset(at, '?', 4);
    return copy;
}

int editor_replace(struct editor *e, size_t from, size_t to, const char *text, size_t n)
{
    _cleanup_free_ char *clean = holds_mark(text, n) ? without_marks(text, n) : NULL;
    return editor_splice(e, from, to, clean ? clean : text, n);
}

/* Typing makes one step of undo per word. */
int editor_insert(struct editor *e, const char *text, size_t n)
{
    bool breaks = n > 4 || (n > 0 && (text[0] == ' ' || text[0] == '\n'));
    if (holds_mark(text, n))
        return editor_replace(e, e->cursor, e->cursor, text, n);
    editor_undo_note(e, breaks ? EDIT_NOTHING : EDIT_TYPING);
    e->last = EDIT_TYPING;
    return splice(e, e->cursor, e->cursor, text, n);
}

int editor_set(struct editor *e, const char *text)
{
    return editor_replace(e, 0, e->text.len, text, strlen(text));
}

/* Lines. */

static size_t line_begin(const struct editor *e, size_t at)
{
    const char *nl = at ? memrchr(text_of(e), '\n', at) : NULL;
    return nl ? (size_t)(nl - text_of(e)) + 1 : 0;
}

static size_t line_end(const struct editor *e, size_t at)
{
    const char *nl = memchr(text_of(e) + at, '\n', e->text.len - at);
    return nl ? (size_t)(nl - text_of(e)) : e->text.len;
}

/* How many characters lie between; and the place so many behind `begin`, in its line. */
static size_t count(const struct editor *e, size_t begin, size_t end)
{
    size_t n = 0;
    for (; begin < end; n++)
        begin = grapheme_next(text_of(e), e->text.len, begin);
    return n;
}

static size_t advance(const struct editor *e, size_t begin, size_t n)
{
    size_t end = line_end(e, begin);
    for (; n > 0 && begin < end; n--)
        begin = grapheme_next(text_of(e), e->text.len, begin);
    return begin;
}

/* Up and down keep to the column where the first of them began. */
static bool move_line(struct editor *e, bool up)
{
    size_t begin = line_begin(e, e->cursor), end = line_end(e, e->cursor);
    if (up ? begin == 0 : end == e->text.len)
        return false;
    size_t column = e->column != SIZE_MAX ? e->column : count(e, begin, e->cursor);
    e->cursor = advance(e, up ? line_begin(e, begin - 1) : end + 1, column);
    e->column = column;
    return true;
}

static bool move_to(struct editor *e, size_t at)
{
    bool moved = at != e->cursor;
    e->cursor = at;
    e->column = SIZE_MAX;
    return moved;
}

static bool move(struct editor *e, enum edit what)
{
    const char *t = text_of(e);
    size_t n = e->text.len, at = e->cursor;
    switch (what) {
    case EDIT_LEFT:
        return move_to(e, at ? grapheme_before(t, n, at) : 0);
    case EDIT_RIGHT:
        return move_to(e, at < n ? grapheme_next(t, n, at) : n);
    case EDIT_UP:
    case EDIT_DOWN:
        return move_line(e, what == EDIT_UP);
    case EDIT_LINE_BEGIN:
        return move_to(e, line_begin(e, at));
    case EDIT_LINE_END:
        return move_to(e, line_end(e, at));
    case EDIT_WORD_LEFT:
        return move_to(e, grapheme_word_begin(t, n, at));
    case EDIT_WORD_RIGHT:
        return move_to(e, grapheme_word_end(t, n, at));
    case EDIT_BEGIN:
        return move_to(e, 0);
    default:
        return move_to(e, n);
    }
}

/* Deletions. */

static bool delete (struct editor *e, size_t from, size_t to, enum edit what)
{
    if (from == to)
        return false;
    editor_undo_note(e, what);
    splice(e, from, to, "", 0);
    return true;
}

/* What is killed right after something else was is put together with it. */
static bool kill(struct editor *e, size_t from, size_t to)
{
    _cleanup_buf_ struct buf joined = BUF_INIT(2 * EDITOR_TYPED_MAX);
    bool backward = to == e->cursor && from != e->cursor;
    if (from == to)
        return false;
    bool more = e->last == EDIT_KILLING;
    if (more && !backward)
        buf_append(&joined, e->killed.data, e->killed.len);
    buf_append(&joined, text_of(e) + from, to - from);
    if (more && backward)
        buf_append(&joined, e->killed.data, e->killed.len);
    if (!joined.failed) {
        buf_free(&e->killed);
        e->killed = joined;
        joined = BUF_INIT(0);
    }
    return delete (e, from, to, EDIT_NOTHING);
}

static bool kill_what(struct editor *e, enum edit what)
{
    const char *t = text_of(e);
    size_t n = e->text.len, at = e->cursor, begin = line_begin(e, at), end = line_end(e, at);
    bool done;
    switch (what) {
    case EDIT_KILL_LINE_END:
        done = kill(e, at, at == end && end < n ? end + 1 : end);
        break;
    case EDIT_KILL_LINE_BEGIN:
        done = kill(e, at == begin && begin > 0 ? begin - 1 : begin, at);
        break;
    case EDIT_KILL_BLANK_BEFORE:
        done = kill(e, grapheme_blank_begin(t, n, at), at);
        break;
    case EDIT_KILL_WORD_BEFORE:
        done = kill(e, grapheme_word_begin(t, n, at), at);
        break;
    default:
        done = kill(e, at, grapheme_word_end(t, n, at));
        break;
    }
    if (done)
        e->last = EDIT_KILLING;
    return done;
}

static bool swap(struct editor *e)
{
    const char *t = text_of(e);
    size_t n = e->text.len, middle = e->cursor;
    if (middle > 0 && (middle == n || t[middle] == '\n'))
        middle = grapheme_before(t, n, middle);
    if (middle == 0 || middle == n || t[middle] == '\n' || t[middle - 1] == '\n')
        return false;
    size_t begin = grapheme_before(t, n, middle), end = grapheme_next(t, n, middle);
    _cleanup_buf_ struct buf turned = BUF_INIT(end - begin + 1);
    buf_append(&turned, t + middle, end - middle);
    buf_append(&turned, t + begin, middle - begin);
    return !turned.failed &&
           editor_splice(e, begin, end, (const char *)turned.data, turned.len) == 0;
}

bool editor_do(struct editor *e, enum edit what)
{
    size_t n = e->text.len, at = e->cursor;
    if (what >= EDIT_KILL_LINE_END && what <= EDIT_KILL_WORD)
        return kill_what(e, what);
    if (what < EDIT_DELETE_BEFORE) {
        e->last = EDIT_NOTHING;
        return move(e, what);
    }
    switch (what) {
    case EDIT_DELETE_BEFORE:
        return at > 0 && delete (e, grapheme_before(text_of(e), n, at), at, EDIT_TYPING);
    case EDIT_DELETE:
        return at < n && delete (e, at, grapheme_next(text_of(e), n, at), EDIT_TYPING);
    case EDIT_YANK:
        return e->killed.len > 0 &&
               editor_splice(e, at, at, (const char *)e->killed.data, e->killed.len) == 0;
    case EDIT_SWAP:
        return swap(e);
    case EDIT_UNDO:
        return editor_undo(e);
    default:
        return editor_redo(e);
    }
}
