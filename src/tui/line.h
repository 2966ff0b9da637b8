/*
 * Lines as they will stand on the screen: runs of clean text, each with a style and its width in
 * columns. Everything that is shown becomes lines first, without any terminal, and can so be
 * tested.
 *
 * All lines of one thing lie in one arena, in order: what was added last can be taken back
 * (lines_cut), which is how the open end of a stream is drawn again and again. When memory or a
 * bound is reached, `failed` is set and nothing more is added: there are fewer lines, never wrong
 * ones.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* What a piece of text is; the theme says how that looks. A style is one of these with flags. */
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

#define LINES_MAX      1000000u
#define LINES_TEXT_MAX (64u << 20)

struct lines {
    struct buf text;
    struct run *runs;
    size_t n_runs, cap_runs;
    struct line *all;
    size_t count, cap;
    uint32_t open; /* the first run of the line that is being written */
    bool failed;
};

#define LINES_INIT ((struct lines){.text = BUF_INIT(LINES_TEXT_MAX)})

void lines_free(struct lines *l);
#define _cleanup_lines_ _cleanup_(lines_free)

/* Adds to the line that is being written; lines_end ends it. `text` is clean, without tabs and line
 * ends. */
void lines_put(struct lines *l, unsigned style, const char *text, size_t n, int width);
void lines_say(struct lines *l, unsigned style, const char *text); /* the same, measured here */
void lines_end(struct lines *l);

/* Takes back all but the first `count` lines. */
void lines_cut(struct lines *l, size_t count);

/* One line as plain text, for tests and searches; appended. */
void lines_plain(const struct lines *l, size_t line, struct buf *out);
