/*
 * A child of a warm process, from its start to the moment when it is like any command of the box.
 *
 *   control groups   first, so that all it does from here on counts as the box's
 *   its parent       gone: it is process 1's child, which nobody in the box can take it from
 *   namespaces       all of the box's at once, its nested user namespace among them; root and
 *                    working folder are the box's with that. It has every right in that user
 *                    namespace for a moment, and none outside; it is not dumpable, so nobody in
 *                    the box can trace it meanwhile
 *   limits           process 1's own: the plan's, and the processors it may use
 *   confine.h        as process 1 did: capabilities, no_new_privs, Landlock, seccomp
 *   hello            the guest knows it now and gives it its tag
 *   descriptors      0 to 4, nothing else: all that the warm process had is closed
 *   dumpable         last: from here on it is one of the box's processes, and no more than that
 *
 * Whatever fails, it says so and leaves. Nothing of a request was looked at until all of it is
 * done.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "module.h"
#include "confine.h"
#include "sys.h"
#include "weaken.h"
#include "wire_adopt.h"
#include "banned.h"

#define PARENT_TRIES                                                                               \
    100000             /* of a tenth of a millisecond: longer than the forker is waited for  \
                             */
#define LOST       125 /* exit status of a child that could not enter the box */
#define FIRST_FREE 32  /* above all descriptors that a child is given by number */

static struct {
    struct warm_rules head;
    struct landlock_rule rules[WARM_RULES_MAX];
    char bytes[WARM_RULES_BYTES];
} learnt;

static int child_parse_rules(const char *at, const char *end)
{
    if (learnt.head.n_rules > WARM_RULES_MAX)
        return -E2BIG;
    for (uint32_t i = 0; i < learnt.head.n_rules; i++) {
        const char *nul = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!nul || at == nul)
            return -EPROTO;
        learnt.rules[i] =
            (struct landlock_rule){.class = (enum landlock_class)(*at - 1), .path = at + 1};
        at = nul + 1;
    }
    return 0;
}

int child_learn(void)
{
    ssize_t n = read(WARM_FD_RULES, learnt.bytes, sizeof learnt.bytes);
    close(WARM_FD_RULES);
    if (n < (ssize_t)sizeof learnt.head)
        return n < 0 ? -errno : -EPROTO;
    memcpy(&learnt.head, learnt.bytes, sizeof learnt.head);
    return child_parse_rules(learnt.bytes + sizeof learnt.head, learnt.bytes + n);
}

void child_report_failure(int guest, const char *step, int code)
{
    struct adopt_hello hello = {.code = code};
    for (size_t i = 0; i < sizeof hello.step - 1 && step[i]; i++)
        hello.step[i] = step[i];
    send(guest, &hello, sizeof hello, MSG_NOSIGNAL);
}

/* Version 1 is joined by the thread that writes, version 2 by its whole process: here that is the
 * same. */
static int child_join_groups(const struct warm_run_fds *run)
{
    for (size_t i = WARM_RUN_FIXED; i < run->n; i++)
        if (write(run->fds[i], "0", 1) < 0)
            return -errno;
    return 0;
}

