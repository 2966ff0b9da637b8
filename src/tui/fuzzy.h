/* How well what was typed fits a name: its letters in order, better where they begin words or
 * follow each other. */
#pragma once

#include <stddef.h>

#define FUZZY_NONE  (-1)
#define FUZZY_WHOLE (1 << 28) /* the very name: nothing that only begins with it is better */

/* Larger is better; FUZZY_NONE: it does not fit. An empty text fits everything alike. A text
 * without capitals fits both. */
int fuzzy_score(const char *typed, size_t n, const char *name);
