/* How each kind of item looks. Marks stand in the first column, text begins in the third. */
#include <stdio.h>
#include <string.h>

#include "clean.h"
#include "item.h"
#include "summary.h"
#include "banned.h"

#define PERSON_FOLDED 12 /* lines of a long paste */
#define DIFF_FOLDED   40

static const char *text_of(const struct item *it)
{
    return it->text.len ? (const char *)it->text.data : "";
}

static int prose(int width)
{
    return width < MARKDOWN_PROSE ? width : MARKDOWN_PROSE;
}

/* `… 132 more lines (ctrl-o)`. */
static void more_line(struct lines *out, const char *margin, size_t left, const char *key)
{
    char text[96];
    snprintf(text, sizeof text, "… %zu more line%s (%s)", left, left == 1 ? "" : "s", key);
    lines_say(out, ROLE_MUTED, margin);
    lines_say(out, ROLE_MUTED, text);
    lines_end(out);
}

/* All of the text, or so many of its lines; returns how many lines of text were left out. */
static size_t words_lines(struct item *it, const struct margin *m, unsigned style, int width,
                          size_t most)
{
    _cleanup_flow_ struct flow f = FLOW_INIT;
    const char *text = text_of(it), *end = text + it->text.len, *at = text;
    while (end > text && end[-1] == '\n')
        end--;
    for (size_t i = 0; at < end && i < most; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    size_t left = 0;
    for (const char *rest = at; rest < end; left++) {
        const char *newline = memchr(rest, '\n', (size_t)(end - rest));
        rest = newline ? newline + 1 : end;
    }
    flow_add(&f, style, text, (size_t)(at - text));
    wrap_words(&f, m, width, &it->lines);
    return left;
}

static void person_lines(struct item *it, const struct item_look *look)
{
    struct margin m = {"› ", "  ", ROLE_ACCENT | STYLE_BOLD, ROLE_TEXT};
    size_t left = words_lines(it, &m, ROLE_TEXT | STYLE_BOLD, prose(look->width) - ITEM_INDENT,
                              it->open ? SIZE_MAX : PERSON_FOLDED);
    it->folds = left || it->open;
    if (left)
        more_line(&it->lines, "  ", left, look->key);
}

static void note_lines(struct item *it, const struct item_look *look)
{
    struct margin m = {"· ", "  ", ROLE_MUTED, ROLE_TEXT};
    words_lines(it, &m, ROLE_TEXT, look->width - ITEM_INDENT, SIZE_MAX);
}

static void passing_lines(struct item *it, const struct item_look *look)
{
    char left[48] = "";
    _cleanup_flow_ struct flow f = FLOW_INIT;
    flow_add(&f, ROLE_MUTED, text_of(it), it->text.len);
    if (it->began) { /* when the wait is over */
        int64_t ns = it->began - look->now;
        snprintf(left, sizeof left, "; asking again in %lld s",
                 (long long)(ns > 0 ? (ns + 999999999) / 1000000000 : 0));
        flow_say(&f, ROLE_MUTED, left);
    }
    struct margin m = {"", "", 0, 0};
    lines_say(&it->lines, ROLE_ACCENT, spinner(look->tick));
    lines_say(&it->lines, ROLE_MUTED, " ");
    wrap_one(&f, &m, look->width - ITEM_INDENT, 8, &it->lines);
}

/* The line that thoughts are told in while folded: the first once they are over, the last until
 * then. */
static void thought_line(const struct item *it, struct flow *f)
{
    const char *text = text_of(it), *end = text + it->text.len;
    while (end > text && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    while (text < end && (*text == '\n' || *text == ' '))
        text++;
    if (!it->over) {
        const char *newline = memrchr(text, '\n', (size_t)(end - text));
        text = newline ? newline + 1 : text;
    }
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    bool more = newline && it->over;
    flow_add(f, ROLE_MUTED | STYLE_ITALIC, text, (size_t)((newline ? newline : end) - text));
    if (more)
        flow_say(f, ROLE_MUTED, " …");
}

static void thinking_lines(struct item *it, const struct item_look *look)
{
    _cleanup_flow_ struct flow f = FLOW_INIT;
    struct margin m = {it->over ? "∴ " : "", "  ", ROLE_MUTED, ROLE_MUTED};
    it->folds = true;
    if (it->open) {
        m.first = "∴ ";
        words_lines(it, &m, ROLE_MUTED | STYLE_ITALIC, prose(look->width) - ITEM_INDENT, SIZE_MAX);
        return;
    }
    if (!it->over) {
        lines_say(&it->lines, ROLE_ACCENT, spinner(look->tick));
        lines_say(&it->lines, ROLE_MUTED, " ");
    }
    thought_line(it, &f);
    wrap_one(&f, &m, prose(look->width) - ITEM_INDENT, 8, &it->lines);
}

static void diff_item_lines(struct item *it, const struct item_look *look)
{
    size_t left = 0;
    bool cut = diff_lines(text_of(it), it->text.len, it->open ? SIZE_MAX : DIFF_FOLDED, "  ",
                          look->width, &it->lines, &left);
    it->folds = left || cut || it->open;
    if (left)
        more_line(&it->lines, "  ", left, look->key);
}

/* Lines of text come as `M path +1 -2`; see item_changes. */
static void changes_lines(struct item *it, const struct item_look *look)
{
    const char *at = text_of(it), *end = at + it->text.len;
    for (bool first = true; at < end; first = false) {
        _cleanup_flow_ struct flow f = FLOW_INIT;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        struct margin m = {first ? "± " : "  ", "  ", ROLE_ACCENT, ROLE_TEXT};
        const char *figures = memrchr(at, '+', (size_t)(stop - at)); /* behind any + of the name */
        figures = figures && figures > at && figures[-1] == ' ' ? figures : stop;
        const char *minus = memmem(figures, (size_t)(stop - figures), "−", strlen("−"));
        minus = minus ? minus : stop;
        flow_add(&f, first ? ROLE_TEXT | STYLE_BOLD : ROLE_TEXT, at, (size_t)(figures - at));
        flow_add(&f, ROLE_ADDED, figures, (size_t)(minus - figures));
        flow_add(&f, ROLE_DELETED, minus, (size_t)(stop - minus));
        wrap_one(&f, &m, look->width - ITEM_INDENT, 8, &it->lines);
        at = stop + 1;
    }
}

static void make(struct item *it, const struct item_look *look)
{
    static void (*const makers[])(struct item *, const struct item_look *) = {
        [ITEM_PERSON] = person_lines,   [ITEM_THINKING] = thinking_lines,
        [ITEM_CALL] = call_lines,       [ITEM_DIFF] = diff_item_lines,
        [ITEM_NOTE] = note_lines,       [ITEM_CHANGES] = changes_lines,
        [ITEM_PASSING] = passing_lines,
    };
    lines_cut(&it->lines, 0);
    makers[it->kind](it, look);
}

const struct lines *item_lines(struct item *it, const struct item_look *look)
{
    bool answer = it->kind == ITEM_ANSWER;
    if (it->width && it->width != look->width)
        item_forget(it);
    if (answer && !it->width)
        markdown_open(&it->markdown, look->width, ITEM_INDENT);
    if (it->stale || item_moves(it)) {
        if (answer)
            markdown_update(&it->markdown, text_of(it), it->text.len);
        else
            make(it, look);
    }
    it->width = look->width;
    it->stale = false;
    const struct lines *lines = answer ? &it->markdown.lines : &it->lines;
    it->height = lines->count;
    return lines;
}
