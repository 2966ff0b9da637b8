/*
 * The globs that a request names: which entries it wants.
 *
 * They are rules as in a .gitignore, with braces, and the other way round: a glob wants what it
 * matches, one with `!` leaves it out, the last that matches counts. If there is a glob without
 * `!`, a file that none matches is not wanted. A glob with a slash is tied to the folder of the
 * request, or to the root: either will do.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "wire.h"

enum filter_say {
    FILTER_WANTS,
    FILTER_LACKS,  /* no glob matches; what is beneath a folder may be wanted still */
    FILTER_REFUSES /* with all that is beneath it */
};

#define FILTER_GLOBS_MAX 64

struct filter {
    struct rules *rules; /* NULL: everything is wanted */
};

/* From the GLOB fields of a request. */
int filter_read(const struct wire_frame *f, struct filter *ret, struct error *err);

/* One glob more. */
int filter_add(struct filter *f, const char *glob, size_t n, struct error *err);
void filter_free(struct filter *f);

/* `path` is relative to the root; its first `skip` bytes are the folder of the request, with its
 * slash. */
enum filter_say filter_asks(const struct filter *f, const char *path, size_t n, size_t skip,
                            size_t n_name, bool is_folder);
