/*
 * Finding a program as execvp does: a name with a slash is a path; any other is tried in each
 * folder of PATH.
 *
 * It works in memory given by the caller, since it runs between vfork and exec, where nothing may
 * be allocated.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#define SEARCH_PATH_DEFAULT "/bin:/usr/bin"

struct search_path {
    const char *name;
    const char *rest; /* folders not tried yet; NULL at the end */
    char candidate[PATH_MAX];
};

/* envp is searched for PATH. Both must outlive the search. */
void search_path_begin(struct search_path *s, const char *name, char *const *envp);

/* The next path to try, or NULL. Folders that make it too long are passed over. */
const char *search_path_next(struct search_path *s);

/* Whether a failure to execute a candidate means that the next one is tried. */
bool search_path_goes_on(int code);
