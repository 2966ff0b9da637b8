/*
 * Clean text: what reaches the cells of the terminal. Everything untrusted (files, output, the
 * model's words) passes clean_append() first. Clean text is valid UTF-8 of printable characters,
 * newlines and tabs, so that whatever wraps, colours or draws it need not think of anything else.
 *
 * What a terminal would obey, or what would mislead a reader, is replaced visibly: controls by
 * their pictures (␛), characters that change the direction of writing and invalid bytes by U+FFFD.
 * What makes terminals disagree about widths (joiners, variation selectors, skin tones) is left
 * out: an emoji family becomes its members, which all terminals place alike.
 *
 * Graphemes are characters as people see them: a letter with its accents, an emoji of several code
 * points, a flag. The rules are Unicode's as far as they matter to a cursor. Widths and classes of
 * code points come from the C library, so the locale must be UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define CLEAN_GROWTH 3 /* bytes that one byte becomes at most */

/* Never occurs in clean text: a marker for code that works on it. */
#define CLEAN_NEVER "\xe2\x81\xa0" /* U+2060 */

/* Appends the clean form of whole characters. `output`: of a command; its colours (SGR sequences)
 * are dropped. Returns 0 or a negative errno of the buffer. */
int clean_append(struct buf *out, const void *text, size_t n, bool output);

/* The clean form of at most `most` bytes, allocated; NULL without memory. */
char *clean_string(const char *text, size_t n, size_t most);

/* The bytes of the next character of clean text with its combining marks, and its columns. A mark
 * without a character to stand on takes a column. */
size_t clean_next(const char *s, size_t n, int *ret_width);

int clean_width(const char *s, size_t n); /* of text without tabs and newlines */

/* The bytes that fit in `width` columns. */
size_t clean_fit(const char *s, size_t n, int width, int *ret_width);

/* The code point at the start of s and its bytes; U+FFFD and 1 for an invalid byte. */
uint32_t clean_decode(const char *s, size_t n, size_t *ret_size);

/* Returns the number of bytes. */
size_t clean_encode(uint32_t code, char out[4]);

/* Where the grapheme at `at` ends, and where the one before `at` begins. The text is valid
 * UTF-8. */
size_t grapheme_next(const char *text, size_t n, size_t at);
size_t grapheme_before(const char *text, size_t n, size_t at);

/* Words of Alt-F and Alt-B: runs of letters, digits and _. */
size_t grapheme_word_end(const char *text, size_t n, size_t at);
size_t grapheme_word_begin(const char *text, size_t n, size_t at);

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

/*
 * Syntax colours for code: comments, strings and keywords, no more. One small lexer serves all
 * languages; a language is a row of a table. It works line by line, so that code is coloured while
 * it streams in.
 */

struct language;

struct lexer {
    const struct language *language; /* NULL: nothing is coloured */
    const char *closing; /* ends what the line before left open; NULL: nothing is open */
};

/* By the name after a code fence ("py", "c++ title=x"). An unknown name colours nothing. */
struct lexer lexer_open(const char *name, size_t n);

/* Adds one line, without its newline. */
void lexer_line(struct lexer *l, const char *line, size_t n, struct styled *out);

bool has_prefix(const char *s, size_t n, const char *what); /* false if `what` is NULL or empty */

/* The style of a line of a unified or git diff. */
unsigned diff_style(const char *line, size_t n);
