/*
 * Carries out a plan: a table of functions, called in the order of the list. The order is the
 * plan's; this file knows nothing about boxes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "carry.h"
#include "cleanup.h"
#include "io.h"
#include "banned.h"

typedef int (*carry_fn)(struct carry *c, const struct op *op);

static const carry_fn CARRY[] = {
    [OP_TMPFS] = carry_tmpfs,       [OP_PROC] = carry_proc,
    [OP_DEVPTS] = carry_devpts,     [OP_OVERLAY] = carry_overlay,
    [OP_CLONE] = carry_clone,       [OP_ATTACH] = carry_attach,
    [OP_REFRESH] = carry_refresh,   [OP_MKDIR] = carry_mkdir,
    [OP_SYMLINK] = carry_symlink,   [OP_FILE] = carry_file,
    [OP_MARK] = carry_mark,         [OP_CHDIR] = carry_chdir,
    [OP_PIVOT] = carry_pivot,       [OP_NETWORK] = carry_network,
    [OP_LISTEN] = carry_listen,     [OP_KERNEL_FS] = carry_kernel_fs,
    [OP_SHOW] = carry_show,         [OP_HIDE] = carry_hide,
    [OP_COVER] = carry_cover,       [OP_HOSTNAME] = carry_hostname,
    [OP_HANDOVER] = carry_handover, [OP_RLIMIT] = carry_rlimit,
    [OP_CONFINE] = carry_confine,   [OP_LANDLOCK] = carry_landlock,
    [OP_SECCOMP] = carry_seccomp,   [OP_EXEC] = carry_exec,
    [OP_SYSCTL] = carry_sysctl,
};

int carry_dir(const struct carry *c, int slot)
{
    return slot == SLOT_HOST ? AT_FDCWD : c->fds[slot];
}

int carry_stage(struct carry *c, int stage)
{
    const struct plan *p = c->plan;
    const struct op *ops = stage == 0 ? p->stage0 : stage == 1 ? p->stage1 : p->stage2;
    size_t n = stage == 0 ? p->n_stage0 : stage == 1 ? p->n_stage1 : p->n_stage2;
    for (size_t i = 0; i < n; i++) {
        int r = CARRY[ops[i].kind](c, &ops[i]);
        if (r < 0) {
            c->failure = (struct plan_failure){.stage = stage, .index = (int)i, .code = -r};
            return r;
        }
    }
    return 0;
}

int carry_mkdir(struct carry *c, const struct op *op)
{
    if (mkdirat(carry_dir(c, op->to), op->path, (mode_t)op->flags) < 0 && errno != EEXIST)
        return -errno;
    return 0;
}

int carry_symlink(struct carry *c, const struct op *op)
{
    return symlinkat(op->text, carry_dir(c, op->to), op->path) < 0 ? -errno : 0;
}

int carry_file(struct carry *c, const struct op *op)
{
    _cleanup_fd_ int fd = openat(carry_dir(c, op->to), op->path,
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)op->flags);
    if (fd < 0)
        return op->optional && errno == EEXIST ? 0 : -errno;
    return op->text ? io_write_all(fd, op->text, strlen(op->text)) : 0;
}

/* An overlay takes a device 0:0 of a layer for "deleted", and shows nothing of that name of the
 * layers below.
 */
int carry_hide(struct carry *c, const struct op *op)
{
    int folder = carry_dir(c, op->to);
    for (const char *name = op->text; *name; name += strlen(name) + 1) {
        char path[PATH_MAX];
        if ((size_t)snprintf(path, sizeof path, "%s/%s", op->path, name) >= sizeof path)
            return -ENAMETOOLONG;
        for (char *slash = strchr(path + strlen(op->path) + 1, '/'); slash;
             slash = strchr(slash + 1, '/')) {
            *slash = 0;
            if (mkdirat(folder, path, 0755) < 0 && errno != EEXIST)
                return -errno;
            *slash = '/';
        }
        if (mknodat(folder, path, S_IFCHR, 0) < 0)
            return -errno;
    }
    return 0;
}

int carry_mark(struct carry *c, const struct op *op)
{
    _cleanup_fd_ int fd =
        openat(carry_dir(c, op->to), op->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0 ? -errno : 0;
}

int carry_chdir(struct carry *c, const struct op *op)
{
    return fchdir(c->fds[op->slot]) < 0 ? -errno : 0;
}
