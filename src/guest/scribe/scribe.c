#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "answer.h"
#include "changes.h"
#include "copy.h"
#include "diff.h"
#include "empty.h"
#include "fetch.h"
#include "io.h"
#include "scribe.h"
#include "tree.h"
#include "banned.h"

static int answer_done(struct answer *a)
{
    answer_begin(a, WIRE_RESULT);
    answer_end(a);
    return answer_flush(a);
}

/* Both trees or none: half a copy is of no use to anybody. */
static int copy_both(int root, const struct tree *w, bool flatten, struct error *err)
{
    _cleanup_tree_ struct tree r = TREE_INIT;
    int done = tree_open(root, "r", &r, err);
    if (done >= 0)
        done = copy_tree(w, flatten, err);
    if (done < 0)
        return done;
    done = copy_tree(&r, flatten, err);
    if (done < 0 && w->copy >= 0)
        empty_dir(w->copy);
    return done;
}

static int serve_request(int root, const struct wire_frame *request, struct answer *a, struct error *err)
{
    _cleanup_tree_ struct tree t = TREE_INIT;
    int r = tree_open(root, "w", &t, err);
    if (r < 0)
        return r;
    switch (request->type) {
    case WIRE_PING:
        return answer_done(a);
    case WIRE_CHANGES:
        return changes_answer(&t, a, err);
    case WIRE_DIFF:
        return diff_answer(&t, wire_find_u64(request, WIRE_K_STAT, 0) != 0, a, err);
    case WIRE_FETCH:
        return fetch_answer(&t, request, a, err);
    case WIRE_COPY:
        r = copy_both(root, &t, wire_find_u64(request, WIRE_K_FLATTEN, 0) != 0, err);
        return r < 0 ? r : answer_done(a);
    default:
        return error_set(err, ENOSYS, "a scribe does not know request %d", (int)request->type);
    }
}

/* One connection from its request to its last answer. Its failure is the host's to notice, and ends nothing
 * else. */
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

int scribe_main(int control)
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
