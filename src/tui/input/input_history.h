/*
 * What the user entered before, found again with Up and Ctrl-R: `input_history` in the data folder,
 * one JSON string per line, oldest first, mode 0600.
 *
 * Several programs may use it at once: a line is appended, and the file shortened, with the file
 * locked. It is read when it is first needed, so that a start costs nothing. Of equal entries the
 * last one is kept.
 */
#pragma once

#include <stddef.h>

#define INPUT_HISTORY_ENTRIES   10000
#define INPUT_HISTORY_ENTRY_MAX (32u << 10) /* bytes; longer ones are not kept */

struct input_history;

/* `folder` is the data folder; NULL: the default one. Opens nothing yet. */
int input_history_new(const char *folder, struct input_history **ret);
void input_history_free(struct input_history *h);

/* Adds it, here and in the file. If the file cannot be written, it is kept for this run only. */
void input_history_add(struct input_history *h, const char *text);

/* The i'th entry, newest first, or NULL. Borrowed until the next addition. */
const char *input_history_get(struct input_history *h, size_t i);

/* The newest entry from the i'th on that contains the text, ignoring case if the text has no
 * capitals; -1: none. */
long input_history_search(struct input_history *h, const char *text, size_t from);
