#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "relpath.h"
#include "buf.h"
#include "cleanup.h"
#include "clock.h"
#include "content.h"
#include "io.h"
#include "share.h"
#include "banned.h"

#define INDEX_MAX (256u << 20) /* ten million files */

struct index_head {
    char magic[8];
    uint64_t mapped;
};

static const char MAGIC[8] = "hutchix1";

static int64_t time_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * NS_PER_S + t->tv_nsec;
}

static int compare_records(const void *a, const void *b)
{
    const struct share_record *x = a, *y = b;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* An index that cannot be read is none: everything is copied. */
static void share_read_index(struct share *s, int snapshots, unsigned number, const char *tree)
{
    char path[64];
    struct index_head head;
    struct buf b = BUF_INIT(INDEX_MAX);
    snprintf(path, sizeof path, "%u/%s.index", number, tree);
    if (io_read_file(snapshots, path, &b) == 0 && b.len >= sizeof head) {
        memcpy(&head, b.data, sizeof head);
        size_t n = (b.len - sizeof head) / sizeof *s->known;
        if (memcmp(head.magic, MAGIC, sizeof MAGIC) == 0)
            s->known = calloc(n + 1, sizeof *s->known);
        if (s->known) {
            memcpy(s->known, b.data + sizeof head, n * sizeof *s->known);
            s->n_known = n;
            s->trusted = !head.mapped;
            qsort(s->known, n, sizeof *s->known, compare_records);
        }
    }
    buf_free(&b);
}

void share_open(struct share *s, int snapshots, unsigned previous, const char *tree)
{
    char path[64];
    struct timespec now;
    struct statfs fs;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    *s = SHARE_INIT;
    s->now_ns = time_ns(&now);
    if (!previous)
        return;
    share_read_index(s, snapshots, previous, tree);
    snprintf(path, sizeof path, "%u/%s", previous, tree);
    if (s->n_known)
        s->previous = openat(snapshots, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fstatfs(snapshots, &fs) < 0 || fs.f_type == TMPFS_MAGIC)
        s->trusted = false;
}

void share_close(struct share *s)
{
    cleanup_close(&s->previous);
    cleanup_close(&s->dir);
    free(s->dir_path);
    free(s->known);
    free(s->made);
    *s = SHARE_INIT;
}

/* The folder of the earlier snapshot that holds `path`; files come folder by folder, so the last is
 * kept. */
static int share_dir(struct share *s, const char *path)
{
    size_t n = (size_t)(relpath_name(path) - path);
    if (s->dir >= 0 && s->dir_path && strlen(s->dir_path) == n && memcmp(s->dir_path, path, n) == 0)
        return s->dir;
    cleanup_close(&s->dir);
    free(s->dir_path);
    s->dir = -1;
    s->dir_path = strndup(path, n);
    return s->dir_path && beneath_open_parent(s->previous, path, &s->dir) == 0 ? s->dir : -1;
}

static bool same_content(int from, int earlier, const char *name)
{
    _cleanup_fd_ int a = -1, b = -1;
    return content_open(from, name, &a) == 0 && content_open(earlier, name, &b) == 0 &&
           content_same(a, b) == 1;
}

int share_link(struct share *s, int from, const char *path, const struct stat *st, int to)
{
    const struct share_record key = {.inode = st->st_ino}, *found;
    const char *name = relpath_name(path);
    struct stat earlier;
    if (s->previous < 0 || st->st_size == 0)
        return 0;
    found = bsearch(&key, s->known, s->n_known, sizeof key, compare_records);
    if (!found || found->changed_ns != time_ns(&st->st_ctim))
        return 0;
    int dir = share_dir(s, path);
    if (dir < 0 || fstatat(dir, name, &earlier, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(earlier.st_mode) || earlier.st_ino != found->copy ||
        earlier.st_size != st->st_size)
        return 0;
    if (!s->trusted && !same_content(from, dir, name))
        return 0;
    return linkat(dir, name, to, name, 0) ==
           0; /* not where a file can have no more names: it is copied */
}

void share_note(struct share *s, const struct stat *st, int to, const char *name)
{
    struct stat copy;
    if (time_ns(&st->st_ctim) >= s->now_ns || fstatat(to, name, &copy, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (s->n_made == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        struct share_record *made = realloc(s->made, room * sizeof *made);
        if (!made)
            return;
        s->made = made;
        s->room = room;
    }
    s->made[s->n_made++] = (struct share_record){
        .inode = st->st_ino, .changed_ns = time_ns(&st->st_ctim), .copy = copy.st_ino};
}

void share_write(const struct share *s, int snapshots, unsigned number, const char *tree,
                 bool mapped)
{
    char path[64];
    struct index_head head = {.mapped = mapped};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    snprintf(path, sizeof path, "%u/%s.index", number, tree);
    _cleanup_fd_ int fd = openat(snapshots, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || io_write_all(fd, &head, sizeof head) < 0 ||
        io_write_all(fd, s->made, s->n_made * sizeof *s->made) < 0)
        unlinkat(snapshots, path, 0);
}
