/* LIST: the entries of one folder, in the order of their names. STAT: one path, without following a
 * last link. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "banned.h"

#define ENTRIES_MAX 10000
#define SEND_OVER   WIRE_DATA_MAX

struct names {
    char **list;
    size_t count;
    bool cut; /* there are more */
};

static void names_free(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The next name that is not the folder itself or the one above; NULL at the end, with errno 0, or
 * on failure.
 */
static const char *next_name(DIR *dir)
{
    struct dirent *e;
    do {
        errno = 0;
        e = readdir(dir);
    } while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
    return e ? e->d_name : NULL;
}

static int read_names(DIR *dir, struct names *n)
{
    n->list = calloc(ENTRIES_MAX, sizeof *n->list);
    if (!n->list)
        return -ENOMEM;
    const char *name;
    while ((name = next_name(dir)) && n->count < ENTRIES_MAX) {
        char *copy = strdup(name);
        if (!copy)
            return -ENOMEM;
        n->list[n->count++] = copy;
    }
    if (!name && errno)
        return -errno;
    n->cut = name != NULL;
    qsort(n->list, n->count, sizeof *n->list, compare);
    return 0;
}

static void put_target(struct buf *b, int dir, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n >= 0)
        wire_put(b, WIRE_K_TARGET, target, (size_t)n);
}

/* An entry that vanished since it was listed is left out. */
static void put_entry(struct buf *b, int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    size_t at = wire_begin(b, WIRE_ENTRY);
    wire_put_str(b, WIRE_K_NAME, name);
    file_put_stat(b, &st);
    if (S_ISLNK(st.st_mode))
        put_target(b, dir, name);
    wire_end(b, at);
}

static int open_folder(struct file_call *c, DIR **ret, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    int r = file_resolve(c, c->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd);
    DIR *dir = r < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return file_error(c, r < 0 ? -r : errno, c->path, err);
    fd = -1; /* the folder's now */
    *ret = dir;
    return 0;
}

static int send_entries(struct file_call *c, DIR *dir, const struct names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        put_entry(&c->out, dirfd(dir), names->list[i]);
        int r = c->out.len > SEND_OVER ? file_send(c) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int file_list(struct file_call *c, struct error *err)
{
    struct names names = {0};
    DIR *dir = NULL;
    int r = open_folder(c, &dir, err);
    if (r < 0 || !dir)
        return r;
    r = read_names(dir, &names);
    if (r >= 0)
        r = send_entries(c, dir, &names);
    names_free(&names);
    closedir(dir);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_COUNT, names.count);
    if (names.cut)
        wire_put_u64(&c->out, WIRE_K_TOO_MANY, 1);
    wire_end(&c->out, at);
    return 0;
}

int file_stat(struct file_call *c, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    int r = file_resolve(c, c->path, O_PATH | O_NOFOLLOW, &fd);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    if (fstat(fd, &st) < 0)
        return file_error(c, errno, c->path, err);
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    file_put_stat(&c->out, &st);
    if (S_ISLNK(st.st_mode))
        put_target(&c->out, fd, "");
    wire_end(&c->out, at);
    return 0;
}
