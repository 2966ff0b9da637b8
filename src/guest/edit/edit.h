/*
 * EDIT: replaces text in one file, several edits in one step, all or none.
 *
 * The file is read, edited in memory, written beside and put in its place. Whatever else is written
 * to it meanwhile is not lost: the new file is exchanged for the old one, which is then compared
 * with what was read; if it is something else by now, it is put back and the edit fails.
 */
#pragma once

#include "file.h"
#include "match.h"

#define EDIT_DATA_MAX  (16u << 20) /* bytes of all texts of a request */
#define EDIT_COUNT_MAX 100u

int file_edit(struct file_call *c, struct error *err);

/* What edit_swap.c does. 0; -EBUSY: the file is not what was read any more; -ETXTBSY: another
 * process has it open for writing. */
int edit_swap(struct file_call *c, mode_t mode, struct bytes before, struct bytes after,
              struct error *err);
