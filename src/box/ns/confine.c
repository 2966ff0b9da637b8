/*
 * Landlock: all rights that the kernel knows are handled, which means refused unless a rule gives
 * them back. Each version added some; a kernel refuses a mask with bits that it does not know, so
 * the masks go by the version it reports. A kernel newer than this file gets the newest that this
 * file knows. The numbers are the kernel's; headers of the distributions that hutch is built on
 * lack the later ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "confine.h"
#include "weaken.h"
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

#define FS_VERSION_2 ((1ull << 14) - 1) /* execute, read, write, list, remove, make, move */
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

static const uint64_t CLASS_RIGHTS[] = {
    [LANDLOCK_READ] = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
    [LANDLOCK_WRITE] = ~(FS_MAKE_CHAR | FS_MAKE_BLOCK),
    [LANDLOCK_DEVICES] = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
};

struct ruleset_attr {
    uint64_t handled_fs;
    uint64_t handled_net; /* since version 4 */
    uint64_t scoped;      /* since version 6 */
};

struct path_beneath_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

int confine_rlimit(int which, uint64_t value)
{
    struct rlimit now;
    if (weakened("rlimits"))
        return 0;
    if (getrlimit(which, &now) < 0)
        return -errno;
    rlim_t most = value < now.rlim_max ? value : now.rlim_max;
    return setrlimit(which, &(struct rlimit){.rlim_cur = most, .rlim_max = most}) < 0 ? -errno : 0;
}

