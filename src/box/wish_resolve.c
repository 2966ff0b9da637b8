/*
 * The second step of a wish: what it names on this host.
 *
 * Folders become absolute paths without links here, once, so that the library never meets a
 * relative path and what was checked is what is mounted. Nothing below a folder is looked at.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_folder.h"
#include "host_memory.h"
#include "packages/packages.h"
#include "wish.h"
#include "banned.h"

/* Hands a path over to the wish, which frees it. */
static const char *keep_path(struct box_wish *w, char *path)
{
    return w->paths[w->n_paths++] = path;
}

static int resolve_workspace(struct box_wish *w, struct error *err)
{
    const char *given = w->box.workspace ? w->box.workspace : ".";
    char *path;
    if (w->empty)
        return 0;
    int r = host_folder_resolve(given, &path);
    if (r < 0)
        return error_errno(err, -r, "the workspace '%s' is not a folder that can be shown", given);
    w->box.workspace = keep_path(w, path);
    const char *why = host_folder_refuse(path, w->box.mode == BOX_DIRECT);
    if (why)
        return error_set(err, EINVAL, "the workspace cannot be '%s': %s", path, why);
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
        return error_set(err, ENOENT,
                         "cannot look for the image '%s': neither XDG_DATA_HOME nor HOME is set",
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
    char *real;
    r = host_folder_resolve(path, &real);
    if (r < 0)
        return error_set(err, -r, "there is no image '%s'; unpack its root filesystem to %s",
                         w->image, path);
    w->box.image = keep_path(w, real);
    const char *why = host_folder_refuse(real, false);
    return why ? error_set(err, EINVAL, "the image '%s' cannot be '%s': %s", w->image, real, why)
               : 0;
}

/* Where a folder is shown when nothing else is said: where it was named, if that is a plain path,
 * so that programs find themselves at the path they were installed for. */
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

static int resolve_share(struct box_wish *w, size_t i, struct error *err)
{
    struct box_share *share = &w->box.shares[i];
    const char *text = w->share_texts[i], *colon = strrchr(text, ':');
    char name[8];
    box_wish_shown(w, share->writable ? "rw" : "ro", name, sizeof name);
    _cleanup_free_ char *given = strndup(text, colon ? (size_t)(colon - text) : strlen(text));
    if (!given)
        return error_set(err, ENOMEM, "no memory");
    char *real;
    int r = host_share_resolve(given, &real, &share->is_file);
    if (r == -EINVAL)
        return error_set(err, EINVAL,
                         "%s: cannot show '%s' in a box: it is neither a folder nor a regular file",
                         name, given);
    if (r < 0)
        return error_errno(err, -r, "%s: cannot show '%s' in a box", name, given);
    share->source = keep_path(w, real);
    const char *why = host_folder_refuse(real, share->writable);
    if (why)
        return error_set(err, EINVAL, "%s: cannot show '%s' in a box: %s", name, real, why);
    char *at = colon ? strdup(colon + 1) : default_at(given, real);
    if (!at)
        return error_set(err, ENOMEM, "no memory");
    share->at = keep_path(w, at);
    why = box_wish_refuse_at(at);
    if (why)
        return error_set(err, EINVAL,
                         "%s: cannot show '%s' at '%s' in the box: %s; say where with %s:AT", name,
                         real, at, why, given);
    for (size_t j = 0; j < i; j++)
        if (strcmp(w->box.shares[j].at, at) == 0)
            return error_set(err, EINVAL, "%s: two shares have the same place '%s'", name, at);
    return 0;
}

int box_wish_resolve_groups(struct box_wish *w, struct error *err)
{
    for (size_t i = 0; i < w->box.n_allow; i++) {
        if (w->box.allow[i][0] != '@')
            continue;
        if (!w->packages && !(w->packages = calloc(1, sizeof *w->packages)))
            return error_set(err, ENOMEM, "no memory");
        int r = package_group_resolve(w->box.allow[i] + 1, w->box.workspace, w->packages, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; w->packages && i < w->packages->n_hosts; i++)
        w->box.hosts[i] = w->packages->hosts[i];
    for (size_t i = 0; w->packages && i < w->packages->n_env; i++)
        w->box.net_env[i] = w->packages->env[i];
    w->box.n_hosts = w->packages ? w->packages->n_hosts : 0;
    w->box.n_net_env = w->packages ? w->packages->n_env : 0;
    return 0;
}

void box_wish_note(const struct box_wish *w, char note[BOX_WISH_NOTE])
{
    note[0] = 0;
    if (w->packages && w->packages->credentials[0])
        snprintf(note, BOX_WISH_NOTE,
                 "the box gets no credentials for %.100s: the user and password in your "
                 "configuration stay on"
                 " the host",
                 w->packages->credentials);
}

/* In a container both must fit into its memory: the default of one gives way to what was asked of
 * the other.
 */
static void fit_default(struct box_wish *w)
{
    bool limited;
    if (w->memory_given == w->disk_given)
        return;
    uint64_t most = HOST_MEMORY_FOR_BOX(host_memory(&limited));
    uint64_t given = w->memory_given ? w->box.limits.memory : w->box.limits.disk;
    uint64_t *other = w->memory_given ? &w->box.limits.disk : &w->box.limits.memory;
    uint64_t left = given < most ? (most - given) >> 20 << 20 : 0;
    if (limited && left > 0 && left < *other)
        *other = left;
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
    fit_default(w);
    return r < 0 ? r : box_wish_resolve_groups(w, err);
}
