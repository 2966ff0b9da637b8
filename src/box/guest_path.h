/* Where the guest's program is: beside hutch in a build folder, in ../libexec/hutch when installed. */
#pragma once

#include <linux/limits.h>

#include "error.h"

#define GUEST_PATH_MAX (PATH_MAX + 32)

int guest_path_find(char path[GUEST_PATH_MAX], struct error *err);
