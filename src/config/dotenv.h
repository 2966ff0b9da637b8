/*
 * .env files: NAME=value by line, as the many readers of them agree. Comments, `export`, single
 * quotes (as they are) and double quotes (with \n, \t, \" and the like); a quoted value may go over
 * several lines. Nothing is executed and nothing is expanded: a `$` is a dollar sign.
 *
 * Pure: what is fed may come from a stranger. Names and values are handed on as they are found; a
 * line that is none of this is told with its number and left out, and the next one is read as if
 * nothing had been.
 */
#pragma once

#include <stddef.h>

#define DOTENV_MAX       (64u << 10) /* bytes of a file */
#define DOTENV_NAME_MAX  128
#define DOTENV_VALUE_MAX (16u << 10)

struct dotenv_sink {
    void (*value)(void *data, const char *name, const char *value);
    void (*broken)(void *data, unsigned line, const char *why);
    void *data;
};

/* 0, or -ENOMEM. */
int dotenv_parse(const char *text, size_t n, const struct dotenv_sink *sink);
