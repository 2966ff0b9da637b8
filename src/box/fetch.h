/* One changed file's content, from a diff worker. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* Gets the bytes in order; what lies between them is a hole. A negative answer ends the transfer.
 */
struct fetch_sink {
    int (*put)(void *data, uint64_t offset, const void *bytes, size_t n);
    void *data;
};

/* Over a fresh connection. The content must come out at `size` bytes, as the list of changes said.
 * -ECANCELED when the sink ended it (the sink knows why, err is not set). */
int fetch_file(int conn, const char *path, uint64_t size, const struct fetch_sink *sink,
               struct error *err);
