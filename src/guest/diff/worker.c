#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "answer.h"
#include "changes.h"
#include "copy.h"
#include "diff.h"
#include "empty.h"
#include "fetch.h"
#include "io.h"
#include "layered.h"
#include "worker.h"
#include "share.h"
#include "touched.h"
#include "tree.h"
#include "banned.h"

static int answer_done(struct answer *a)
{
    answer_begin(a, WIRE_RESULT);
    answer_end(a);
    return answer_flush(a);
}

/* The new snapshot and the one before: all of a box's snapshots are shown as one folder, s. */
struct snapshots {
    int folder; /* -1: the trees bring folders of their own to copy to */
    unsigned number, previous;
    bool mapped;
};

static int copy_one(struct tree *t, const struct snapshots *s, struct copy_options o,
                    struct error *err)
{
    _cleanup_(share_close) struct share share = SHARE_INIT;
    char path[64];
    snprintf(path, sizeof path, "%u/%s", s->number, t->name);
    if (s->folder >= 0) {
        t->copy = openat(s->folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (t->copy < 0 && errno != ENOENT)
            return error_errno(err, errno, "cannot open /s/%s", path);
        share_open(&share, s->folder, s->previous, t->name);
        o.share = &share;
    }
    int r = copy_tree(t, &o, err);
    if (r >= 0 && s->folder >= 0)
        share_write(&share, s->folder, s->number, t->name, s->mapped);
    return r;
}

/* Both trees or none: half a copy is of no use to anybody. */
static int copy_both(int root, struct tree *w, const struct wire_frame *request, struct error *err)
{
    _cleanup_tree_ struct tree r = TREE_INIT;
    uint64_t room = wire_find_u64(request, WIRE_K_ROOM, UINT64_MAX);
    const struct copy_options o = {.flatten = wire_find_u64(request, WIRE_K_FLATTEN, 0) != 0,
                                   .room = &room};
    struct snapshots s = {.folder = -1,
                          .number = (unsigned)wire_find_u64(request, WIRE_K_SNAPSHOT, 0),
                          .previous = (unsigned)wire_find_u64(request, WIRE_K_PREVIOUS, 0),
                          .mapped = wire_find_u64(request, WIRE_K_MAPPED, 1) != 0};
    _cleanup_fd_ int folder = s.number ? openat(root, "s", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (s.number && folder < 0)
        return error_errno(err, errno, "cannot open /s");
    s.folder = folder;
    int done = tree_open(root, "r", &r, err);
    if (done >= 0)
        done = copy_one(w, &s, o, err);
    if (done < 0)
        return done;
    done = copy_one(&r, &s, o, err);
    if (done < 0 && w->copy >= 0)
        empty_dir(w->copy);
    return done;
}

static int serve_request(int root, const struct wire_frame *request, struct answer *a,
                         struct error *err)
{
    _cleanup_tree_ struct tree t = TREE_INIT;
    int r = tree_open(root, "w", &t, err);
    if (r < 0)
        return r;
    switch (request->type) {
    case WIRE_PING:
        return answer_done(a);
    case WIRE_CHANGES:
        return changes_answer(&t, wire_find_u64(request, WIRE_K_ALL, 0) != 0, a, err);
    case WIRE_TOUCHED:
        return touched_answer(&t, a, err);
    case WIRE_DIFF:
        return diff_answer(&t, wire_find_u64(request, WIRE_K_STAT, 0) != 0, a, err);
    case WIRE_FETCH:
        return fetch_answer(&t, request, a, err);
    case WIRE_LAYERED:
        return layered_answer(&t, request, a, err);
    case WIRE_COPY:
        r = copy_both(root, &t, request, err);
        return r < 0 ? r : answer_done(a);
    default:
        return error_set(err, ENOSYS, "a diff worker does not know request %d", (int)request->type);
    }
}

/* One connection from its request to its last answer. Its failure is the host's to notice, and ends
 * nothing else. */
static void serve(int root, int conn)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    _cleanup_(answer_free) struct answer a = ANSWER_INIT(conn);
    struct wire_frame request;
    struct error err = {0};
    if (wire_read(&in, &request) <= 0)
        return;
    if (serve_request(root, &request, &a, &err) < 0 && a.status == 0)
        answer_error(&a, &err);
}

int diff_worker_main(int control)
{
    _cleanup_fd_ int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    umask(0); /* copies have the modes of what they are copies of */
    for (;;) {
        char byte;
        size_t n = 0;
        _cleanup_fd_ int conn = -1;
        ssize_t got = io_recv_fds(control, &byte, 1, &conn, 1, &n, 0);
        if (got <= 0)
            return (int)got;
        if (n == 1)
            serve(root, conn);
    }
}
