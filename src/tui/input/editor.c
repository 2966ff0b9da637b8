#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "lines.h"
#include "input.h"
#include "tui.h"
#include "banned.h"

/* The last change, beside the edits of editor.h. */
#define EDIT_NOTHING ((enum edit)100)
#define EDIT_TYPING  ((enum edit)101)
#define EDIT_KILLING ((enum edit)102)

#define UNDO_STEPS 200
#define UNDO_MAX   (4u << 20) /* bytes of all steps together */

/* Characters that stand for pastes: the first of them, in a private plane of Unicode. */
#define PASTE_FIRST 0x10f000u
#define PASTE_BYTES "\xf4\x8f\x80" /* how the 64 of them begin in UTF-8 */

struct editor_state {
    char *text;
    size_t n, cursor;
};

struct editor_paste {
    char *text;
    size_t n, lines;
};

struct editor {
    struct buf text;
    size_t cursor;
    size_t column; /* that Up and Down keep to; SIZE_MAX: none */
    struct buf killed;
    enum edit last;
    struct editor_paste pastes[EDITOR_PASTES];
    size_t n_pastes, pasted; /* bytes of all of them */
    struct editor_state steps[UNDO_STEPS];
    size_t n_steps, at_step; /* steps before at_step can be undone, those after it redone */
    size_t steps_size;       /* bytes */
};

/* Undo: earlier texts, whole. They are short, since pastes are kept apart. */

static void undo_drop(struct editor *e, size_t i)
{
    e->steps_size -= e->steps[i].n;
    free(e->steps[i].text);
    memmove(e->steps + i, e->steps + i + 1, (e->n_steps - i - 1) * sizeof *e->steps);
    e->n_steps--;
}

static bool undo_push(struct editor *e)
{
    while (e->n_steps && (e->n_steps == UNDO_STEPS || e->steps_size + e->text.len > UNDO_MAX)) {
        undo_drop(e, 0);
        e->at_step -= e->at_step > 0;
    }
    char *copy = strndup((const char *)e->text.data, e->text.len);
    if (!copy)
        return false;
    e->steps[e->n_steps++] = (struct editor_state){copy, e->text.len, e->cursor};
    e->steps_size += e->text.len;
    return true;
}

/* Keeps the text before it changes; not again while the same kind of change goes on. */
static void undo_note(struct editor *e, enum edit what)
{
    bool goes_on =
        what == EDIT_TYPING && e->last == EDIT_TYPING && e->at_step == e->n_steps && e->n_steps;
    e->last = what;
    if (goes_on)
        return;
    while (e->n_steps > e->at_step)
        undo_drop(e, e->n_steps - 1);
    if (undo_push(e))
        e->at_step = e->n_steps;
}

static void undo_restore(struct editor *e, const struct editor_state *s)
{
    e->text.len = 0;
    if (buf_append(&e->text, s->text, s->n) < 0 || !buf_cstr(&e->text))
        return;
    e->cursor = s->cursor;
    e->column = SIZE_MAX;
    e->last = EDIT_NOTHING;
}

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

void editor_free(struct editor *e)
{
    if (!e)
        return;
    editor_reset(e);
    buf_free(&e->text);
    buf_free(&e->killed);
    free(e);
}

void editor_reset(struct editor *e)
{
    while (e->n_steps)
        undo_drop(e, e->n_steps - 1);
    for (size_t i = 0; i < e->n_pastes; i++)
        free(e->pastes[i].text);
    e->at_step = e->n_pastes = e->pasted = 0;
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

/* The one place where the text changes. Keeps a NUL after it. */
static int editor_splice(struct editor *e, size_t from, size_t to, const char *text, size_t n)
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

/* The same as one step of undo; `text` may hold characters that stand for pastes. */
static int editor_splice_step(struct editor *e, size_t from, size_t to, const char *text, size_t n)
{
    if (to > e->text.len || from > to)
        return -EINVAL;
    undo_note(e, EDIT_NOTHING);
    return editor_splice(e, from, to, text, n);
}

/* Text from elsewhere may hold characters that stand for pastes: they must not become one. */
static bool has_paste_mark(const char *text, size_t n)
{
    return n >= 4 && memmem(text, n, PASTE_BYTES, 3);
}

int editor_replace(struct editor *e, size_t from, size_t to, const char *text, size_t n)
{
    _cleanup_free_ char *copy = NULL;
    if (has_paste_mark(text, n)) {
        copy = malloc(n);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, text, n);
        for (char *at = copy; (at = memmem(at, n - (size_t)(at - copy), PASTE_BYTES, 3));)
            memset(at, '?', 4);
    }
    return editor_splice_step(e, from, to, copy ? copy : text, n);
}

