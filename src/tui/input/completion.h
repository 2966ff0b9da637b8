/*
 * Completion of the word at the cursor: a command's name after a leading /, sessions, models or
 * choices after some commands, and files of the workspace for a word with @ before it or with a
 * slash or a dot in it.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define COMPLETION_MAX 20 /* names that are offered */

/* What to complete from; NULL: not known yet. Borrowed. */
struct completion_names {
    json_t *files;    /* strings */
    json_t *sessions; /* [ID, title] */
    json_t *models;   /* strings */
};

/* The names that are missing to complete this word. */
enum completion_wants { WANTS_NOTHING, WANTS_FILES, WANTS_SESSIONS };

struct completion {
    size_t from, to; /* bytes of the text that a name replaces */
    const char *names[COMPLETION_MAX], *details[COMPLETION_MAX]; /* of tables or completion_names */
    size_t n;
    const char *suffix; /* added after the chosen name: a blank, or nothing */
    enum completion_wants wants;
    bool automatic; /* shown without Tab */
};

void completion_find(const char *text, size_t n, size_t cursor, const struct completion_names *from,
                     struct completion *ret);

/* How well the typed text matches a name: larger is better, -1: not at all. A match in the last
 * part of a path is better, then one anywhere, then the letters in order; shorter names win.
 * Capitals in the typed text must match exactly. */
int completion_score(const char *typed, size_t n, const char *name);
