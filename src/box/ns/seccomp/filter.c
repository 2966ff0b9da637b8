/* Installing the filter: last of all steps, since it refuses what the earlier ones use. */
#include <errno.h>
#include <linux/falloc.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"
#include "banned.h"

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
