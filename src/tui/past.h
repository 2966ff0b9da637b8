/*
 * What the person wrote before, to be found again with Up and Ctrl-R: `input_history` in the data
 * folder, one JSON string per line, oldest first, for nobody else to read (0600).
 *
 * Several programs may use it at once: a line is appended with the file locked, and who makes it
 * shorter replaces it with the same lock held. It is read when it is first asked for, so that a
 * start costs nothing. What is said twice is kept once, where it was said last.
 */
#pragma once

#include <stddef.h>

#define PAST_ENTRIES   10000
#define PAST_ENTRY_MAX (32u << 10) /* bytes; longer ones are not kept */

struct past;

/* `folder` is the data folder; NULL: the usual one. Nothing is opened yet. */
int past_new(const char *folder, struct past **ret);
struct past *past_free(struct past *p);

/* Remembers it, here and in the file. A file that cannot be written costs nothing but the memory.
 */
void past_add(struct past *p, const char *words);

/* How many there are, and the i'th, newest first; NULL beyond the last. Borrowed until the next
 * past_add. */
size_t past_count(struct past *p);
const char *past_get(struct past *p, size_t i);

/* The newest from the i'th on that holds the text (capital or small letters, if it has no capital
 * itself); its number, or -1. */
long past_search(struct past *p, const char *text, size_t from);
