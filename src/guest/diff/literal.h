/* git's binary patches: a file's content deflated, in base 85, in lines of 52 bytes. */
#pragma once

#include "answer.h"
#include "blob.h"

/* Writes the whole patch: the new content and, so that it can be taken back, the old one. Nothing
 * is held in memory. 0, -ESTALE if a file changed while it was read, or another negative errno. */
int literal_write(struct answer *a, const struct blob *old, const struct blob *new);
