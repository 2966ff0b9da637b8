/* Writing a file of the person's so that whoever reads it sees the old one or the new one, never a
 * part. */
#pragma once

#include <stddef.h>

#include "error.h"

int put_file(const char *path, const void *data, size_t n, struct error *err);
