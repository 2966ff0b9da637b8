/*
 * Keys and the line editor: whatever bytes a terminal sends, in whatever pieces, presses are whole,
 * what is typed and pasted is valid UTF-8, and the cursor stands between characters.
 */
#include <assert.h>
#include <locale.h>
#include <stdint.h>
#include <string.h>

#include "input.h"
#include "text.h"
#include "banned.h"

static void check_editor(const struct editor *e)
{
    _cleanup_buf_ struct buf shown = BUF_INIT(8 * EDITOR_MAX), whole = BUF_INIT(2 * EDITOR_MAX);
    size_t n, cursor;
    const char *text = editor_text(e, &n, &cursor);
    assert(cursor <= n && text[n] == 0 && utf8_valid((const uint8_t *)text, n));
    assert(cursor == n || ((uint8_t)text[cursor] & 0xc0) != 0x80);
    assert(editor_copy(e, false, &shown, &cursor) == 0 && cursor <= shown.len);
    assert(editor_copy(e, true, &whole, NULL) == 0 && utf8_valid(whole.data, whole.len));
}

/* Keys that are no text do an edit, one for each. */
static void do_press(struct editor *e, const struct keys *k, const struct press *p)
{
    size_t n = strnlen(p->text, sizeof p->text);
    assert(p->code != KEYS_NONE && p->code != KEYS_OTHER && n < sizeof p->text);
    if (p->code == KEYS_TEXT && !p->with) {
        assert(n > 0 && utf8_character((const uint8_t *)p->text, n) == n);
        editor_insert(e, p->text, n);
    } else if (p->code == KEYS_PASTE) {
        assert(utf8_valid(k->paste.data, k->paste.len));
        editor_paste(e, k->paste.len ? (const char *)k->paste.data : "", k->paste.len);
    } else {
        editor_do(e, (enum edit)((unsigned)(p->code * 3 + p->with + (unsigned char)p->text[0]) %
                                 (EDIT_REDO + 1)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct keys k;
    struct editor *e = NULL;
    struct press p;
    if (size < 2 || editor_new(&e) < 0)
        return 0;
    setlocale(LC_CTYPE, "C.UTF-8");
    keys_init(&k);
    size_t piece = data[0] % 32 + 1;
    for (size_t i = 1; i < size; i += piece) {
        keys_feed(&k, data + i, size - i < piece ? size - i : piece);
        memset(&p, 0, sizeof p);
        while (keys_next(&k, i % 5 == 0, &p))
            do_press(e, &k, &p);
        check_editor(e);
    }
    keys_next(&k, true, &p);
    keys_free(&k);
    editor_free(e);
    return 0;
}