/* Typing makes one step of undo per word. */
int editor_insert(struct editor *e, const char *text, size_t n)
{
    bool breaks = n > 4 || (n > 0 && (text[0] == ' ' || text[0] == '\n'));
    if (has_paste_mark(text, n))
        return editor_replace(e, e->cursor, e->cursor, text, n);
    undo_note(e, breaks ? EDIT_NOTHING : EDIT_TYPING);
    e->last = EDIT_TYPING;
    return editor_splice(e, e->cursor, e->cursor, text, n);
}

int editor_set(struct editor *e, const char *text)
{
    return editor_replace(e, 0, e->text.len, text, strlen(text));
}

/* Pastes. */

int editor_paste(struct editor *e, const char *text, size_t n)
{
    size_t lines = n > 0;
    for (const char *at = text; (at = memchr(at, '\n', n - (size_t)(at - text))); at++)
        lines += (size_t)(at + 1 - text) < n;
    if ((lines <= EDITOR_FOLD_LINES && n <= EDITOR_FOLD_BYTES) || e->n_pastes == EDITOR_PASTES)
        return editor_insert(e, text, n);
    if (e->pasted + n + EDITOR_TYPED_MAX > EDITOR_MAX)
        return -ENOBUFS;
    char *copy = malloc(n), mark[4];
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, n);
    clean_encode(PASTE_FIRST + (unsigned)e->n_pastes, mark);
    int r = editor_splice_step(e, e->cursor, e->cursor, mark, sizeof mark);
    if (r < 0) {
        free(copy);
        return r;
    }
    e->pastes[e->n_pastes++] = (struct editor_paste){copy, n, lines};
    e->pasted += n;
    return 0;
}

int editor_copy(const struct editor *e, bool full, struct buf *out, size_t *ret_cursor)
{
    const char *t = (const char *)e->text.data;
    for (size_t at = 0; at <= e->text.len;) {
        const struct editor_paste *p = NULL;
        size_t mark = at, size;
        for (; mark < e->text.len; mark++) { /* the next character that stands for a paste */
            const char *c = memchr(t + mark, 0xf4, e->text.len - mark);
            mark = c ? (size_t)(c - t) : e->text.len;
            unsigned code = c ? clean_decode(c, e->text.len - mark, &size) : 0;
            if (code >= PASTE_FIRST && code < PASTE_FIRST + e->n_pastes)
                p = &e->pastes[code - PASTE_FIRST];
            if (!c || p)
                break;
        }
        if (ret_cursor && e->cursor >= at && e->cursor <= mark)
            *ret_cursor = out->len + (e->cursor - at);
        buf_append(out, t + at, mark - at);
        if (!p)
            break;
        if (full) {
            buf_append(out, p->text, p->n);
        } else {
            buf_append_str(out, "[pasted ");
            summary_number(p->lines > 1 ? p->lines : p->n, out);
            buf_append_str(out, p->lines > 1 ? " lines]" : " bytes]");
        }
        at = mark + 4;
    }
    return out->failed ? -ENOMEM : 0;
}

/* Moves and deletions. */

static size_t line_begin(const struct editor *e, size_t at)
{
    const uint8_t *nl = at ? memrchr(e->text.data, '\n', at) : NULL;
    return nl ? (size_t)(nl - e->text.data) + 1 : 0;
}

static size_t line_end(const struct editor *e, size_t at)
{
    const uint8_t *nl = memchr(e->text.data + at, '\n', e->text.len - at);
    return nl ? (size_t)(nl - e->text.data) : e->text.len;
}

/* Up and Down keep to the column where the first of them began. */
static bool edit_move_line(struct editor *e, bool up)
{
    const char *t = (const char *)e->text.data;
    size_t begin = line_begin(e, e->cursor), end = line_end(e, e->cursor), column = e->column;
    if (up ? begin == 0 : end == e->text.len)
        return false;
    if (column == SIZE_MAX)
        for (column = 0; begin < e->cursor; column++)
            begin = grapheme_next(t, e->text.len, begin);
    size_t at = up ? line_begin(e, line_begin(e, e->cursor) - 1) : end + 1;
    end = line_end(e, at);
    for (size_t n = column; n > 0 && at < end; n--)
        at = grapheme_next(t, e->text.len, at);
    e->cursor = at;
    e->column = column;
    return true;
}

