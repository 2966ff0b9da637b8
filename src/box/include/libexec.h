/*
 * Where the files are that belong to hutch beside the program: hutch-guest, hutch-skeleton,
 * hutch-warm.so, hutch-agent. In the folder of the program in a build, in ../libexec/hutch when
 * installed.
 */
#pragma once

#include <linux/limits.h>
#include <stddef.h>

#include "error.h"

#define LIBEXEC_PATH_MAX    (PATH_MAX + 64)
#define LIBEXEC_FOLDERS_MAX 4

int libexec_find(const char *name, char path[LIBEXEC_PATH_MAX], struct error *err);

/* The folders to look in, best first. libhutch.so replaces this (weak) function by its own: the
 * program is somebody else's there. */
int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX], size_t *ret_count,
                    struct error *err);
