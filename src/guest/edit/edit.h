/*
 * EDIT: replaces text in one file, several edits in one step, all or none.
 *
 * The file is read, edited in memory, written beside and exchanged for the old file. If the old
 * file is not what was read any more, or another process has it open for writing, it is put back
 * and the edit fails.
 */
#pragma once

#include "file.h"

int file_edit(struct file_call *c, struct error *err);
