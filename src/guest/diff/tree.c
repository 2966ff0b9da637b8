#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "tree.h"
#include "banned.h"

static int open_part(int root, const char *tree, const char *part, int *ret_fd, struct error *err)
{
    char path[32];
    snprintf(path, sizeof path, "%s/%s", tree, part);
    int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return error_errno(err, errno, "cannot open /%s", path);
    *ret_fd = fd;
    return 0;
}

static int open_layers(int root, struct tree *t, struct error *err)
{
    for (size_t i = 0; i < TREE_LAYERS_MAX; i++) {
        char part[8];
        int fd = -1;
        snprintf(part, sizeof part, "l%u", (unsigned)i);
        int r = open_part(root, t->name, part, &fd, err);
        if (r < 0 || fd < 0)
            return r;
        t->layers[t->n_layers++] = fd;
    }
    return 0;
}

int tree_open(int root, const char *name, struct tree *ret, struct error *err)
{
    _cleanup_tree_ struct tree t = TREE_INIT;
    t.name = name;
    int r = open_part(root, name, "merged", &t.merged, err);
    if (r >= 0)
        r = open_part(root, name, "base", &t.base, err);
    if (r >= 0)
        r = open_part(root, name, "copy", &t.copy, err);
    if (r >= 0)
        r = open_layers(root, &t, err);
    if (r < 0)
        return r;
    *ret = t;
    t = TREE_INIT;
    return 0;
}

void tree_close(struct tree *t)
{
    cleanup_close(&t->merged);
    cleanup_close(&t->base);
    cleanup_close(&t->copy);
    for (size_t i = 0; i < t->n_layers; i++)
        cleanup_close(&t->layers[i]);
    *t = TREE_INIT;
}

bool tree_is_opaque(int dir)
{
    char value;
    return fgetxattr(dir, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}
