/* What a session's box changed in the workspace, as frontends show it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent_change {
    char *path;
    const char *kind;        /* added, modified, deleted */
    uint64_t added, deleted; /* lines */
    bool binary;
};

struct agent_changes {
    struct agent_change *items;
    size_t count;
    uint64_t added, deleted;
    bool commits; /* a repository of the workspace changed, too: there may be commits to deliver */
};

/* Is there something to apply? */
static inline bool agent_changes_any(const struct agent_changes *c)
{
    return c->count > 0 || c->commits;
}
void agent_changes_free(struct agent_changes *c);

/* An independent copy; -ENOMEM leaves *ret empty. */
int agent_changes_copy(const struct agent_changes *from, struct agent_changes *ret);
