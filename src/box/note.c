#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "relpath.h"
#include "changes.h"
#include "clock.h"
#include "cleanup.h"
#include "note.h"
#include "banned.h"

#define TOUCHED_MAX 4000000u /* records in one answer */

struct note {
    struct seen *seen;
    int folder;
    int64_t fresh_ns;
    int64_t number; /* of this note, among those of the table */
};

int note_read_file(int dir, const char *name, const struct identity *id, size_t max,
                   struct seen_base **ret)
{
    struct identity now;
    if (id->size > max)
        return -EFBIG;
    _cleanup_fd_ int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    _cleanup_free_ struct seen_base *b = malloc(sizeof *b + id->size);
    if (!b)
        return -ENOMEM;
    *b = (struct seen_base){.refs = 1, .size = id->size};
    for (size_t done = 0; done < b->size;) {
        ssize_t n = read(fd, b->data + done, b->size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
        done += (size_t)n;
    }
    if (identity_get(fd, "", &now) < 0 || !identity_same(&now, id))
        return -ESTALE;
    *ret = TAKE_PTR(b);
    return 0;
}

/* Is the folder that holds `path`, open as `dir`, the one that the box saw there ever since
 * fresh_ns, and were its names visible to the box? *ret_quiet: no name in it changed since then. */
static bool note_parent_is_seen(const struct note *n, const char *path, int dir, bool *ret_quiet)
{
    struct identity now;
    const char *name = relpath_name(path);
    if (identity_get(dir, "", &now) < 0)
        return false;
    *ret_quiet = now.ctime_ns < n->fresh_ns;
    if (name == path)
        return true; /* the folder of the box itself */
    _cleanup_free_ char *parent = strndup(path, (size_t)(name - path - 1));
    const struct seen_entry *e = parent ? seen_find(n->seen, parent) : NULL;
    return e && e->stable == n->number && !e->hides && identity_same_inode(&e->id, &now);
}

/* Decides what is known about a path. A folder that was moved away and back has moved its own
 * change time, and that of the folder it is in; a new name in it has moved its own only. */
static enum seen_state note_judge(const struct note *n, const char *path, int dir,
                                  struct identity *ret)
{
    bool quiet = false;
    bool seen = note_parent_is_seen(n, path, dir, &quiet);
    int r = identity_get(dir, relpath_name(path), ret);
    if (r == -ENOENT)
        return seen && quiet ? SEEN_ABSENT : SEEN_UNKNOWN;
    if (r < 0 || !seen)
        return SEEN_UNKNOWN;
    if (ret->ctime_ns < n->fresh_ns || (S_ISDIR(ret->mode) && quiet))
        return SEEN_KNOWN;
    return SEEN_UNKNOWN;
}

static int note_path(struct note *n, const char *path, bool content)
{
    struct identity id = {0};
    struct seen_base *base = NULL;
    _cleanup_fd_ int dir = -1;
    const struct seen_entry *e = seen_find(n->seen, path);
    if (e && (e->state != SEEN_KNOWN || !S_ISDIR(e->id.mode)))
        return 0;
    int r = beneath_open_parent(n->folder, path, &dir);
    enum seen_state state = r < 0 ? SEEN_UNKNOWN : note_judge(n, path, dir, &id);
    if (e) { /* a folder that is known: is it still there, for the paths in it that are new? */
        if (state == SEEN_KNOWN && identity_same_inode(&e->id, &id))
            seen_set_stable(n->seen, path, n->number);
        return 0;
    }
    if (state == SEEN_KNOWN && content && S_ISREG(id.mode) && seen_has_room(n->seen, id.size) &&
        note_read_file(dir, relpath_name(path), &id, SEEN_CONTENT_MAX, &base) == -ESTALE)
        state = SEEN_UNKNOWN;
    r = seen_set(n->seen, path, state, &id, base, false);
    if (r == 0 && state == SEEN_KNOWN && S_ISDIR(id.mode))
        seen_set_stable(n->seen, path, n->number);
    return r == -ENOSPC ? 0 : r; /* a path without a record is unknown */
}

int note_touched(struct seen *seen, int folder, int64_t fresh_ns, int conn, struct error *err)
{
    struct note n = {.seen = seen, .folder = folder, .fresh_ns = fresh_ns, .number = clock_now()};
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    int r = changes_request(conn, WIRE_TOUCHED, NULL, 0, err);
    for (size_t count = 0; r >= 0; count++) {
        struct wire_frame f;
        struct wire_field field;
        r = changes_answer(&in, &f, err);
        if (r < 0 || f.type == WIRE_RESULT)
            return r < 0 ? r : 0;
        if (f.type != WIRE_ENTRY || count == TOUCHED_MAX || !wire_find(&f, WIRE_K_PATH, &field) ||
            !relpath_is_valid(field.data, field.size))
            return error_set(err, EPROTO, "the diff worker's answer is malformed");
        _cleanup_free_ char *path = wire_find_str(&f, WIRE_K_PATH);
        if (path && wire_find_u64(&f, WIRE_K_HIDDEN, 0))
            seen_set_hides(seen, path);
        else
            r = path ? note_path(&n, path, wire_find_u64(&f, WIRE_K_BOTH, 0)) : -ENOMEM;
        if (r < 0)
            return error_errno(err, -r, "cannot record what the folder has");
    }
    return r;
}
