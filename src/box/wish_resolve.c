/*
 * The second step of a wish: what it names on this host.
 *
 * Folders become absolute paths without links here, once, so that the library never meets a relative path and
 * what was checked is what is mounted. Nothing below a folder is looked at.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wish.h"
#include "banned.h"

/* Hands a path over to the wish, which frees it. */
static const char *keep_path(struct box_wish *w, char *path)
{
    return w->paths[w->n_paths++] = path;
}

/* The folder's absolute path, to be freed; NULL with errno. */
static char *resolve_folder(const char *path)
{
    struct stat st;
    _cleanup_free_ char *real = realpath(path, NULL);
    if (!real || stat(real, &st) < 0)
        return NULL;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return NULL;
    }
    return TAKE_PTR(real);
}

static bool is_home(const char *path)
{
    const char *home = getenv("HOME");
    _cleanup_free_ char *real = home && *home ? realpath(home, NULL) : NULL;
    return real && strcmp(real, path) == 0;
}

static int resolve_workspace(struct box_wish *w, struct error *err)
{
    const char *given = w->box.workspace ? w->box.workspace : ".";
    if (w->empty)
        return 0;
    char *path = resolve_folder(given);
    if (!path)
        return error_errno(err, errno, "the workspace '%s' is not a folder that can be shown", given);
    w->box.workspace = keep_path(w, path);
    if (strcmp(path, "/") == 0)
        return error_set(err, EINVAL,
                         "the workspace cannot be '/': the whole host would be in the box; name a folder"
                         " with %sworkspace DIR",
                         w->dashes);
    if (w->box.mode == BOX_DIRECT && is_home(path))
        return error_set(err, EINVAL,
                         "the workspace cannot be your home folder '%s' with %smode direct: every file"
                         " in it could be lost; name a folder below it",
                         path, w->dashes);
    return 0;
}

int box_wish_image_path(const char *name, char *path, size_t size, struct error *err)
{
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int n;
    if (data && data[0] == '/')
        n = snprintf(path, size, "%s/hutch/images/%s/rootfs", data, name);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/.local/share/hutch/images/%s/rootfs", home, name);
    else
        return error_set(err, ENOENT, "cannot look for the image '%s': neither XDG_DATA_HOME nor HOME is set",
                         name);
    if (n < 0 || (size_t)n >= size)
        return error_set(err, ENAMETOOLONG, "the path of the image '%s' is too long", name);
    return 0;
}

static int resolve_image(struct box_wish *w, struct error *err)
{
    char path[PATH_MAX];
    if (!w->image)
        return 0;
    int r = box_wish_image_path(w->image, path, sizeof path, err);
    if (r < 0)
        return r;
    char *real = resolve_folder(path);
    if (!real)
        return error_set(err, errno, "there is no image '%s'; unpack its root filesystem to %s", w->image,
                         path);
    w->box.image = keep_path(w, real);
    return 0;
}

/* Where a folder is shown when nothing else is said: where it was named, if that is a plain path, so that
 * programs find themselves at the path they were installed for. */
static char *default_at(const char *given, const char *real)
{
    _cleanup_free_ char *path = NULL, *cwd = NULL;
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    if (given[0] == '/')
        path = strndup(given, n);
    else if (!(cwd = getcwd(NULL, 0)) || asprintf(&path, "%s/%.*s", cwd, (int)n, given) < 0)
        path = NULL;
    if (path && !box_wish_refuse_at(path))
        return TAKE_PTR(path);
    return strdup(real);
}

/* The kernel's own trees are no folders to share: what is in them acts on the host. */
static bool is_kernels(const char *path)
{
    static const char *const trees[] = {"/proc", "/sys", "/dev"};
    for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
        size_t n = strlen(trees[i]);
        if (strncmp(path, trees[i], n) == 0 && (!path[n] || path[n] == '/'))
            return true;
    }
    return false;
}

static int resolve_share(struct box_wish *w, size_t i, struct error *err)
{
    struct box_share *share = &w->box.shares[i];
    const char *text = w->share_texts[i], *colon = strrchr(text, ':');
    char name[8];
    box_wish_shown(w, share->writable ? "rw" : "ro", name, sizeof name);
    _cleanup_free_ char *given = strndup(text, colon ? (size_t)(colon - text) : strlen(text));
    if (!given)
        return error_set(err, ENOMEM, "no memory");
    char *real = resolve_folder(given);
    if (!real)
        return error_errno(err, errno, "%s: '%s' is not a folder that can be shown", name, given);
    share->source = keep_path(w, real);
    if (is_kernels(real))
        return error_set(err, EINVAL, "%s: '%s' belongs to the kernel and is never shown in a box", name,
                         real);
    char *at = colon ? strdup(colon + 1) : default_at(given, real);
    if (!at)
        return error_set(err, ENOMEM, "no memory");
    share->at = keep_path(w, at);
    const char *why = box_wish_refuse_at(at);
    if (why)
        return error_set(err, EINVAL, "%s: cannot show '%s' at '%s' in the box: %s; say where with %s:AT",
                         name, real, at, why, given);
    for (size_t j = 0; j < i; j++)
        if (strcmp(w->box.shares[j].at, at) == 0)
            return error_set(err, EINVAL, "%s: two folders are to be shown at '%s'", name, at);
    return 0;
}

int box_wish_resolve(struct box_wish *w, struct error *err)
{
    if (w->vm)
        return error_set(err, ENOTSUP, "the vm backend is not part of this build; use %sbackend ns",
                         w->dashes);
    int r = resolve_workspace(w, err);
    if (r == 0)
        r = resolve_image(w, err);
    for (size_t i = 0; r == 0 && i < w->box.n_shares; i++)
        r = resolve_share(w, i, err);
    return r;
}