static int set_capabilities(uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        uint32_t bits = (uint32_t)(keep >> (32 * i));
        data[i].effective = data[i].permitted = data[i].inheritable = bits;
    }
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int confine_capabilities(uint64_t keep)
{
    int r = 0;
    if (weakened("caps")) { /* everything that the outer user namespace gives stays, through exec */
        r = set_capabilities(~0ULL >> (63 - CAP_LAST_CAP));
        for (int cap = 0; r == 0 && cap <= CAP_LAST_CAP; cap++)
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
        return r;
    }
    for (int cap = 0; cap < 64; cap++) {
        if (keep & (1ULL << cap) || prctl(PR_CAPBSET_DROP, cap) == 0)
            continue;
        if (errno != EINVAL || cap <= CAP_AUDIT_READ)
            return -errno;
        break; /* past the last one that this kernel knows */
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    r = set_capabilities(keep);
    for (int cap = 0; r == 0 && cap < 64; cap++)
        if (keep & (1ULL << cap) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            r = -errno;
    return r;
}

int confine_new_privileges(void)
{
    return !weakened("nnp") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi < 0 ? -errno : (int)abi;
}

static int landlock_add_rule(int ruleset, uint64_t handled, const struct landlock_rule *rule)
{
    struct path_beneath_attr attr = {.allowed = CLASS_RIGHTS[rule->class] & handled};
    struct stat st;

    _cleanup_fd_ int fd = open(rule->path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        attr.allowed &= ON_FILES;
    attr.parent_fd = fd;
    return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) < 0 ? -errno : 0;
}

int confine_landlock(const struct landlock_rule *rules, size_t n, unsigned flags)
{
    /* The kernel itself answers ENOSYS or EOPNOTSUPP. Another error comes from a container's system
     * call filter (systemd-nspawn: EPERM), and then there is no Landlock either. */
    int abi = landlock_abi();
    if (abi < LANDLOCK_OLDEST || weakened("landlock"))
        return 0;

    /* The attributes have grown; an older kernel takes a longer struct if what it does not know is
     * zero. */
    struct ruleset_attr attr = {.handled_fs = abi >= 5   ? FS_VERSION_5
                                              : abi >= 3 ? FS_VERSION_3
                                                         : FS_VERSION_2};
    if (abi >= SCOPE_VERSION)
        attr.scoped = SCOPE_ABSTRACT | (flags & LANDLOCK_SIGNALS ? 0 : SCOPE_SIGNAL);
    _cleanup_fd_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (ruleset < 0)
        return -errno;
    for (size_t i = 0; i < n; i++) {
        int r = landlock_add_rule(ruleset, attr.handled_fs, &rules[i]);
        if (r < 0)
            return r;
    }

    /* What a box is refused is no news to the host's audit log, and hostile code must not be able
     * to fill it. */
    unsigned quiet = abi >= LOGGING_VERSION ? LOG_SAME_OFF | LOG_NESTED_OFF : 0;
    return syscall(SYS_landlock_restrict_self, ruleset, quiet) < 0 ? -errno : abi;
}

int confine_system_calls(enum seccomp_role role, bool allocates, int *ret_listener)
{
    *ret_listener = -1;
    if (weakened("seccomp"))
        return 0;
    int r = allocates ? 0 : seccomp_refuse_allocation();
    return r < 0 ? r : seccomp_install(role, ret_listener);
}

/* Installing the filter: last of all steps, since it refuses what the earlier ones use. */

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV /* since Linux 5.19 */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* The kernel only reads the program; its struct lacks the const. */
static int set_filter(unsigned long flags, const struct sock_filter *code, unsigned short n)
{
    struct sock_fprog program = {.len = n, .filter = (struct sock_filter *)code};
    long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return r < 0 ? -errno : (int)r;
}

/* The kernel's struct space_resv, which the ioctl twins of fallocate() take; no header of user
 * space has it. */
struct space_resv {
    int16_t type, whence;
    int64_t start, len;
    int32_t sysid;
    uint32_t pid;
    int32_t pad[4];
};
#define RESERVE    _IOW('X', 40, struct space_resv)
#define RESERVE64  _IOW('X', 42, struct space_resv)
#define ZERO_RANGE _IOW('X', 57, struct space_resv)

#define ARGUMENT(field)       offsetof(struct seccomp_data, field)
#define LOAD(field)           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(field))
#define IF_EQUAL(value, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, 0)

/* Modes and ioctls are ints, so the lower half of an argument decides (both architectures are
 * little-endian). Foreign architectures are the main filter's business: the stricter of two answers
 * counts. */
const struct sock_filter seccomp_allocation_filter[] = {
    LOAD(nr),
    IF_EQUAL(SYS_fallocate, 2),
    IF_EQUAL(SYS_ioctl, 6),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    LOAD(args[1]),
    IF_EQUAL(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 7),
    IF_EQUAL(FALLOC_FL_COLLAPSE_RANGE, 6),
    IF_EQUAL(FALLOC_FL_INSERT_RANGE, 5),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
    LOAD(args[1]),
    IF_EQUAL(RESERVE, 3),
    IF_EQUAL(RESERVE64, 2),
    IF_EQUAL(ZERO_RANGE, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
};
const unsigned short seccomp_allocation_filter_len =
    sizeof seccomp_allocation_filter / sizeof *seccomp_allocation_filter;

int seccomp_refuse_allocation(void)
{
    return set_filter(0, seccomp_allocation_filter, seccomp_allocation_filter_len);
}

int seccomp_install(enum seccomp_role role, int *ret_listener)
{
    *ret_listener = -1;
    if (role == SECCOMP_BOX) {
        /* WAIT_KILLABLE_RECV: a signal does not make the caller give up a call that the guest has
         * begun to carry out. */
        unsigned long flags =
            SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        int fd = set_filter(flags, seccomp_filter, seccomp_filter_len);
        if (fd == -EINVAL)
            fd = set_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, seccomp_filter, seccomp_filter_len);
        if (fd >= 0) {
            *ret_listener = fd;
            return 0;
        }
    }
    if (role == SECCOMP_DIFF_WORKER)
        return set_filter(0, seccomp_diff_worker_filter, seccomp_diff_worker_filter_len);
    return set_filter(0, seccomp_unheard_filter, seccomp_unheard_filter_len);
}
