#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "swap.h"
#include "sys.h"
#include "banned.h"

/* Each time somebody else has to come in the few microseconds between two calls. Who does nothing
 * but rename may, for a while. */
#define TIMES_MAX 100000

int held_begin(struct held *h, int dir, const char *name)
{
    struct stat st;
    _cleanup_fd_ int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    *h = (struct held){TAKE_FD(fd), st.st_dev, st.st_ino};
    return 0;
}

void held_end(struct held *h)
{
    cleanup_close(&h->fd);
    h->fd = -1;
}

bool held_is_same(const struct held *a, const struct held *b)
{
    return a->dev == b->dev && a->ino == b->ino;
}

int swap_do(const struct swap *s)
{
    int r = sys_renameat2(s->waiting_dir, s->waiting, s->dir, s->name, RENAME_EXCHANGE);
    return r < 0 ? -errno : 0;
}

static int rename_back(const struct swap *s, unsigned flags)
{
    int r = sys_renameat2(s->waiting_dir, s->waiting, s->dir, s->name, flags);
    return r < 0 ? -errno : 0;
}

/* One exchange. 1: what came out is not what was put in last, and waits now. */
static int exchange_back(const struct swap *s, struct held *there, struct held *waits)
{
    struct held came = HELD_INIT;
    int r = swap_do(s);
    if (r == -ENOENT) { /* nothing is there now: rather a file too many than one too few */
        r = rename_back(s, RENAME_NOREPLACE);
        return r == -EEXIST ? 1 : r;
    }
    if (r < 0) /* what was written goes back, whatever is there */
        return rename_back(s, 0);
    r = held_begin(&came, s->waiting_dir, s->waiting);
    if (r < 0)
        return r;
    r = !held_is_same(&came, there);
    held_end(there);
    *there = *waits;
    *waits = came;
    return r;
}

int swap_back(const struct swap *s, const struct held *ours)
{
    _cleanup_held_ struct held there = {-1, ours->dev, ours->ino}, waits = HELD_INIT;
    int r = held_begin(&waits, s->waiting_dir, s->waiting);
    if (r < 0)
        return r;
    for (int i = 0; i < TIMES_MAX; i++) {
        r = exchange_back(s, &there, &waits);
        if (r <= 0)
            return r;
    }
    return rename_back(s, 0);
}
