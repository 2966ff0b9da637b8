#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "enter.h"
#include "layout.h"
#include "banned.h"

const char *const ENTER_WORDS[ENTER_STEPS] = {
    "join the control group", "leave the groups of root",  "enter the user namespace",
    "become the box's user",  "enter the mount namespace",
};

int enter_family(int userns, int mntns, enum enter_step *ret_step)
{
    *ret_step = ENTER_GROUPS;
    /* Without CAP_SETGID root keeps its groups, as an ordinary user does. */
    if (geteuid() == 0 && syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
        return -errno;
    *ret_step = ENTER_USER;
    if (setns(userns, CLONE_NEWUSER) < 0)
        return -errno;
    *ret_step = ENTER_ID;
    if (syscall(SYS_setresgid, AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
        syscall(SYS_setresuid, AGENT_ID, AGENT_ID, AGENT_ID) < 0)
        return -errno;
    *ret_step = ENTER_MOUNTS;
    return mntns >= 0 && setns(mntns, CLONE_NEWNS) < 0 ? -errno : 0;
}
