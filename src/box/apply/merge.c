/* Comparing and merging the folder's and the box's version of one path. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "io.h"
#include "linediff.h"
#include "relpath.h"
#include "banned.h"

#define MERGED_MAX (2 * MERGE_SIZE_MAX + (1u << 20))

int apply_path_open(struct apply *ap, const char *path, bool create, struct apply_path *ret,
                    struct error *err)
{
    const char *name = relpath_name(path);
    *ret = (struct apply_path){.path = path,
                               .dir = -1,
                               .seen = seen_find(ap->seen, path),
                               .state = seen_state_of(ap->seen, path),
                               .parent_seen = true};
    int r = apply_open_parent(ap, path, create, &ret->dir);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return r;
    if (r < 0)
        return error_errno(err, -r, "cannot open its folder");
    r = identity_get(ret->dir, name, &ret->now);
    if (r < 0 && r != -ENOENT)
        return error_errno(err, -r, "cannot look at it");
    ret->there = r == 0;
    if (name > path) {
        struct identity parent;
        _cleanup_free_ char *above = strndup(path, (size_t)(name - path - 1));
        const struct seen_entry *e = above ? seen_find(ap->seen, above) : NULL;
        bool known = e && e->state == SEEN_KNOWN && identity_get(ret->dir, "", &parent) == 0;
        ret->parent_seen = known && identity_same_inode(&e->id, &parent);
        ret->parent_replaced = known && !ret->parent_seen;
    }
    return 0;
}

void apply_path_close(struct apply_path *p)
{
    cleanup_close(&p->dir);
}

bool apply_path_is_seen(const struct apply_path *p)
{
    if (!p->there || p->state != SEEN_KNOWN || !p->seen || !p->parent_seen)
        return false;
    return S_ISDIR(p->now.mode) ? identity_same_inode(&p->seen->id, &p->now)
                                : identity_same(&p->seen->id, &p->now);
}

struct compare_sink {
    int fd;
    uint64_t at;
};

static int compare_put(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct compare_sink *c = data;
    if (offset != c->at) /* what has holes is taken to differ */
        return -ECANCELED;
    for (size_t done = 0; done < n;) {
        char space[16384];
        size_t want = n - done < sizeof space ? n - done : sizeof space;
        if (io_read_at(c->fd, space, want, offset + done) != (ssize_t)want ||
            memcmp(space, (const char *)bytes + done, want) != 0)
            return -ECANCELED;
        done += want;
    }
    c->at = offset + n;
    return 0;
}

int apply_is_same(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                  struct error *err)
{
    char target[PATH_MAX + 1];
    struct identity after;
    const char *name = relpath_name(p->path);
    if ((p->now.mode & S_IFMT) != (e->mode & S_IFMT))
        return 0;
    if (S_ISLNK(e->mode)) {
        ssize_t n = readlinkat(p->dir, name, target, sizeof target);
        return e->target && n >= 0 && (size_t)n == strlen(e->target) &&
               memcmp(target, e->target, (size_t)n) == 0;
    }
    if ((p->now.mode & 0777) != (e->mode & 0777) || p->now.size != e->size)
        return 0;
    _cleanup_fd_ int fd =
        openat(p->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct compare_sink c = {.fd = fd};
    int r = apply_fetch(ap, e, &(struct fetch_sink){compare_put, &c}, err);
    if (r < 0)
        return r == -ECANCELED ? 0 : r;
    return c.at == e->size && identity_get(fd, "", &after) == 0 && identity_same(&after, &p->now);
}

static int base_put(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct seen_base *b = data;
    memcpy(b->data + offset, bytes, n); /* changes_fetch keeps offset + n within the size */
    return 0;
}

int apply_fetch_base(struct apply *ap, const struct changes_entry *e, size_t max,
                     struct seen_base **ret, struct error *err)
{
    if (e->size > max)
        return -EFBIG;
    _cleanup_free_ struct seen_base *b = seen_base_new(NULL, e->size);
    if (!b)
        return error_errno(err, ENOMEM, "cannot read the box's version");
    int r = apply_fetch(ap, e, &(struct fetch_sink){base_put, b}, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

void apply_merged_free(struct apply_merged *m)
{
    seen_base_unref(m->bytes);
    seen_base_unref(m->mine);
    seen_base_unref(m->theirs);
    *m = (struct apply_merged){0};
}

int apply_merge(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                struct apply_merged *ret, struct error *err)
{
    static const struct merge_labels LABELS = {"folder", "box"};
    _cleanup_(apply_merged_free) struct apply_merged m = {0};
    _cleanup_buf_ struct buf out = BUF_INIT(MERGED_MAX);
    const struct seen_entry *seen = p->state == SEEN_KNOWN && p->parent_seen ? p->seen : NULL;
    if (!S_ISREG(p->now.mode) || !S_ISREG(e->mode) || (seen && !S_ISREG(seen->id.mode)))
        return APPLY_MERGE_CONFLICT;

    int r = seen_base_read(p->dir, relpath_name(p->path), &p->now, MERGE_SIZE_MAX, &m.mine);
    if (r == -ENOMEM)
        return error_errno(err, ENOMEM, "cannot read your version");
    if (r < 0) /* too large, not readable, or another by now */
        return APPLY_MERGE_CONFLICT;
    r = apply_fetch_base(ap, e, MERGE_SIZE_MAX, &m.theirs, err);
    if (r == -EFBIG || r == -EACCES || r == -ENOENT || r == -ELOOP)
        return APPLY_MERGE_CONFLICT;
    if (r < 0)
        return r;

    /* The merged permissions are those of the side that changed them. */
    mode_t mine = p->now.mode & 0777, theirs = e->mode & 0777;
    mode_t before = seen ? seen->id.mode & 0777 : theirs;
    m.mode = mine == before ? theirs : mine;
    bool modes_merge = mine == before || theirs == before || mine == theirs;

    const struct seen_base *base = seen ? seen->base : NULL;
    if (base && modes_merge && seen_base_same(base, m.theirs) && m.mode == mine) {
        r = APPLY_MERGE_ONLY_FOLDER;
    } else if (base && modes_merge && seen_base_same(base, m.mine) && m.mode == theirs) {
        r = APPLY_MERGE_ONLY_BOX;
    } else {
        const struct merge_text texts[] = {
            {base ? (const void *)base->data : "", base ? base->size : 0},
            {m.mine->data, m.mine->size},
            {m.theirs->data, m.theirs->size}};
        r = merge_texts(&texts[0], &texts[1], &texts[2], &LABELS, &out);
        if (r >= 0 && !(m.bytes = seen_base_new(out.data, out.len)))
            r = -ENOMEM;
        if (r < 0 && r != -EILSEQ && r != -E2BIG)
            return error_errno(err, -r, "cannot merge");
        bool clean = r == 0 && base;
        r = !clean ? APPLY_MERGE_CONFLICT : modes_merge ? APPLY_MERGE_CLEAN : APPLY_MERGE_MODE;
    }
    *ret = m;
    m = (struct apply_merged){0};
    return r;
}
