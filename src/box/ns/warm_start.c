#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"
#include "enter.h"
#include "io.h"
#include "sys.h"
#include "warm_boot.h"
#include "warm_part/part.h"
#include "warm_start.h"
#include "banned.h"

#define FIRST_FREE 32 /* our descriptors stay clear of those that are given by number */

/* To enter namespaces of the family, to take their root, and to refer to a box by a process of
 * another's. */
#define KEPT_CAPABILITIES (1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_CHROOT | 1ULL << CAP_SYS_PTRACE)

enum step {
    STEP_UNSHARE = ENTER_STEPS,
    STEP_READ_ONLY,
    STEP_PLACES,
    STEP_PART,
    STEP_CONFINE,
    STEP_FDS,
    STEP_EXEC
};

static const char *const STEP_WORDS[] = {
    [STEP_UNSHARE] = "make namespaces of its own",
    [STEP_READ_ONLY] = "make all mounts read-only",
    [STEP_PLACES] = "mount a tmpfs",
    [STEP_PART] = "copy hutch-warm.so",
    [STEP_CONFINE] = "drop privileges",
    [STEP_FDS] = "arrange the descriptors",
};

struct report {
    int step;
    int code;
};

/* In the order in which a command finds them. */
static const char *const PYTHONS[] = {"/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3"};

/* What is mounted from now on is not seen by the box whose mounts these were, nor the other way
 * round. */
static int close_mounts(void)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY, .propagation = MS_PRIVATE};
    return sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) < 0 ? -errno : 0;
}

/* /run for our own part, /tmp for what the program writes while it is prepared: both go with the
 * process. */
static int open_places(void)
{
    static const char *const PLACES[] = {"/run", "/tmp"};
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++)
        if (mount("tmpfs", PLACES[i], "tmpfs", MS_NOSUID | MS_NODEV,
                  "size=16m,nr_inodes=4096,mode=0755") < 0)
            return -errno;
    return 0;
}

/* A copy and no mount: no path of the host's is to be seen in the process's list of mounts. */
static int copy_part(int from)
{
    char bytes[4096];
    ssize_t n;
    off_t at = 0;
    _cleanup_fd_ int to = open(WARM_PART_PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (to < 0)
        return -errno;
    while ((n = pread(from, bytes, sizeof bytes, at)) > 0) {
        int r = io_write_all(to, bytes, (size_t)n);
        if (r < 0)
            return r;
        at += n;
    }
    return n < 0 ? -errno : 0;
}

static int drop_rights(void)
{
    int r = confine_rlimit(RLIMIT_CORE,
                           1); /* unlike 0, not even to a program that core_pattern names */
    if (r == 0)
        r = confine_capabilities(KEPT_CAPABILITIES);
    return r < 0 ? r : confine_new_privileges();
}

/* What the host ignores or blocks is no business of the box's processes. */
static void reset_signals(void)
{
    const struct {
        unsigned long handler, flags, restorer, mask;
    } fallback = {0}; /* the kernel's form of SIG_DFL */
    sigset_t none;
    for (int sig = 1; sig < NSIG; sig++)
        syscall(SYS_rt_sigaction, sig, &fallback, NULL, sizeof fallback.mask);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Only `report` goes along beside those that belong to the process, and ends with the exec. */
static int arrange_descriptors(const struct warm_start *s, int *report)
{
    const int wanted[WARM_FD_END] = {[1] = s->voice,
                                     [2] = s->voice,
                                     [WARM_FD_CONTROL] = s->control,
                                     [WARM_FD_RULES] = s->rules,
                                     [WARM_FD_PROGRAM] = s->program,
                                     [WARM_FD_SETUP] = s->setup};
    int away[WARM_FD_END];
    for (int i = 1; i < WARM_FD_END; i++)
        if ((away[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, FIRST_FREE)) < 0)
            return -errno;
    int moved = fcntl(*report, F_DUPFD_CLOEXEC, FIRST_FREE);
    if (moved < 0)
        return -errno;
    *report = moved;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0)
        return -errno;
    for (int i = 1; i < WARM_FD_END; i++)
        if (dup2(away[i], i) < 0)
            return -errno;
    return sys_close_range(WARM_FD_END, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

static int execute(char *const *env)
{
    char *argv[] = {(char *)"python3", (char *)"-s", (char *)"-c", (char *)WARM_BOOT, NULL};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_SIZE(PYTHONS); i++) {
        execve(PYTHONS[i], argv, env);
        if (errno != ENOENT && errno != ENOTDIR)
            code = errno;
    }
    return -code;
}

/* Returns only on failure. */
static struct report become(const struct warm_start *s, int *report)
{
    enum enter_step entered;
    int own = CLONE_NEWNS | (s->namespaces & (CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS));
    int r = enter_family(s->userns, s->mntns, &entered);
    if (r < 0)
        return (struct report){entered, -r};
    if (unshare(own) < 0)
        return (struct report){STEP_UNSHARE, errno};
    if ((r = close_mounts()) < 0)
        return (struct report){STEP_READ_ONLY, -r};
    if ((r = open_places()) < 0)
        return (struct report){STEP_PLACES, -r};
    if ((r = copy_part(s->part)) < 0)
        return (struct report){STEP_PART, -r};
    if ((r = drop_rights()) < 0)
        return (struct report){STEP_CONFINE, -r};
    if (chdir("/") < 0 || (r = arrange_descriptors(s, report)) < 0)
        return (struct report){STEP_FDS, r < 0 ? -r : errno};
    reset_signals();
    setsid(); /* no terminal, nor its signals */
    return (struct report){STEP_EXEC, -execute(s->env)};
}

static void child(const struct warm_start *s, int report)
{
    umask(022);
    struct report failure = become(s, &report);
    if (write(report, &failure, sizeof failure) < 0)
        syscall(SYS_exit_group, 2);
    syscall(SYS_exit_group, 1);
}

/* Signals are blocked: a handler of the host's must not run in the child, on its copy of the host's
 * memory.
 */
static pid_t clone_child(const struct warm_start *s, int report)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        child(s, report);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pid;
}

static int describe(const struct report *f, struct error *err)
{
    if (f->step == STEP_EXEC && f->code == ENOENT)
        return error_set(err, EOPNOTSUPP, "there is no python3 in these boxes to keep warm");
    if (f->step == STEP_EXEC)
        return error_set(err, EOPNOTSUPP, "python3 of these boxes cannot be started: %s",
                         strerror(f->code));
    const char *what = f->step < ENTER_STEPS ? ENTER_WORDS[f->step] : STEP_WORDS[f->step];
    return error_errno(err, f->code, "the warm process did not start: cannot %s", what);
}

int warm_start(const struct warm_start *s, pid_t *ret_pid, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    _cleanup_fd_ int in = ends[0];
    _cleanup_fd_ int out = ends[1];
    pid_t pid = clone_child(s, out);
    if (pid < 0)
        return error_errno(err, errno, "the warm process did not start: cannot make a process");
    close(TAKE_FD(out));
    struct report failure;
    ssize_t n;
    do
        n = read(in, &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    if (n == 0) {
        *ret_pid = pid;
        return 0;
    }
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return n == sizeof failure ? describe(&failure, err)
                               : error_set(err, EIO, "the warm process did not start");
}
