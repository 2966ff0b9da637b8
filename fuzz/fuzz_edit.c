/*
 * Any edit of any text: where `old` is there once, exactly that is replaced; where it is not, the
 * explanation is bounded, and points to lines that exist. The lines of the text are those that
 * scanning it gives.
 */
#include <errno.h>
#include <string.h>

#include "compose.h"
#include "edit/edit.h"
#include "file.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_replaced(struct span text, const struct edit *e, const struct buf *out,
                           const struct edit_match *m)
{
    size_t at = span_find(text, e->old, 0);
    if (m->endings || at == SIZE_MAX) {
        require(m->endings);
        return;
    }
    require(out->len == text.n + m->count * e->new.n - m->count * e->old.n);
    require(out->len == 0 || memcmp(out->data, text.data, at) == 0);
    require(e->new.n == 0 || memcmp(out->data + at, e->new.data, e->new.n) == 0);
}

static void check_edit(struct span text, const struct edit *e)
{
    _cleanup_buf_ struct buf out = BUF_INIT(EDIT_TEXT_MAX), why = BUF_INIT(EDIT_EXPLAIN_MAX);
    struct line_range place;
    struct edit_match m = {0};
    uint64_t lines = span_count(text, '\n', text.n) + 1;
    int r = edit_apply(text, e, &out, &m);
    require(r == 0 || r == -ENOENT || r == -ENOTUNIQ);
    if (r == 0)
        check_replaced(text, e, &out, &m);
    require(r != 0 || e->all || m.count == 1);
    edit_explain(text, e, &why, &place);
    require(why.len <= EDIT_EXPLAIN_MAX);
    require(place.count == 0 || (place.line >= 1 && place.line + place.count - 1 <= lines));
}

static void check_lines(struct span text, int8_t first, uint8_t count)
{
    struct line_source s = {.fd = -1, .text = text.data, .size = text.n};
    struct line_want want = {first, count ? count : 1, 50, 10};
    _cleanup_buf_ struct buf out = BUF_INIT(line_scan_room(&want));
    struct line_got got;
    uint64_t lines = span_count(text, '\n', text.n) + (text.n && text.data[text.n - 1] != '\n');
    int r = line_scan(&s, &want, &out, &got, NULL);
    require(r == 0 || (r == -ERANGE && (uint64_t)want.first > lines));
    require(r < 0 || (got.lines == lines && got.lines_known && got.count <= want.count));
    require(r < 0 || !got.count || got.more == (got.first + got.count - 1 < lines));
}

/* Five bytes say how the rest is divided, what is asked, and whether all places are meant. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 6)
        return 0;
    size_t size = n - 5, old = 1 + data[0] % size, new = data[1] % (size - old + 1);
    const uint8_t *s = data + 5;
    struct edit e = {{s, old}, {s + old, new}, data[2] & 1};
    struct span text = {s + old + new, size - old - new};
    if (!span_same(e.old, e.new))
        check_edit(text, &e);
    check_lines(text, (int8_t)data[3], data[4]);
    return 0;
}
