#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "seccomp/filter.h"
#include "weaken.h"
#include "banned.h"

int confine_rlimit(int which, uint64_t value)
{
    if (weakened("rlimits"))
        return 0;
    struct rlimit now, want = {.rlim_cur = value, .rlim_max = value};
    if (getrlimit(which, &now) < 0)
        return -errno;
    if (want.rlim_max > now.rlim_max) /* never raised, only lowered */
        want.rlim_cur = want.rlim_max = now.rlim_max;
    return setrlimit(which, &want) < 0 ? -errno : 0;
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

/* For the weakened build: everything the outer user namespace gives stays, through exec. */
static int keep_capabilities(void)
{
    int r = set_capabilities(~0ULL >> (63 - CAP_LAST_CAP));
    for (int cap = 0; r == 0 && cap <= CAP_LAST_CAP; cap++)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
    return r;
}

static int drop_capabilities(uint64_t keep)
{
    for (int cap = 0;; cap++) {
        if (!(keep & (1ULL << cap)) && prctl(PR_CAPBSET_DROP, cap) < 0) {
            if (errno == EINVAL &&
                cap > CAP_AUDIT_READ) /* past the last one that this kernel knows */
                break;
            return -errno;
        }
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    int r = set_capabilities(keep);
    if (r < 0)
        return r;
    for (int cap = 0; cap < 64; cap++)
        if (keep & (1ULL << cap) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return -errno;
    return 0;
}

int confine_capabilities(uint64_t keep)
{
    return weakened("caps") ? keep_capabilities() : drop_capabilities(keep);
}

int confine_new_privileges(void)
{
    return !weakened("nnp") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int confine_landlock(const struct landlock_rule *rules, size_t n, unsigned flags)
{
    if (weakened("landlock"))
        return 0;
    const struct landlock_rule *culprit = NULL;
    int r = landlock_apply(rules, n, flags, &culprit);
    return r == -EOPNOTSUPP || r == -ENOSYS || r > 0 ? 0 : r;
}

int confine_system_calls(enum seccomp_role role, bool allocates, int *ret_listener)
{
    *ret_listener = -1;
    if (weakened("seccomp"))
        return 0;
    int r = allocates ? 0 : seccomp_refuse_allocation();
    return r < 0 ? r : seccomp_install(role, ret_listener);
}
