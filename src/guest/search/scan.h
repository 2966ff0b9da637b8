/*
 * Looking for a pattern in one file.
 *
 * The file is read, never mapped: another process may shrink it meanwhile. It is read into a window
 * that begins with a line; what of it can be searched ends with a line and has the context lines
 * behind it. Then the window moves on, with the context lines before. It grows for long lines, up
 * to a limit; a line longer than that is searched in pieces.
 *
 * A file with a NUL byte in the window is binary: the scan ends there, as in rg.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "pattern.h"

#define SCAN_WINDOW_FIRST (256u << 10)
#define SCAN_WINDOW_MAX   (8u << 20)
#define SCAN_LINE_SHOWN   400u /* bytes of a line that are shown */
#define SCAN_CONTEXT_MAX  20u
#define SCAN_FILE_MAX     (1ull << 30) /* bytes of one file that are searched */

struct scan {
    struct matcher *matcher;
    unsigned context;
    uint64_t file_max;
    uint8_t *text; /* the window */
    size_t room;
};

struct scan_result {
    uint64_t count;    /* lines that match */
    unsigned keep_max; /* in: how many to describe, */
    size_t bytes_max;  /* and until how many bytes of frames there are */
    unsigned kept;     /* out: how many were */
    struct buf frames; /* an ENTRY for each, see docs/protocol.md */
    bool binary;       /* the scan ended at a NUL byte */
    bool partly; /* it is larger than what is searched, or has a line that was searched in pieces */
    uint64_t failed_line; /* if -E2BIG: the line for which the pattern needs too much */
};

/* Takes the matcher. */
int scan_init(struct scan *s, struct matcher *matcher, unsigned context, uint64_t file_max);
void scan_free(struct scan *s);

/* Searches what can be read from fd. -E2BIG: the pattern needs too much; other errors are of
 * reading. */
int scan_file(struct scan *s, int fd, struct scan_result *r);
