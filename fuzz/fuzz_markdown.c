/* Markdown of any bytes, cut anywhere: the same lines, none too wide, nothing in them that a
 * terminal obeys. */
#include <assert.h>
#include <locale.h>
#include <stdint.h>
#include <string.h>

#include "lines.h"
#include "markdown.h"
#include "text.h"
#include "banned.h"

static void check(const struct lines *l, int width)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct line *line = &l->all[i];
        int columns = 0;
        for (size_t k = line->first; k < line->first + line->count; k++) {
            const uint8_t *text = l->text.data + l->runs[k].at;
            assert(utf8_valid(text, l->runs[k].n));
            for (size_t c = 0; c < l->runs[k].n; c++)
                assert(text[c] >= 0x20 && text[c] != 0x7f);
            columns += l->runs[k].width;
        }
        assert(columns == line->width && columns <= width);
    }
}

static void compare(const struct lines *a, const struct lines *b)
{
    assert(a->count == b->count && a->n_runs == b->n_runs && a->text.len == b->text.len);
    for (size_t i = 0; i < a->n_runs; i++)
        assert(a->runs[i].n == b->runs[i].n && a->runs[i].style == b->runs[i].style);
    assert(a->text.len == 0 || memcmp(a->text.data, b->text.data, a->text.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2 || !setlocale(LC_CTYPE, "C.UTF-8"))
        return 0;
    _cleanup_buf_ struct buf clean = BUF_INIT(n * CLEAN_GROWTH + 1);
    size_t piece = data[0] % 32 + 1;
    int width = 8 + data[1] % 100;
    struct markdown whole, pieces;
    assert(clean_append(&clean, data + 2, n - 2, data[0] & 0x80) == 0);
    const char *text = clean.len ? (const char *)clean.data : "";
    markdown_open(&whole, width, 2);
    markdown_update(&whole, text, clean.len);
    check(&whole.lines, width);
    assert(whole.work <= 2 * clean.len + 64);
    markdown_open(&pieces, width, 2);
    for (size_t at = 0; at < clean.len;) {
        at = at + piece < clean.len ? at + piece : clean.len;
        while (at < clean.len && (text[at] & 0xc0) == 0x80)
            at++;
        markdown_update(&pieces, text, at);
    }
    compare(&whole.lines, &pieces.lines);
    markdown_free(&whole);
    markdown_free(&pieces);
    return 0;
}
