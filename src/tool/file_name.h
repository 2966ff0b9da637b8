/*
 * Names of files as they come out of a box, in data and in text: any bytes but NUL.
 *
 * A name that is UTF-8 is itself in data. Any other is told as git quotes it ("caf\351.txt") with
 * the bytes beside it in base64, so that nothing is lost. In text a name with control characters is
 * quoted as well: it can neither end its line nor reach a terminal.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "buf.h"

/* Sets `key` of the object, and `key`_base64 if the name is not UTF-8. `prefix` goes before the
 * name. -ENOMEM. */
int file_name_set(json_t *o, const char *key, const char *prefix, const void *name, size_t n);

/* Appends it for a model. */
int file_name_append(struct buf *b, const char *prefix, const void *name, size_t n);
