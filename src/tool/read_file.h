/* The form of what read_file read. Everything here came from the box. */
#pragma once

#include "file_input.h"
#include "filekind.h"

/* A range of bytes. */
struct read_bytes {
    const char *path;
    const uint8_t *data;
    size_t n;
    uint64_t offset, size;
};

/* Lines, with the RESULT of LINES. */
struct read_lines {
    const char *path;
    const uint8_t *data;
    size_t n;
    const struct wire_frame *result;
    bool numbers;
};

/* 0 or -ENOMEM. */
int read_show_bytes(struct tool_result *r, const struct read_bytes *b);
int read_show_lines(struct tool_result *r, const struct read_lines *l);
