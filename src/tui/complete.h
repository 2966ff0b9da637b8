/*
 * Completion: what the word at the cursor may become. A word that begins a text with / is a
 * command's name, behind some commands stand sessions or models, and a word with @ before it, or
 * with a slash in it, is a file of the workspace.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define COMPLETE_MAX 20 /* that are offered */

/* What is known to complete from; NULL: not known (yet). Borrowed. */
struct complete_from {
    json_t *files;    /* strings */
    json_t *sessions; /* [ID, title] */
    json_t *models;   /* strings */
};

/* What is missing to complete this word. */
enum complete_wants { WANTS_NOTHING, WANTS_FILES, WANTS_SESSIONS };

struct completion {
    size_t from, to; /* the bytes of the text that it takes the place of */
    const char *names[COMPLETE_MAX],
        *details[COMPLETE_MAX]; /* of static tables or of complete_from */
    size_t n;
    const char *behind; /* what is put behind a chosen name: a blank, or nothing */
    enum complete_wants wants;
    bool by_itself; /* worth showing though nobody pressed Tab */
};

void complete_find(const char *text, size_t n, size_t cursor, const struct complete_from *from,
                   struct completion *ret);
