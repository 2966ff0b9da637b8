/*
 * Patches for a program of which a wrong and a right version are known: the one that makes it
 * right, and some that change a single other line (a comparison turned round, a bound moved by one)
 * and leave the bug where it is. They are called by the line they change, and stand in the order of
 * the lines, so that neither names nor order tell which is right.
 */
#pragma once

#include "task.h"

#define VARIANTS_MAX 4 /* wrong ones */

int variants_add(struct task *t, const char *path, const struct buf *wrong, const struct buf *right,
                 struct error *err);

/* The wrong program with what makes it right, and without what else the two differ in: comments,
 * blank lines, the text behind the code. */
int bug_repair(const struct buf *wrong, const struct buf *right, struct buf *ret);

/* How often three quotes stand in a piece of text. */
size_t quotes_count(const char *at, size_t n);
