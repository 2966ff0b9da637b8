#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store_quota.h"
#include "weaken.h"
#include "banned.h"

#define PROJECTS_FIRST 0x71000000u /* above what administrators number by hand */
#define PROJECTS_COUNT 0x01000000u
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443 /* the same number on every architecture */
#endif
#define QUOTA_BLOCK 1024

/* Told by a descriptor, since the device of a filesystem need not have a name here. */
static int set_limits(int fd, uint32_t project, uint64_t bytes, uint64_t inodes)
{
    struct if_dqblk limits = {.dqb_bhardlimit = bytes / QUOTA_BLOCK,
                              .dqb_bsoftlimit = bytes / QUOTA_BLOCK,
                              .dqb_ihardlimit = inodes,
                              .dqb_isoftlimit = inodes,
                              .dqb_valid = QIF_LIMITS};
    return (int)syscall(SYS_quotactl_fd, fd, QCMD(Q_SETQUOTA, PRJQUOTA), project, &limits);
}

uint32_t quota_set(int folder, uint64_t bytes, uint64_t inodes)
{
    struct fsxattr attributes;
    uint32_t number;
    if (weakened("disk") || getrandom(&number, sizeof number, 0) != sizeof number ||
        ioctl(folder, FS_IOC_FSGETXATTR, &attributes) < 0)
        return 0;
    number = PROJECTS_FIRST + number % PROJECTS_COUNT;
    attributes.fsx_projid = number;
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (set_limits(folder, number, bytes, inodes) < 0)
        return 0;
    if (ioctl(folder, FS_IOC_FSSETXATTR, &attributes) < 0) {
        quota_clear(folder, number);
        return 0;
    }
    return number;
}

void quota_clear(int on_filesystem, uint32_t project)
{
    set_limits(on_filesystem, project, 0, 0);
}
