/* Tasks of others: the table of kinds, and what is the same for all of them. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/limits.h>
#include <sha2.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "importer.h"
#include "io.h"
#include "relpath.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define TASKS_MAX 100000u
#define TITLE_MAX 100

static const struct import_kind *const KINDS[] = {&IMPORT_QUIXBUGS, &IMPORT_SWEBENCH,
                                                  &IMPORT_HARBOR, &IMPORT_TASKS};

void import_say(struct import *im, const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    if (!im->o->say)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    im->o->say(im->o->data, text);
}

void import_skip(struct import *im, const char *name, const struct error *why)
{
    im->set.skipped++;
    import_say(im, "%s: left out: %s", name, why->text);
}

void import_name(const char *from, char name[TASK_NAME_MAX])
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    uint8_t sum[32];
    SHA2_CTX sha;
    snprintf(name, TASK_NAME_MAX, "%s", from);
    for (char *at = name; *at; at++)
        if (!strchr(ALLOWED, *at) || (at == name && *at == '.'))
            *at = '_';
    if (!*name)
        snprintf(name, TASK_NAME_MAX, "_");
    if (strlen(from) < TASK_NAME_MAX)
        return;
    SHA256Init(&sha);
    SHA256Update(&sha, (const uint8_t *)from, strlen(from));
    SHA256Final(sum, &sha);
    snprintf(name + TASK_NAME_MAX - 10, 10, "-%02x%02x%02x%02x", sum[0], sum[1], sum[2], sum[3]);
}

bool import_wants(const struct import *im, const char *name)
{
    return !im->o->only || strcmp(im->o->only, name) == 0;
}

int import_text(char **ret, struct error *err, const char *fmt, ...)
{
    char *text;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0)
        return task_no_memory(err);
    free(*ret);
    *ret = text;
    return 0;
}

int import_title(char **ret, const char *prefix, const char *text, struct error *err)
{
    size_t n = strcspn(text, "\r\n");
    if (n > TITLE_MAX) {
        n = TITLE_MAX;
        n -= utf8_cut_end((const uint8_t *)text, n);
    }
    return import_text(ret, err, "%s%.*s%s", prefix, (int)n, text,
                       n < strcspn(text, "\r\n") ? "…" : "");
}

int import_add(struct import *im, struct task **t, struct error *err)
{
    _cleanup_task_ struct task *task = TAKE_PTR(*t);
    struct error why = {0};
    if (cancel_check(im->o->cancel, err) < 0)
        return -ECANCELED;
    bool known = false;
    for (size_t i = 0; i < im->set.count; i++)
        known |= strcmp(im->set.items[i]->name, task->name) == 0;
    if (known)
        error_set(&why, EEXIST, "there is another task of that name");
    else if (im->set.count >= TASKS_MAX)
        error_set(&why, E2BIG, "there are more than %u tasks", TASKS_MAX);
    else
        task_finish(task, &why);
    if (why.code) {
        import_skip(im, task->name, &why);
        return 0;
    }
    struct task **items = reallocarray(im->set.items, im->set.count + 1, sizeof *items);
    if (!items)
        return task_no_memory(err);
    im->set.items = items;
    items[im->set.count++] = TAKE_PTR(task);
    return 0;
}

void task_set_free(struct task_set *s)
{
    for (size_t i = 0; i < s->count; i++)
        task_free(s->items[i]);
    free(s->items);
    *s = (struct task_set){0};
}

static int import_folders(struct import *im, const char *where, struct error *err)
{
    struct task_list names = {0};
    char path[2 * PATH_MAX];
    int r = task_names(where, &names, err);
    for (size_t i = 0; i < names.count && r == 0; i++) {
        struct task *t = NULL;
        struct error why = {0};
        if (!import_wants(im, names.items[i]))
            continue;
        snprintf(path, sizeof path, "%s/%s", where, names.items[i]);
        if (task_load(path, &t, &why) < 0)
            import_skip(im, names.items[i], &why);
        else
            r = import_add(im, &t, err);
    }
    task_list_free(&names);
    return r;
}

const struct import_kind IMPORT_TASKS = {"tasks", "tasks:DIR", import_folders};

static const struct import_kind *import_find_kind(const char *from, const char **ret_where,
                                                  struct error *err)
{
    const char *colon = strchr(from, ':');
    size_t n = colon ? (size_t)(colon - from) : strlen(from);
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++) {
        if (strlen(KINDS[i]->name) != n || strncmp(KINDS[i]->name, from, n) != 0)
            continue;
        if (!colon || !colon[1]) {
            error_set(err, EINVAL, "--from %.100s: say where: %s", from, KINDS[i]->form);
            return NULL;
        }
        *ret_where = colon + 1;
        return KINDS[i];
    }
    error_set(err, EINVAL,
              "--from %.100s: must be quixbugs:DIR, swebench:FILE, harbor:DIR or tasks:DIR", from);
    return NULL;
}

int task_import(const struct import_options *o, struct task_set *ret, struct error *err)
{
    struct import im = {.o = o};
    const char *where;
    const struct import_kind *kind = import_find_kind(o->from, &where, err);
    if (!kind)
        return -EINVAL;
    int r = kind->run(&im, where, err);
    if (r == 0 && o->only && im.set.count == 0 && im.set.skipped == 0)
        r = error_set(err, ENOENT, "%s: there is no task %.100s", o->from, o->only);
    if (r < 0) {
        task_set_free(&im.set);
        return r;
    }
    *ret = im.set;
    return 0;
}

/*
 * Files that an importer makes: under $XDG_CACHE_HOME/hutch/gym, where no box can write. Names in
 * them come from strangers' repositories: every file is made beneath its folder, never through a
 * link.
 */

