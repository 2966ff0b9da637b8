#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"
#include "clock.h"
#include "notify.h"
#include "weaken.h"
#include "banned.h"

#define NOTIFY_TID 2
#define STACK_SIZE (1u << 20) /* a deep tree is walked by recursion */

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* since Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#define FCHMODAT2 452 /* younger than the headers */

static int notify_decide(struct notify *n, const struct caller *c)
{
    const struct seccomp_data *d = &c->call->data;
    const uint64_t *a = (const uint64_t *)d->args;
    switch (d->nr) {
#ifdef SYS_rename
    case SYS_rename:
    case SYS_chmod:
        if (d->nr == SYS_chmod)
            return chmod_decide(c, AT_FDCWD, a[0], (mode_t)a[1], 0);
        if (n->landlocked)
            return CALL_GOES_ON;
        return rename_decide(c, &(struct rename_call){AT_FDCWD, AT_FDCWD, a[0], a[1], 0});
#endif
    case SYS_renameat:
    case SYS_renameat2:
        if (n->landlocked)
            return CALL_GOES_ON;
        return rename_decide(c, &(struct rename_call){(int)a[0], (int)a[2], a[1], a[3],
                                                      d->nr == SYS_renameat2 ? (unsigned)a[4] : 0});
    case SYS_fchmod:
        return chmod_decide(c, (int)a[0], 0, (mode_t)a[1], 0);
    case SYS_fchmodat:
        return chmod_decide(c, (int)a[0], a[1], (mode_t)a[2], 0);
    case FCHMODAT2:
        return chmod_decide(c, (int)a[0], a[1], (mode_t)a[2], (int)a[3]);
    case SYS_landlock_restrict_self:
        n->landlocked = true;
        return CALL_GOES_ON;
    default:
        return -ENOSYS;
    }
}

static void notify_serve_one(struct notify *n)
{
    struct seccomp_notif call = {0};
    if (ioctl(n->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
        return; /* the caller was killed meanwhile, or a signal came */
    n->busy = true;
    const struct caller c = {.listener = n->listener, .call = &call};
    int r = notify_decide(n, &c);
    struct seccomp_notif_resp answer = {.id = call.id};
    if (r == CALL_GOES_ON)
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        answer.error = r;
    ioctl(n->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    n->busy = false;
}

/* The filter refuses to limit or to slow down task 2, as process 1. Under another number the
 * thread, and with it the whole guest, would be open to the box's processes: then there is no box.
 */
static void *notify_thread(void *data)
{
    if (syscall(SYS_gettid) != NOTIFY_TID && !weakened("pid"))
        syscall(SYS_exit_group, 1);
    /* Caller and thread take turns: the kernel may then keep them on one processor. */
    ioctl(((struct notify *)data)->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
          SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    for (;;)
        notify_serve_one(data);
    return NULL;
}

int notify_start(struct notify *n, int listener)
{
    pthread_t thread;
    pthread_attr_t how;
    n->listener = listener;
    if (listener < 0)
        return 0;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, STACK_SIZE);
    int code = pthread_create(&thread, &how, notify_thread, n); /* the guest blocks all signals */
    pthread_attr_destroy(&how);
    return -code;
}

bool notify_is_busy(const struct notify *n)
{
    return n->busy;
}
