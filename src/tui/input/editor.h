/*
 * The line editor: text of any number of lines with a cursor. Pure: it knows neither keys nor
 * screens.
 *
 * A long paste is kept apart, and one character of the text stands for it (in a private plane of
 * Unicode, which cannot be typed): moves and deletions treat it as one thing, it is shown as
 * `[pasted 10,000 lines]`, and it is complete again in what is sent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

#define EDITOR_MAX        (32u << 20) /* bytes of a text with all that was pasted */
#define EDITOR_TYPED_MAX  (1u << 20)  /* bytes of the text itself */
#define EDITOR_FOLD_LINES 8           /* a paste of more lines or bytes is kept apart */
#define EDITOR_FOLD_BYTES 2000
#define EDITOR_PASTES     64 /* kept apart; further ones are inserted as they are */

enum edit {
    EDIT_LEFT,
    EDIT_RIGHT,
    EDIT_UP,
    EDIT_DOWN,
    EDIT_LINE_BEGIN,
    EDIT_LINE_END,
    EDIT_WORD_LEFT,
    EDIT_WORD_RIGHT,
    EDIT_BEGIN, /* of the whole text */
    EDIT_END,
    EDIT_DELETE_BEFORE,
    EDIT_DELETE,
    /* EDIT_YANK inserts what these removed; several in a row are joined. */
    EDIT_KILL_LINE_END,
    EDIT_KILL_LINE_BEGIN,
    EDIT_KILL_BLANK_BEFORE, /* back to the last blank */
    EDIT_KILL_WORD_BEFORE,
    EDIT_KILL_WORD,
    EDIT_YANK,
    EDIT_SWAP, /* the characters around the cursor */
    EDIT_UNDO,
    EDIT_REDO,
};

struct editor;

int editor_new(struct editor **ret);
void editor_free(struct editor *e);

/* False: there was nothing to do. */
bool editor_do(struct editor *e, enum edit what);

/* At the cursor; valid UTF-8. Returns 0, -ENOBUFS if the text would be too long, or -ENOMEM. */
int editor_insert(struct editor *e, const char *text, size_t n);
int editor_paste(struct editor *e, const char *text, size_t n);

/* Replaces bytes of the text: a completion. */
int editor_replace(struct editor *e, size_t from, size_t to, const char *text, size_t n);

/* Another text, with the cursor at its end; can be undone. */
int editor_set(struct editor *e, const char *text);

/* The text as it is edited, with a NUL after it; pastes are one character each. */
const char *editor_text(const struct editor *e, size_t *ret_n, size_t *ret_cursor);
bool editor_is_empty(const struct editor *e);

/* Appends the text with all pastes: in full, as it is sent, or each as a label, as it is shown; and
 * where the cursor is then (or NULL). 0 or -ENOMEM. */
int editor_copy(const struct editor *e, bool full, struct buf *out, size_t *ret_cursor);

/* Empties the text and its undo steps; keeps what was killed. */
void editor_reset(struct editor *e);
