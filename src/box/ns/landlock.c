/*
 * All rights that the kernel knows are handled, which means refused unless a rule gives them back.
 * Each version added some; a kernel refuses a mask with bits that it does not know, so the masks go
 * by the version it reports. A kernel newer than this file gets the newest that this file knows.
 *
 * The numbers are the kernel's; headers of the distributions that hutch is built on lack the later
 * ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "landlock.h"
#include "banned.h"

#define CREATE_RULESET_VERSION (1u << 0)
#define RULE_PATH_BENEATH      1

#define FS_EXECUTE    (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE  (1ull << 2)
#define FS_READ_DIR   (1ull << 3)
#define FS_MAKE_CHAR  (1ull << 6)
#define FS_MAKE_BLOCK (1ull << 11)
#define FS_TRUNCATE   (1ull << 14)
#define FS_IOCTL_DEV  (1ull << 15)

#define FS_VERSION_2                                                                               \
    ((1ull << 14) -                                                                                \
     1) /* execute, read, write, list, remove, make each kind, move to another folder */
#define FS_VERSION_3 ((1ull << 15) - 1) /* and truncate */
#define FS_VERSION_5 ((1ull << 16) - 1) /* and ioctl on devices (4 is about the network) */

#define SCOPE_VERSION   6
#define SCOPE_ABSTRACT  (1ull << 0)
#define SCOPE_SIGNAL    (1ull << 1)
#define LOGGING_VERSION 7
#define LOG_SAME_OFF    (1u << 0)
#define LOG_NESTED_OFF  (1u << 2)

/* Rights that make sense on something that is not a folder; the kernel refuses others there. */
#define ON_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

struct ruleset_attr {
    uint64_t handled_fs;
    uint64_t handled_net; /* since version 4 */
    uint64_t scoped;      /* since version 6 */
};

struct path_beneath_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi < 0 ? -errno : (int)abi;
}

static uint64_t rights_of_version(int abi)
{
    if (abi >= 5)
        return FS_VERSION_5;
    return abi >= 3 ? FS_VERSION_3 : FS_VERSION_2;
}

static uint64_t rights_of_class(enum landlock_class class)
{
    switch (class) {
    case LANDLOCK_READ:
        return FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
    case LANDLOCK_WRITE:
        return ~(FS_MAKE_CHAR | FS_MAKE_BLOCK);
    case LANDLOCK_DEVICES:
        return FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
    }
    return 0;
}

/* The attributes have grown; an older kernel takes a longer struct if what it does not know is
 * zero. */
static int create_ruleset(int abi, unsigned flags)
{
    struct ruleset_attr attr = {.handled_fs = rights_of_version(abi)};

    if (abi >= SCOPE_VERSION)
        attr.scoped = SCOPE_ABSTRACT | (flags & LANDLOCK_SIGNALS ? 0 : SCOPE_SIGNAL);
    long fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    return fd < 0 ? -errno : (int)fd;
}

static int add_rule(int ruleset, uint64_t handled, const struct landlock_rule *rule)
{
    struct path_beneath_attr attr = {.allowed = rights_of_class(rule->class) & handled};
    struct stat st;

    _cleanup_fd_ int fd = open(rule->path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        attr.allowed &= ON_FILES;
    attr.parent_fd = fd;
    return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) < 0 ? -errno : 0;
}

int landlock_apply(const struct landlock_rule *rules, size_t n, unsigned flags,
                   const struct landlock_rule **culprit)
{
    *culprit = NULL;
    int abi = landlock_abi();
    /* The kernel itself answers ENOSYS or EOPNOTSUPP. Another error comes from a container's system
     * call filter (systemd-nspawn: EPERM), and then there is no Landlock either. */
    if (abi == -ENOSYS)
        return abi;
    if (abi < LANDLOCK_OLDEST)
        return -EOPNOTSUPP;

    _cleanup_fd_ int ruleset = create_ruleset(abi, flags);
    if (ruleset < 0)
        return ruleset == -ENOSYS || ruleset == -EOPNOTSUPP ? -EIO : ruleset;
    for (size_t i = 0; i < n; i++) {
        int r = add_rule(ruleset, rights_of_version(abi), &rules[i]);
        if (r < 0) {
            *culprit = &rules[i];
            return r;
        }
    }

    /* What a box is refused is no news to the host's audit log, and hostile code must not be able
     * to fill it.
     */
    unsigned quiet = abi >= LOGGING_VERSION ? LOG_SAME_OFF | LOG_NESTED_OFF : 0;
    return syscall(SYS_landlock_restrict_self, ruleset, quiet) < 0 ? -errno : abi;
}
