/* Inside of apply: which files of the folder are as an apply left them. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "apply.h"

bool apply_memory_has(const struct apply_memory *m, const struct stat *st);
int apply_memory_add(struct apply_memory *m, const struct stat *st); /* 0 or -ENOMEM */
