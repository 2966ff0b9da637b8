/* Files of the workspace as URIs: file:///workspace/a%20b. Pure. */
#pragma once

#include "buf.h"

#define URI_WORKSPACE "file:///workspace/"

/* Appends the URI of a path that is relative to the workspace. Failure sticks to b->failed. */
void uri_append_path(struct buf *b, const char *path);

/* Appends the path that a URI names, relative to the workspace, with a NUL behind. -EINVAL if it is
 * no URI of a file of the workspace, -ENOMEM. */
int uri_parse_path(const char *uri, struct buf *ret);
