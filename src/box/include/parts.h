/*
 * Where the parts of hutch are that are no part of the program: hutch-guest, hutch-skeleton,
 * hutch-agent. Beside it in a build folder, in ../libexec/hutch when installed.
 */
#pragma once

#include <linux/limits.h>
#include <stddef.h>

#include "error.h"

#define PARTS_PATH_MAX (PATH_MAX + 64)

int parts_find(const char *name, char path[PARTS_PATH_MAX], struct error *err);

#define PARTS_FOLDERS_MAX 4

/*
 * The folders in which they are looked for, best first. A program's are told by where its file is
 * (parts_program.c). libhutch.so has its own function of this name, since the program is somebody
 * else's: an archive gives only what is missing, so the one of the program is then left out.
 */
int parts_folders(char folders[PARTS_FOLDERS_MAX][PARTS_PATH_MAX], size_t *ret_count,
                  struct error *err);
