/*
 * Where the parts of hutch are that are no part of the program: hutch-guest and hutch-skeleton. Beside it in
 * a build folder, in ../libexec/hutch when installed.
 */
#pragma once

#include <linux/limits.h>

#include "error.h"

#define PARTS_PATH_MAX (PATH_MAX + 64)

int parts_find(const char *name, char path[PARTS_PATH_MAX], struct error *err);
