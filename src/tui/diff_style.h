/* How a line of a unified or git diff is shown. */
#pragma once

#include <stddef.h>

unsigned diff_style(const char *line, size_t n);
