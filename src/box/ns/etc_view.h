/*
 * What a box sees of the host's /etc: everything that every user of the host may read, less what is
 * a secret by its name or its place.
 *
 * Modes matter because an ordinary user's box runs as that user, with all of the user's groups, and
 * must not read what only those groups may. (Root's box has an id of its own, and can read what
 * others may read.)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct etc_view {
    /* paths relative to /etc, parents before children; each ends with a NUL, the list with one
     * more */
    char *hidden;
    size_t hidden_size;
    bool has_mounts; /* something is mounted inside of /etc, as container runtimes do */
};

/* Looks at /etc, or takes the answer of an earlier look if nothing has changed since. 0 or a
 * negative errno. */
int etc_view_read(struct etc_view *ret);
void etc_view_free(struct etc_view *v);

/* Looks at the folder, whatever an earlier look said; etc_view_read() without its memory. */
int etc_view_scan(const char *folder, struct etc_view *ret);

bool etc_view_hides(const struct etc_view *v, const char *path);

/* Whether a box must not see the entry at this path relative to /etc. A symbolic link has no mode
 * of its own: what it leads to is judged where it lies. */
bool etc_is_hidden(const char *path, mode_t mode);
