/*
 * Styled text, and the lines that it becomes on the screen.
 *
 * Everything that is shown becomes lines first, without any terminal, and can so be tested. A line
 * is a list of runs: clean text (clean.h) with a style and its width in columns. The lines of one
 * thing share an arena, in order: lines_cut() removes the last ones, which is how the open end of a
 * stream is laid out again and again. When memory or a limit runs out, `failed` is set and nothing
 * more is added: lines may be missing, but none is wrong.
 *
 * wrap_*() break styled text into lines of a width, each after a margin.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* What a piece of text is; the theme decides how that looks. A style is a role with flags. */
enum role {
    ROLE_TEXT,
    ROLE_MUTED,
    ROLE_ACCENT,
    ROLE_HEADING,
    ROLE_CODE,
    ROLE_LINK,
    ROLE_GOOD,
    ROLE_BAD,
    ROLE_WARN,
    ROLE_KEYWORD,
    ROLE_STRING,
    ROLE_COMMENT,
    ROLE_ADDED,
    ROLE_DELETED,
    ROLE_HUNK,
    ROLE_COUNT,
};
#define STYLE_BOLD      0x100u
#define STYLE_ITALIC    0x200u
#define STYLE_UNDERLINE 0x400u
#define STYLE_REVERSE   0x800u
#define STYLE_ROLE(s)   ((enum role)((s)&0xff))

struct run {
    uint32_t at, n; /* of the arena's text */
    uint16_t style, width;
};

struct line {
    uint32_t first, count; /* of the arena's runs */
    uint16_t width;
};

#define PROSE_WIDTH 100 /* columns: wider text is hard to read */

#define LINES_MAX      1000000u
#define LINES_TEXT_MAX (64u << 20)

struct lines {
    struct buf text;
    struct run *runs;
    size_t n_runs, cap_runs;
    struct line *all;
    size_t count, cap;
    uint32_t open; /* first run of the line that is being written */
    bool failed;
};

#define LINES_INIT ((struct lines){.text = BUF_INIT(LINES_TEXT_MAX)})

void lines_free(struct lines *l);
#define _cleanup_lines_ _cleanup_(lines_free)

/* Add to the line that is being written; lines_end() ends it. `text` is clean and has neither tabs
 * nor newlines. lines_puts() measures the width. */
void lines_put(struct lines *l, unsigned style, const char *text, size_t n, int width);
void lines_puts(struct lines *l, unsigned style, const char *text);
void lines_end(struct lines *l);

/* Keeps the first `count` lines and removes the others. */
void lines_cut(struct lines *l, size_t count);

/* Clean text with styles, which may hold tabs and newlines. */

#define STYLED_MAX (8u << 20)

struct span {
    uint32_t end; /* offset in the text */
    uint16_t style;
};

struct styled {
    struct buf text;
    struct span *spans;
    size_t count, cap;
};

#define STYLED_INIT ((struct styled){.text = BUF_INIT(STYLED_MAX)})

void styled_free(struct styled *s);
void styled_clear(struct styled *s); /* keeps the memory */
#define _cleanup_styled_ _cleanup_(styled_free)

/* Text that exceeds memory or STYLED_MAX is dropped. */
void styled_add(struct styled *s, unsigned style, const char *text, size_t n);
void styled_puts(struct styled *s, unsigned style, const char *text);
void styled_append(struct styled *to, const struct styled *from);
int styled_width(const struct styled *s);

/* Adds to the line that is being written. */
void lines_put_styled(struct lines *l, const struct styled *s);

/* What stands before the first line and before the others. */
struct margin {
    const char *first, *rest;
    unsigned first_style, rest_style;
};

/* Wraps at words; a word longer than a line is broken, and a line may end beside any wide
 * character. `width` excludes the margin. Empty text gives no line. */
void wrap_words(const struct styled *s, const struct margin *m, int width, struct lines *out);

/* Keeps all blanks; tabs go to the next multiple of `tab_width`. Empty text gives an empty line. */
void wrap_exact(const struct styled *s, const struct margin *m, int width, int tab_width,
                struct lines *out);

/* As wrap_exact(), but only the first line, with … where text was cut; true if it was. */
bool wrap_one(const struct styled *s, const struct margin *m, int width, int tab_width,
              struct lines *out);
