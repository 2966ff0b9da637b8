/* The changes of the box as ID.patch beside the history, and back into a box that had to be made
 * anew. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_private.h"
#include "banned.h"

static void patch_name(const struct agent *a, char *name, size_t size)
{
    snprintf(name, size, "%s.patch", history_id(a->history));
}

int agent_save(struct agent *a, struct error *err)
{
    char name[HISTORY_ID_MAX + 8];
    _cleanup_fd_ int folder = -1;
    int r = history_folder(&folder, err);
    if (r < 0)
        return r;
    patch_name(a, name, sizeof name);
    return workbox_save(a->box, folder, name, err);
}

int agent_unsave(struct agent *a, struct error *err)
{
    char name[HISTORY_ID_MAX + 8];
    _cleanup_fd_ int folder = -1;
    int r = history_folder(&folder, err);
    if (r < 0)
        return r;
    patch_name(a, name, sizeof name);
    if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
        return error_errno(err, errno, "cannot remove %s", name);
    return 0;
}

int agent_load(struct agent *a, struct error *err)
{
    char name[HISTORY_ID_MAX + 8];
    struct stat st;
    _cleanup_fd_ int folder = -1;
    int r = history_folder(&folder, err);
    if (r < 0)
        return r;
    patch_name(a, name, sizeof name);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return workbox_load(a->box, folder, name, err);
}