/* The forker ends as soon as we have started; it may be stopped on the way, and is killed then. */
static int child_await_adoption(const struct warm_run_fds *run)
{
    const struct timespec pause = {.tv_nsec = 100000};
    for (int i = 0; i < PARENT_TRIES; i++) {
        if (getppid() == 1)
            return 0;
        if (i < 100)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    return -ETIMEDOUT;
}

static int child_enter_namespaces(const struct warm_run_fds *run)
{
    return setns(run->fds[WARM_RUN_BOX], (int)learnt.head.namespaces) < 0 || setsid() < 0 ? -errno
                                                                                          : 0;
}

/* The guest's own, so that no list of them is kept in two places. A limit can only be lowered. */
static int child_take_limits(const struct warm_run_fds *run)
{
    struct rlimit limit, own;
    cpu_set_t processors;
    for (int which = 0; which < RLIM_NLIMITS && !weakened("rlimits"); which++) {
        if (prlimit(1, which, NULL, &limit) < 0 || getrlimit(which, &own) < 0)
            return -errno;
        if (limit.rlim_max > own.rlim_max)
            limit.rlim_max = own.rlim_max;
        if (limit.rlim_cur > limit.rlim_max)
            limit.rlim_cur = limit.rlim_max;
        if (setrlimit(which, &limit) < 0)
            return -errno;
    }
    if (sched_getaffinity(1, sizeof processors, &processors) < 0 ||
        sched_setaffinity(0, sizeof processors, &processors) < 0)
        return -errno;
    return 0;
}

static int child_confine(const struct warm_run_fds *run)
{
    int nobody, r = confine_capabilities(0);
    if (r == 0)
        r = confine_new_privileges();
    if (r == 0)
        r = confine_landlock(learnt.rules, learnt.head.n_rules, learnt.head.landlock);
    return r < 0 ? r : confine_system_calls(SECCOMP_ALONE, !learnt.head.on_disk, &nobody);
}

static int child_enter_workspace(const struct warm_run_fds *run)
{
    return chdir("/workspace") < 0 ? -errno : 0;
}

static const struct {
    const char *name; /* for the weakened build */
    const char *what;
    int (*take)(const struct warm_run_fds *run);
} STEPS[] = {
    {"warm-groups", "join the control groups", child_join_groups},
    {"warm-adoption", "become a child of process 1", child_await_adoption},
    {"warm-namespaces", "enter its namespaces", child_enter_namespaces},
    {"warm-limits", "take on its limits", child_take_limits},
    {"warm-confine", "drop all privileges", child_confine},
    {"warm-folder", "enter /workspace", child_enter_workspace},
};

static int child_say_hello(int guest, struct adopt_go *ret)
{
    const struct adopt_hello hello = {.pid = getpid()};
    ssize_t n = send(guest, &hello, sizeof hello, MSG_NOSIGNAL);
    if (n < 0)
        return -errno;
    do
        n = recv(guest, ret, sizeof *ret, 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof *ret ? 0 : -ECANCELED;
}

/* Out of the way first: where they are to be may be where others of them are. */
static int child_arrange_descriptors(const struct warm_run_fds *run)
{
    int output = fcntl(run->fds[WARM_RUN_OUTPUT], F_DUPFD, FIRST_FREE);
    int said = fcntl(run->fds[WARM_RUN_SAID], F_DUPFD, FIRST_FREE);
    int request = fcntl(run->fds[WARM_RUN_REQUEST], F_DUPFD, FIRST_FREE);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (output < 0 || said < 0 || request < 0 || null < 0)
        return -errno;
    if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
        dup2(said, WARM_CHILD_SAID) < 0 || dup2(request, WARM_CHILD_REQUEST) < 0)
        return -errno;
    return !weakened("warm-fds") && sys_close_range(WARM_CHILD_END, ~0U, 0) < 0 ? -errno : 0;
}

static int child_take_tag(const struct adopt_go *go)
{
    const struct rlimit tag = {.rlim_cur = go->tag, .rlim_max = go->tag};
    struct rlimit files;
    if (setrlimit(RLIMIT_RTTIME, &tag) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    if (go->files && go->files < files.rlim_cur)
        files.rlim_cur = go->files;
    return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

void child_enter(const struct warm_run_fds *run)
{
    struct adopt_go go;
    int guest = run->fds[WARM_RUN_GUEST];
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        int r = weakened(STEPS[i].name) ? 0 : STEPS[i].take(run);
        if (r < 0) {
            child_report_failure(guest, STEPS[i].what, -r);
            _exit(LOST);
        }
    }
    if (child_say_hello(guest, &go) < 0 || child_arrange_descriptors(run) < 0 ||
        child_take_tag(&go) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        _exit(LOST);
}
