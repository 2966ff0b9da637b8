#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "clean.h"
#include "utf8.h"
#include "input_area.h"
#include "banned.h"

static void choices_free(struct input_area *in)
{
    for (size_t i = 0; i < in->n_choices; i++) {
        free(in->choices[i]);
        free(in->details[i]);
    }
    free(in->choices);
    free(in->details);
    in->choices = in->details = NULL;
    in->n_choices = 0;
}

void input_free(struct input_area *in)
{
    choices_free(in);
    buf_free(&in->text);
    lines_free(&in->lines);
    free(in->prompt);
    free(in->hint);
    free(in->title);
}

/* Of a long list only the part around the chosen entry is kept: more cannot be shown. */
static void choices_set(struct input_area *in, const struct view_input *given)
{
    size_t first = given->chosen > CHOICES_MAX / 2 ? (size_t)given->chosen - CHOICES_MAX / 2 : 0;
    size_t n = given->n_choices > first ? given->n_choices - first : 0;
    n = n < CHOICES_MAX ? n : CHOICES_MAX;
    choices_free(in);
    in->choices = calloc(n ? n : 1, sizeof *in->choices);
    in->details = calloc(n ? n : 1, sizeof *in->details);
    if (!in->choices || !in->details)
        return;
    for (size_t i = 0; i < n; i++) {
        clean_replace(&in->choices[i], given->choices[first + i]);
        clean_replace(&in->details[i], given->details ? given->details[first + i] : NULL);
    }
    in->n_choices = n;
    in->chosen = given->chosen < 0 ? -1 : given->chosen - (int)first;
}

void input_set(struct input_area *in, const struct view_input *given)
{
    in->text.len = 0;
    in->text.failed = false;
    buf_append(&in->text, given->text ? given->text : "", given->text ? given->n : 0);
    in->cursor = given->cursor < in->text.len ? given->cursor : in->text.len;
    clean_replace(&in->prompt, given->prompt ? given->prompt : "› ");
    clean_replace(&in->hint, given->hint);
    clean_replace(&in->title, given->title);
    choices_set(in, given);
    in->width = 0;
}

struct input_layout {
    struct input_area *in;
    int margin, width, column;
};

static void input_end_line(struct input_layout *t)
{
    lines_end(&t->in->lines);
    lines_put(&t->in->lines, ROLE_TEXT, "                    ", (size_t)t->margin, t->margin);
    t->column = 0;
}

/* Puts the character at `at`; returns its bytes. */
static size_t input_put_character(struct input_layout *t, size_t at)
{
    struct input_area *in = t->in;
    const uint8_t *s = in->text.data + at;
    size_t n = utf8_character(s, in->text.len - at);
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
        lines_put(&in->lines, ROLE_TEXT, (const char *)clean.data, clean.len, width);
    t->column += width;
    return n;
}

static void input_lay_out(struct input_area *in, int columns)
{
    const char *prompt = in->prompt ? in->prompt : "";
    int margin = clean_width(prompt, strlen(prompt));
    bool wide = margin <= 20 && margin < columns / 2;
    struct input_layout t = {.in = in, .margin = wide ? margin : 0};
    t.width = columns - t.margin > 2 ? columns - t.margin : 2;
    lines_cut(&in->lines, 0);
    if (wide)
        lines_put(&in->lines, ROLE_ACCENT | STYLE_BOLD, prompt, strlen(prompt), margin);
    for (size_t at = 0; at <= in->text.len;) {
        if (at == in->cursor) {
            if (t.column >= t.width)
                input_end_line(&t);
            in->cursor_row = in->lines.count;
            in->cursor_column = t.margin + t.column;
        }
        if (at == in->text.len)
            break;
        at += input_put_character(&t, at);
    }
    if (in->text.len == 0 && in->hint)
        lines_put(&in->lines, ROLE_MUTED, in->hint, strlen(in->hint),
                  clean_width(in->hint, strlen(in->hint)));
    lines_end(&in->lines);
    in->width = columns;
}

int input_height(struct input_area *in, int rows, int columns)
{
    int most = rows / 3 > 1 ? rows / 3 : 1;
    if (in->width != columns)
        input_lay_out(in, columns);
    int height = in->lines.count < (size_t)most ? (int)in->lines.count : most;
    if (in->cursor_row < in->top)
        in->top = in->cursor_row;
    if (in->cursor_row >= in->top + (size_t)height)
        in->top = in->cursor_row - (size_t)height + 1;
    if (in->top + (size_t)height > in->lines.count)
        in->top = in->lines.count - (size_t)height;
    return height;
}

void input_draw(struct input_area *in, struct screen *s, int row, int height)
{
    for (int i = 0; i < height; i++)
        screen_line(s, row + i, 0, &in->lines, in->top + (size_t)i, 0);
}

int choices_height(const struct input_area *in, int rows)
{
    int most = in->title ? rows / 2 : rows / 3 < CHOICES_SHOWN ? rows / 3 : CHOICES_SHOWN;
    int n = (int)in->n_choices < most ? (int)in->n_choices : most;
    return n + (in->title != NULL);
}

/* The part of the list around the chosen entry. */
void choices_draw(const struct input_area *in, struct screen *s, int row, int height, int columns)
{
    if (in->title && height > 0) {
        screen_text(s, row++, 2, ROLE_TEXT | STYLE_BOLD, in->title);
        height--;
    }
    if (height <= 0)
        return;
    int first = in->chosen >= height ? in->chosen - height + 1 : 0;
    int widest = 0;
    for (int i = first; i < first + height; i++) {
        int width = in->choices[i] ? clean_width(in->choices[i], strlen(in->choices[i])) : 0;
        widest = width > widest ? width : widest;
    }
    widest = widest < columns / 2 ? widest : columns / 2;
    for (int i = 0; i < height; i++) {
        const char *choice = in->choices[first + i], *detail = in->details[first + i];
        bool chosen = first + i == in->chosen;
        int column = screen_text(s, row + i, 0, ROLE_ACCENT, chosen ? "▸ " : "  ");
        column = screen_text(s, row + i, column, chosen ? ROLE_ACCENT | STYLE_BOLD : ROLE_TEXT,
                             choice ? choice : "");
        if (detail && *detail)
            screen_text(s, row + i, column > widest + 4 ? column + 2 : widest + 4, ROLE_MUTED,
                        detail);
    }
}
