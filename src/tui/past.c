#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "buf.h"
#include "io.h"
#include "past.h"
#include "banned.h"

#define FILE_NAME "input_history"
#define FILE_MAX  (64u << 20) /* a file larger than that is not ours */
#define SLACK     2000        /* lines more than may be before the file is made shorter */

struct past {
    char *folder;
    bool loaded;
    char **items; /* oldest first */
    size_t n, room;
};

/* $XDG_DATA_HOME/hutch, or ~/.local/share/hutch. */
static char *usual_folder(void)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int r = -1;
    if (data && data[0] == '/')
        r = asprintf(&path, "%s/hutch", data);
    else if (home && home[0] == '/')
        r = asprintf(&path, "%s/.local/share/hutch", home);
    return r < 0 ? NULL : path;
}

int past_new(const char *folder, struct past **ret)
{
    struct past *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->folder = folder ? strdup(folder) : usual_folder();
    *ret = p;
    return 0;
}

struct past *past_free(struct past *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; i < p->n; i++)
        free(p->items[i]);
    free(p->items);
    free(p->folder);
    free(p);
    return NULL;
}

/* Makes the folder and those above it. */
static int open_folder(const char *path)
{
    _cleanup_free_ char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    for (char *at = copy + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(copy, 0700);
    }
    mkdir(copy, 0700);
    int fd = open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Opens the file and locks it. It may have been replaced before the lock was ours: then the new
 * one. */
static int open_locked(int folder)
{
    for (int tries = 0; tries < 10; tries++) {
        struct stat mine, named;
        _cleanup_fd_ int fd =
            openat(folder, FILE_NAME, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX) < 0 || fstat(fd, &mine) < 0)
            return -errno;
        if (fstatat(folder, FILE_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
            return S_ISREG(mine.st_mode) ? TAKE_FD(fd) : -EINVAL;
    }
    return -EAGAIN;
}

/* The list in memory. */

static bool push(struct past *p, const char *words)
{
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        char **items = realloc(p->items, room * sizeof *items);
        if (!items)
            return false;
        p->items = items;
        p->room = room;
    }
    char *copy = strdup(words);
    if (copy)
        p->items[p->n++] = copy;
    return copy;
}

static void drop(struct past *p, size_t i)
{
    free(p->items[i]);
    memmove(p->items + i, p->items + i + 1, (p->n - i - 1) * sizeof *p->items);
    p->n--;
}

/* Adds as the newest; what was the same before goes. */
static void add(struct past *p, const char *words)
{
    for (size_t i = p->n; i-- > 0;)
        if (strcmp(p->items[i], words) == 0) {
            drop(p, i);
            break;
        }
    if (push(p, words) && p->n > PAST_ENTRIES)
        drop(p, 0);
}

/* A table of what was seen already, so that 10,000 lines take no quadratic time: from the newest
 * on, the first of each is kept. */
static void forget_repeats(struct past *p)
{
    size_t to = p->n;
    json_t *seen = json_object();
    for (size_t i = p->n; i-- > 0;) {
        if (json_object_get(seen, p->items[i]) || p->n - to >= PAST_ENTRIES) {
            free(p->items[i]);
            continue;
        }
        json_object_set_new(seen, p->items[i], json_true());
        p->items[--to] = p->items[i];
    }
    json_decref(seen);
    memmove(p->items, p->items + to, (p->n - to) * sizeof *p->items);
    p->n -= to;
}

static void load_lines(struct past *p, char *text, size_t n)
{
    for (char *line = text, *end; line < text + n; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + n - line));
        if (!end) /* torn, or somebody is writing it */
            break;
        json_t *s = json_loadb(line, (size_t)(end - line), JSON_DECODE_ANY, NULL);
        const char *words = json_string_value(s);
        if (words && *words && strlen(words) <= PAST_ENTRY_MAX)
            push(p, words);
        json_decref(s);
    }
}

static int put_line(struct buf *b, const char *words)
{
    json_t *s = json_string(words);
    char *line = s ? json_dumps(s, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    int r = line ? buf_printf(b, "%s\n", line) : -ENOMEM;
    free(line);
    json_decref(s);
    return r;
}

/* With the lock held: the file becomes what is in memory. */
static void rewrite(struct past *p, int folder)
{
    _cleanup_buf_ struct buf all = BUF_INIT(FILE_MAX);
    char name[64];
    snprintf(name, sizeof name, FILE_NAME ".%ld", (long)getpid());
    for (size_t i = 0; i < p->n; i++)
        put_line(&all, p->items[i]);
    _cleanup_fd_ int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (all.failed || fd < 0)
        return;
    if (io_write_all(fd, all.data, all.len) < 0 || renameat(folder, name, folder, FILE_NAME) < 0)
        unlinkat(folder, name, 0);
}

static void load(struct past *p)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    if (p->loaded)
        return;
    p->loaded = true;
    _cleanup_fd_ int folder = p->folder ? open_folder(p->folder) : -1;
    _cleanup_fd_ int fd = folder >= 0 ? open_locked(folder) : -1;
    if (fd < 0 || io_read_all(fd, &text) < 0 || text.len == 0)
        return;
    load_lines(p, (char *)text.data, text.len);
    bool long_file = p->n > PAST_ENTRIES + SLACK;
    forget_repeats(p);
    if (long_file)
        rewrite(p, folder);
}

void past_add(struct past *p, const char *words)
{
    _cleanup_buf_ struct buf line = BUF_INIT(8 * PAST_ENTRY_MAX);
    if (!*words || strlen(words) > PAST_ENTRY_MAX)
        return;
    if (p->loaded)
        add(p, words);
    _cleanup_fd_ int folder = p->folder ? open_folder(p->folder) : -1;
    _cleanup_fd_ int fd = folder >= 0 ? open_locked(folder) : -1;
    if (fd >= 0 && put_line(&line, words) == 0)
        io_write_all(fd, line.data, line.len);
}

size_t past_count(struct past *p)
{
    load(p);
    return p->n;
}

const char *past_get(struct past *p, size_t i)
{
    load(p);
    return i < p->n ? p->items[p->n - 1 - i] : NULL;
}

long past_search(struct past *p, const char *text, size_t from)
{
    bool exact = strpbrk(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    load(p);
    for (size_t i = from; i < p->n; i++) {
        const char *item = p->items[p->n - 1 - i];
        if (exact ? strstr(item, text) : strcasestr(item, text))
            return (long)i;
    }
    return -1;
}
