#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "banned.h"

#define DEPTH_MAX   32u
#define VISITED_MAX 200000u
#define STARS_MAX   3u /* of ** in a pattern: what matching costs grows with each */

struct walk {
    struct file_call *call;
    struct report_files *files;
    const char *pattern; /* of what lies beneath the folder; NULL: all */
    size_t visited;
    struct error *err;
};

static size_t part_length(const char *s)
{
    return strcspn(s, "/");
}

static const char *next_part(const char *s)
{
    s += part_length(s);
    return s + strspn(s, "/");
}

static bool part_matches(const char *pattern, const char *path)
{
    char p[NAME_MAX + 1], s[NAME_MAX + 1];
    size_t pn = part_length(pattern), sn = part_length(path);
    if (pn > NAME_MAX || sn > NAME_MAX)
        return false;
    memcpy(p, pattern, pn);
    memcpy(s, path, sn);
    p[pn] = s[sn] = 0;
    return fnmatch(p, s, FNM_PERIOD) == 0;
}

bool report_glob(const char *pattern, const char *path)
{
    while (*pattern && *path) {
        if (part_length(pattern) == 2 && strncmp(pattern, "**", 2) == 0) {
            pattern = next_part(pattern);
            for (; *path; path = next_part(path))
                if (report_glob(pattern, path))
                    return true;
            return *pattern == 0;
        }
        if (!part_matches(pattern, path))
            return false;
        pattern = next_part(pattern);
        path = next_part(path);
    }
    return *pattern == 0 && *path == 0;
}

static int report_files_add(struct report_files *f, const char *path)
{
    if (!f->paths)
        f->paths = calloc(REPORT_FILES_MAX, sizeof *f->paths);
    char *copy = f->paths ? strdup(path) : NULL;
    if (!copy)
        return -ENOMEM;
    f->paths[f->count++] = copy;
    return 0;
}

static int walk_folder(struct walk *w, const char *folder, unsigned depth);

/* A folder is entered, a regular file added if it is meant; all else is skipped. */
static int walk_entry(struct walk *w, int dir, const char *folder, const char *name, unsigned depth)
{
    char path[PATH_MAX];
    struct stat st;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISDIR(st.st_mode))
        return depth < DEPTH_MAX ? walk_folder(w, path, depth + 1) : 0;
    const char *inner = path + w->files->base;
    inner += strspn(inner, "/");
    if (!S_ISREG(st.st_mode) || (w->pattern && !report_glob(w->pattern, inner)))
        return 0;
    if (w->files->count == REPORT_FILES_MAX)
        return error_set(w->err, E2BIG, "%.400s: more than %u files match", w->call->path,
                         REPORT_FILES_MAX);
    return report_files_add(w->files, path);
}

static int walk_folder(struct walk *w, const char *folder, unsigned depth)
{
    int fd,
        r = file_resolve(w->call, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, &fd);
    if (r < 0) /* gone, or closed to us */
        return depth == 0 ? file_error(w->call, -r, folder, w->err) : 0;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -ENOMEM;
    }
    const struct dirent *e;
    r = 0;
    while (r >= 0 && (e = readdir(dir))) {
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0 ||
            strcmp(name, "node_modules") == 0)
            continue;
        if (++w->visited > VISITED_MAX)
            r = error_set(w->err, E2BIG,
                          "%.400s: more than %u files are there: name the folder of the reports",
                          w->call->path, VISITED_MAX);
        else
            r = walk_entry(w, dirfd(dir), folder, name, depth);
    }
    closedir(dir);
    return r;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int report_files_walk(struct file_call *c, const char *pattern, const char *folder,
                             struct report_files *f, struct error *err)
{
    struct walk w = {.call = c, .files = f, .pattern = pattern, .err = err};
    unsigned stars = 0;
    for (const char *at = pattern; at && *at; at = next_part(at))
        stars += part_length(at) == 2 && strncmp(at, "**", 2) == 0;
    if (stars > STARS_MAX)
        return error_set(err, EINVAL, "%.400s: a pattern may contain ** at most %u times", c->path,
                         STARS_MAX);
    f->base = strlen(folder);
    int r = walk_folder(&w, folder, 0);
    if (r >= 0 && f->count)
        qsort(f->paths, f->count, sizeof *f->paths, compare_paths);
    return r;
}

static int find_plain(struct file_call *c, struct report_files *f, struct error *err)
{
    int fd;
    struct stat st;
    int r = file_resolve(c, c->path, O_PATH, &fd);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    r = fstat(fd, &st) < 0 ? -errno : 0;
    close(fd);
    if (r < 0)
        return file_error(c, -r, c->path, err);
    if (S_ISDIR(st.st_mode))
        return report_files_walk(c, NULL, c->path, f, err);
    f->single = true;
    return report_files_add(f, c->path);
}

int report_files_find(struct file_call *c, struct report_files *ret, struct error *err)
{
    struct report_files f = {0};
    size_t n = strcspn(c->path, "*?[");
    int r;
    /* The parts without a pattern are the folder, the rest is the pattern. */
    while (c->path[n] && n > 0 && c->path[n - 1] != '/')
        n--;
    if (c->path[n] == 0) {
        r = find_plain(c, &f, err);
    } else {
        _cleanup_free_ char *folder = n ? strndup(c->path, n > 1 ? n - 1 : n) : strdup(".");
        r = folder ? report_files_walk(c, c->path + n, folder, &f, err) : -ENOMEM;
    }
    if (r < 0) {
        report_files_free(&f);
        return r;
    }
    *ret = f;
    return 0;
}

void report_files_free(struct report_files *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->paths[i]);
    free(f->paths);
}
