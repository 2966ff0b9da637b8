#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "similar_names.h"
#include "text.h"
#include "banned.h"

#define NAMES_READ 10000 /* of one folder */

/* Adds to the error the name in a folder (path; "" is the root) that is most like `wanted`. */
static void similar_names_suggest(struct file_call *c, const char *folder, const char *wanted,
                                  struct error *err)
{
    int fd = -1;
    char best[NAME_MAX + 1];
    struct nearest near = nearest_to(wanted, strlen(wanted));
    if (file_resolve(c, *folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd) < 0)
        return;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    const struct dirent *e;
    for (int i = 0; i < NAMES_READ && (e = readdir(dir)); i++) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        nearest_offer(&near, e->d_name);
        if (near.best == e->d_name) {
            snprintf(best, sizeof best, "%s", e->d_name);
            near.best = best;
        }
    }
    closedir(dir);
    size_t n = strlen(err->text);
    if (near.best)
        snprintf(err->text + n, sizeof err->text - n, "; did you mean '%.200s%s%.200s'?", folder,
                 *folder && strcmp(folder, "/") != 0 ? "/" : "", best);
}

int similar_names_explain(struct file_call *c, int r, struct error *err)
{
    char path[PATH_MAX], target[256];
    size_t n = strlen(c->path), above = 0;
    _cleanup_fd_ int link = -1;
    if (r != -ENOENT || n >= sizeof path)
        return r;
    ssize_t size = file_resolve(c, c->path, O_PATH | O_NOFOLLOW, &link) < 0
                       ? -1
                       : readlinkat(link, "", target, sizeof target);
    if (size >= 0)
        return error_set(err, ENOENT, "%.400s: is a link to '%.*s', which does not exist", c->path,
                         (int)size, target);
    /* Goes down the path to the first name that is missing. */
    memcpy(path, c->path, n + 1);
    for (size_t at = strspn(path, "/"); path[at];) {
        size_t end = at + strcspn(path + at, "/");
        char kept = path[end];
        _cleanup_fd_ int fd = -1;
        path[end] = 0;
        if (file_resolve(c, path, O_PATH, &fd) < 0) {
            char name[NAME_MAX + 1];
            snprintf(name, sizeof name, "%s", path + at);
            if (kept)
                error_set(err, ENOENT, "%.400s: there is no folder '%.400s'", c->path, path);
            else
                error_set(err, ENOENT, "%.400s: there is no such file", c->path);
            if (at > 0)
                path[above ? above : 1] = 0; /* "a/b" → "a", "/a" → "/" */
            similar_names_suggest(c, at > 0 ? path : "", name, err);
            return r;
        }
        path[end] = kept;
        above = end;
        at = end + strspn(path + end, "/");
    }
    return r;
}