int import_cache(char *path, size_t size, struct error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool named = cache && cache[0] == '/';
    if (!named && !(home && home[0] == '/'))
        return error_set(err, ENOENT, "cannot extract repositories: HOME is not set");
    int n = snprintf(path, size, "%s%s/hutch/gym", named ? cache : home, named ? "" : "/.cache");
    if (n < 0 || (size_t)n >= size)
        return error_errno(err, ENAMETOOLONG, "the cache folder");
    int r = 0;
    for (char *at = path + 1; r == 0 && at; at++) {
        at = strchr(at, '/');
        if (at)
            *at = 0;
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            r = -errno;
        if (!at)
            break;
        *at = '/';
    }
    return r < 0 ? error_errno(err, -r, "cannot make %s", path) : 0;
}

/* The folder that a file is to lie in, made if need be; a link on the way is an error. */
static int import_open_parent(int root, const char *path, int *ret)
{
    char name[NAME_MAX + 1];
    _cleanup_fd_ int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);
    const char *at = path;
    if (dir < 0)
        return -errno;
    for (const char *slash; (slash = strchr(at, '/')); at = slash + 1) {
        size_t n = (size_t)(slash - at);
        if (n > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, at, n);
        name[n] = 0;
        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        int next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(dir);
        dir = next;
    }
    *ret = TAKE_FD(dir);
    return 0;
}

int import_write(int root, const char *path, mode_t mode, const void *bytes, size_t n)
{
    _cleanup_fd_ int dir = -1;
    if (!relpath_is_valid(path, strlen(path)) || relpath_touches_git(path))
        return -EINVAL;
    int r = import_open_parent(root, path, &dir);
    if (r < 0)
        return r;
    const char *name = relpath_name(path);
    if (S_ISLNK(mode)) {
        char target[PATH_MAX];
        if (n == 0 || n >= sizeof target || memchr(bytes, 0, n))
            return -EINVAL;
        memcpy(target, bytes, n);
        target[n] = 0;
        return symlinkat(target, dir, name) < 0 ? -errno : 0;
    }
    _cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                 mode & 0111 ? 0755 : 0644);
    return fd < 0 ? -errno : io_write_all(fd, bytes, n);
}

static int import_remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

void import_remove(const char *folder)
{
    nftw(folder, import_remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