static bool edit_delete(struct editor *e, size_t from, size_t to, enum edit what)
{
    if (from == to)
        return false;
    undo_note(e, what);
    editor_splice(e, from, to, "", 0);
    return true;
}

/* Kills in a row are joined. */
static bool edit_kill(struct editor *e, size_t from, size_t to)
{
    _cleanup_buf_ struct buf joined = BUF_INIT(2 * EDITOR_TYPED_MAX);
    bool backward = to == e->cursor && from != e->cursor, more = e->last == EDIT_KILLING;
    if (from == to)
        return false;
    if (more && !backward)
        buf_append(&joined, e->killed.data, e->killed.len);
    buf_append(&joined, e->text.data + from, to - from);
    if (more && backward)
        buf_append(&joined, e->killed.data, e->killed.len);
    if (!joined.failed) {
        buf_free(&e->killed);
        e->killed = joined;
        joined = BUF_INIT(0);
    }
    edit_delete(e, from, to, EDIT_NOTHING);
    e->last = EDIT_KILLING;
    return true;
}

static bool edit_swap(struct editor *e)
{
    const char *t = (const char *)e->text.data;
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
           editor_splice_step(e, begin, end, (const char *)turned.data, turned.len) == 0;
}

bool editor_do(struct editor *e, enum edit what)
{
    const char *t = (const char *)e->text.data;
    size_t n = e->text.len, at = e->cursor, to = at, begin = line_begin(e, at),
           end = line_end(e, at);
    if (what < EDIT_DELETE_BEFORE)
        e->last = EDIT_NOTHING;
    switch (what) {
    case EDIT_UP:
    case EDIT_DOWN:
        return edit_move_line(e, what == EDIT_UP);
    case EDIT_LEFT:
        to = at ? grapheme_before(t, n, at) : 0;
        break;
    case EDIT_RIGHT:
        to = at < n ? grapheme_next(t, n, at) : n;
        break;
    case EDIT_LINE_BEGIN:
        to = begin;
        break;
    case EDIT_LINE_END:
        to = end;
        break;
    case EDIT_WORD_LEFT:
        to = grapheme_word_begin(t, n, at);
        break;
    case EDIT_WORD_RIGHT:
        to = grapheme_word_end(t, n, at);
        break;
    case EDIT_BEGIN:
        to = 0;
        break;
    case EDIT_END:
        to = n;
        break;
    case EDIT_DELETE_BEFORE:
        return at > 0 && edit_delete(e, grapheme_before(t, n, at), at, EDIT_TYPING);
    case EDIT_DELETE:
        return at < n && edit_delete(e, at, grapheme_next(t, n, at), EDIT_TYPING);
    case EDIT_KILL_LINE_END:
        return edit_kill(e, at, at == end && end < n ? end + 1 : end);
    case EDIT_KILL_LINE_BEGIN:
        return edit_kill(e, at == begin && begin > 0 ? begin - 1 : begin, at);
    case EDIT_KILL_BLANK_BEFORE:
        while (to > 0 && isspace((unsigned char)t[to - 1]))
            to--;
        while (to > 0 && !isspace((unsigned char)t[to - 1]))
            to--;
        return edit_kill(e, to, at);
    case EDIT_KILL_WORD_BEFORE:
        return edit_kill(e, grapheme_word_begin(t, n, at), at);
    case EDIT_KILL_WORD:
        return edit_kill(e, at, grapheme_word_end(t, n, at));
    case EDIT_YANK:
        return e->killed.len > 0 &&
               editor_splice_step(e, at, at, (const char *)e->killed.data, e->killed.len) == 0;
    case EDIT_SWAP:
        return edit_swap(e);
    case EDIT_UNDO:
        /* The newest text becomes a step too when the first undo leaves it. */
        if (e->at_step == 0 || (e->at_step == e->n_steps && !undo_push(e)) ||
            e->at_step == 0) /* undo_push() had to make room */
            return false;
        undo_restore(e, &e->steps[--e->at_step]);
        return true;
    case EDIT_REDO:
        if (e->at_step + 1 >= e->n_steps)
            return false;
        undo_restore(e, &e->steps[++e->at_step]);
        return true;
    }
    e->cursor = to;
    e->column = SIZE_MAX;
    return to != at;
}
