#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply_spot.h"
#include "note.h"
#include "relpath.h"
#include "banned.h"

int apply_spot_open(struct apply *ap, const char *path, bool create, struct apply_spot *ret,
                    struct error *err)
{
    struct apply_spot s = {.path = path, .dir = -1};
    const char *name = relpath_name(path);
    int r = apply_open_parent(ap, path, create, &s.dir);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return r;
    if (r < 0)
        return error_errno(err, -r, "cannot open its folder");
    r = identity_get(s.dir, name, &s.now);
    s.there = r == 0;
    if (r < 0 && r != -ENOENT) {
        close(s.dir);
        return error_errno(err, -r, "cannot look at it");
    }
    s.seen = seen_find(ap->job->seen, path);
    s.state = seen_state_of(ap->job->seen, path);
    s.parent_seen = true;
    if (name > path) {
        struct identity parent;
        _cleanup_free_ char *above = strndup(path, (size_t)(name - path - 1));
        const struct seen_entry *e = above ? seen_find(ap->job->seen, above) : NULL;
        bool known = e && e->state == SEEN_KNOWN && identity_get(s.dir, "", &parent) == 0;
        s.parent_seen = known && identity_same_inode(&e->id, &parent);
        s.parent_replaced = known && !s.parent_seen;
    }
    *ret = s;
    return 0;
}

void apply_spot_close(struct apply_spot *s)
{
    cleanup_close(&s->dir);
}

bool apply_spot_is_seen(const struct apply_spot *s)
{
    if (!s->there || s->state != SEEN_KNOWN || !s->seen || !s->parent_seen)
        return false;
    return S_ISDIR(s->now.mode) ? identity_same_inode(&s->seen->id, &s->now)
                                : identity_same(&s->seen->id, &s->now);
}

struct seen_base *apply_read_base(struct apply *ap, int dir, const char *path,
                                  const struct identity *id)
{
    struct seen_base *base = NULL;
    if (S_ISREG(id->mode) && seen_has_room(ap->job->seen, id->size))
        note_read_file(dir, relpath_name(path), id, SEEN_CONTENT_MAX, &base);
    return base;
}
