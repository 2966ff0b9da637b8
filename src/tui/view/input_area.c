#include <string.h>
#include <wchar.h>

#include "clean.h"
#include "utf8.h"
#include "input_area.h"
#include "banned.h"

struct input_layout {
    struct lines *lines;
    int margin, width, column;
};

static void input_end_line(struct input_layout *t)
{
    lines_end(t->lines);
    lines_put(t->lines, ROLE_TEXT, "                    ", (size_t)t->margin, t->margin);
    t->column = 0;
}

/* Puts the first character of the text; returns its bytes. */
static size_t input_put_character(struct input_layout *t, const char *text, size_t left)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t n = utf8_character(s, left);
    _cleanup_buf_ struct buf clean = BUF_INIT(64);
    n = n ? n : 1;
    if (*s == '\n') {
        input_end_line(t);
        return n;
    }
    bool tab = *s == '\t';
    if (tab)
        buf_append(&clean, "    ", (size_t)(4 - t->column % 4));
    else
        clean_append(&clean, s, n, false);
    size_t size;
    bool mark = clean.len && clean_decode((const char *)clean.data, clean.len, &size) >= 0x300 &&
                size == clean.len && t->column > 0 &&
                wcwidth((wchar_t)clean_decode((const char *)clean.data, clean.len, &size)) == 0;
    int width = mark || !clean.len ? 0 : clean_width((const char *)clean.data, clean.len);
    if (t->column + width > t->width)
        input_end_line(t);
    if (clean.len)
        lines_put(t->lines, ROLE_TEXT, (const char *)clean.data, clean.len, width);
    t->column += width;
    return n;
}

int input_lay_out(struct input_area *in, const struct view_input *given, int rows, int columns)
{
    const char *prompt = given->prompt ? given->prompt : "› ";
    size_t cursor = given->cursor < given->n ? given->cursor : given->n;
    int margin = clean_width(prompt, strlen(prompt)), most = rows / 3 > 1 ? rows / 3 : 1;
    bool wide = margin <= 20 && margin < columns / 2;
    struct input_layout t = {.lines = &in->lines, .margin = wide ? margin : 0};
    t.width = columns - t.margin > 2 ? columns - t.margin : 2;
    lines_cut(&in->lines, 0);
    if (wide)
        lines_put(&in->lines, ROLE_ACCENT | STYLE_BOLD, prompt, strlen(prompt), margin);
    for (size_t at = 0; at <= given->n;) {
        if (at == cursor) {
            if (t.column >= t.width)
                input_end_line(&t);
            in->cursor_row = in->lines.count;
            in->cursor_column = t.margin + t.column;
        }
        if (at == given->n)
            break;
        at += input_put_character(&t, given->text + at, given->n - at);
    }
    if (given->n == 0 && given->hint)
        lines_puts(&in->lines, ROLE_MUTED, given->hint);
    lines_end(&in->lines);
    /* Scroll as little as possible to show the cursor. */
    int height = in->lines.count < (size_t)most ? (int)in->lines.count : most;
    if (in->cursor_row < in->top)
        in->top = in->cursor_row;
    if (in->cursor_row >= in->top + (size_t)height)
        in->top = in->cursor_row - (size_t)height + 1;
    if (in->top + (size_t)height > in->lines.count)
        in->top = in->lines.count - (size_t)height;
    return height;
}

void input_draw(const struct input_area *in, struct screen *s, int row, int height)
{
    for (int i = 0; i < height; i++)
        screen_line(s, row + i, 0, &in->lines, in->top + (size_t)i, 0);
}

int choices_height(const struct view_input *given, int rows)
{
    int most = given->title ? rows / 2 : rows / 3 < CHOICES_SHOWN ? rows / 3 : CHOICES_SHOWN;
    int n = given->n_choices < (size_t)most ? (int)given->n_choices : most;
    return n + (given->title != NULL);
}

/* The part of the list around the chosen entry. */
void choices_draw(const struct view_input *given, struct screen *s, int row, int height,
                  int columns)
{
    if (given->title && height > 0) {
        screen_text_cleaned(s, row++, 2, ROLE_TEXT | STYLE_BOLD, given->title);
        height--;
    }
    int first = given->chosen >= height ? given->chosen - height + 1 : 0, widest = 0;
    for (int i = first; i < first + height; i++) {
        int width = clean_width(given->choices[i], strlen(given->choices[i]));
        widest = width > widest ? width : widest;
    }
    widest = widest < columns / 2 ? widest : columns / 2;
    for (int i = first; i < first + height; i++, row++) {
        const char *detail = given->details ? given->details[i] : NULL;
        bool chosen = i == given->chosen;
        int column = screen_text(s, row, 0, ROLE_ACCENT, chosen ? "▸ " : "  ");
        column = screen_text_cleaned(s, row, column, chosen ? ROLE_ACCENT | STYLE_BOLD : ROLE_TEXT,
                                     given->choices[i]);
        if (detail && *detail)
            screen_text_cleaned(s, row, column > widest + 4 ? column + 2 : widest + 4, ROLE_MUTED,
                                detail);
    }
}
