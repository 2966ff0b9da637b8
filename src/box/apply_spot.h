/* Inside of apply and sync: a path of the folder as it is now, and what the box saw there. */
#pragma once

#include "apply_file.h"

struct apply_spot {
    const char *path;
    int dir; /* the folder that holds it */
    bool there;
    struct identity now;
    const struct seen_entry *seen; /* or NULL */
    enum seen_state state;
    bool parent_seen;     /* the folder that holds it is the one that the box saw */
    bool parent_replaced; /* it certainly is another one */
};

/* Opens the folder that holds a path; with `create`, makes it. -ENOENT, -ENOTDIR, -ELOOP as they
 * are, without a text. */
int apply_spot_open(struct apply *ap, const char *path, bool create, struct apply_spot *ret,
                    struct error *err);
void apply_spot_close(struct apply_spot *s);

/* The folder's entry is exactly the one that the box saw. */
bool apply_spot_is_seen(const struct apply_spot *s);

/* The bytes that a file of the folder has now, to be the base of later merges; NULL if it is too
 * large. */
struct seen_base *apply_read_base(struct apply *ap, int dir, const char *path,
                                  const struct identity *id);
