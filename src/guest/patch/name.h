/* Names of files as diffs write them. */
#pragma once

#include "diff.h"

/*
 * The name behind `--- `, `+++ `, `rename from ` and the like, as a new string: in C's quotes, or
 * up to a tab or a date. -EINVAL if it is empty, holds a NUL or its quotes are broken; -ENOMEM.
 */
int name_parse(struct slice s, char **ret);

/* /dev/null; or the date behind the name says 1970, as that of a file that is not there. */
bool name_is_nothing(struct slice s);

/*
 * Both names behind `diff --git `. Unquoted names with blanks can only be told apart if they are
 * the same, but for a first component. -ENOENT if they are not, as those of a rename may be.
 */
int name_split_git(struct slice s, char **ret_old, char **ret_new);
