/* From the namespaces of a family of boxes to a running warm process (warm_process.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box_host.h"
#include "confine.h"
#include "io.h"
#include "module.h"
#include "spawn.h"
#include "sys.h"
#include "warm_process.h"
#include "weaken.h"
#include "banned.h"

/*
 * serve() returns in children only, confined. The module (module.c) is loaded as any extension
 * module is, and is not in sys.modules afterwards: what a child runs finds neither it nor ctypes in
 * the process. The garbage collector leaves alone what is there by then: looking at it would copy
 * its pages.
 *
 * What is printed goes to the host while the program is prepared; that is how failures are
 * explained.
 */
static const char WARM_BOOT[] =
    "import sys\n"
    "sys.path[:] = [p for p in sys.path if p]\n"
    "import gc, os, traceback, types\n"
    "def whole(fd):\n"
    "    os.lseek(fd, 0, 0)\n"
    "    with open(fd, 'rb') as f:\n"
    "        return f.read().decode('utf-8', 'surrogateescape')\n"
    "def failed():\n"
    "    text = traceback.format_exc().encode('utf-8', 'replace')\n"
    "    os.write(3, b'X' + text[-4000:])\n"
    "    os._exit(1)\n"
    "def load():\n"
    "    import _imp\n"
    "    if 't' in sys.abiflags:\n"
    "        raise ImportError('a Python without a global lock is not supported')\n"
    "    part = _imp.create_dynamic(types.SimpleNamespace(name='hutch_part', "
    "origin='/run/hutch-warm.so'))\n"
    "    sys.modules.pop('hutch_part', None)\n"
    "    part.begin()\n"
    "    module = types.ModuleType('hutch_warm')\n"
    "    sys.modules['hutch_warm'] = module\n"
    "    exec(compile(whole(5), '<hutch_warm>', 'exec'), module.__dict__)\n"
    "    module.prepare(whole(6))\n"
    "    return part.serve, module.run\n"
    "def ready():\n"
    "    sys.stdout.flush()\n"
    "    sys.stderr.flush()\n"
    "    os.dup2(0, 1)\n"
    "    os.dup2(0, 2)\n"
    "    os.chdir('/')\n"
    "    gc.collect()\n"
    "    gc.freeze()\n"
    "def child(run):\n"
    "    status = 1\n"
    "    try:\n"
    "        run(whole(4), 3)\n"
    "        status = 0\n"
    "    except BaseException:\n"
    "        traceback.print_exc()\n"
    "    finally:\n"
    "        try:\n"
    "            sys.stdout.flush()\n"
    "            sys.stderr.flush()\n"
    "        finally:\n"
    "            os._exit(status)\n"
    "def main():\n"
    "    try:\n"
    "        serve, run = load()\n"
    "        ready()\n"
    "    except BaseException:\n"
    "        failed()\n"
    "    serve()\n"
    "    del serve\n"
    "    child(run)\n"
    "main()\n";

#define FIRST_FREE 32 /* our descriptors stay clear of those that are given by number */

/* To enter namespaces of the family, to take their root, and to refer to a box by a process of
 * another's. */
#define KEPT_CAPABILITIES (1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_CHROOT | 1ULL << CAP_SYS_PTRACE)

enum warm_step {
    STEP_UNSHARE = ENTER_STEPS,
    STEP_READ_ONLY,
    STEP_TMPFS,
    STEP_MODULE,
    STEP_CONFINE,
    STEP_FDS,
    STEP_EXEC
};

static const char *const STEP_WORDS[] = {
    [STEP_UNSHARE] = "make namespaces of its own",
    [STEP_READ_ONLY] = "make all mounts read-only",
    [STEP_TMPFS] = "mount a tmpfs",
    [STEP_MODULE] = "copy hutch-warm.so",
    [STEP_CONFINE] = "drop privileges",
    [STEP_FDS] = "arrange the descriptors",
};

struct warm_failure {
    int step;
    int code;
};

/* In the order in which a command finds them. */
static const char *const PYTHONS[] = {"/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3"};

/* What the child needs, all of it opened by the host. */
struct warm_child {
    const struct warm *warm;
    int module; /* hutch-warm.so, to be read */
    int rules;
    int control, output;
};

/* A copy and no mount: no path of the host's is to be seen in the process's list of mounts. */
static int warm_copy_module(int from)
{
    char bytes[4096];
    ssize_t n;
    off_t at = 0;
    _cleanup_fd_ int to = open(WARM_MODULE_PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
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

/* What the host ignores or blocks is no business of the box's processes. */
static void warm_reset_signals(void)
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
static int warm_arrange_descriptors(const struct warm_child *c, int *report)
{
    const int wanted[WARM_FD_END] = {[1] = c->output,
                                     [2] = c->output,
                                     [WARM_FD_CONTROL] = c->control,
                                     [WARM_FD_RULES] = c->rules,
                                     [WARM_FD_PROGRAM] = c->warm->program,
                                     [WARM_FD_SETUP] = c->warm->setup};
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

/* Becomes the warm process. Returns only on failure, with the step that failed. */
static struct warm_failure warm_become(const struct warm_child *c, int *report)
{
    const struct ns_machine *m = c->warm->machine;
    enum enter_step entered;
    int namespaces = ns_namespaces(&m->layout) & (CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
    int r = enter_family(m->userns, m->mntns, &entered);
    if (r < 0)
        return (struct warm_failure){entered, -r};
    if (unshare(CLONE_NEWNS | namespaces) < 0)
        return (struct warm_failure){STEP_UNSHARE, errno};

    /* What is mounted from now on is not seen by the box whose mounts these were, nor the other way
     * round. /run is for our own module, /tmp for what the program writes while it is prepared:
     * both go with the process. */
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY, .propagation = MS_PRIVATE};
    if (sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) < 0)
        return (struct warm_failure){STEP_READ_ONLY, errno};
    static const char *const WRITABLE[] = {"/run", "/tmp"};
    for (size_t i = 0; i < ARRAY_SIZE(WRITABLE); i++)
        if (mount("tmpfs", WRITABLE[i], "tmpfs", MS_NOSUID | MS_NODEV,
                  "size=16m,nr_inodes=4096,mode=0755") < 0)
            return (struct warm_failure){STEP_TMPFS, errno};
    if ((r = warm_copy_module(c->module)) < 0)
        return (struct warm_failure){STEP_MODULE, -r};

    /* Unlike 0, a core limit of 1 holds for the program that core_pattern names, too. */
    r = confine_rlimit(RLIMIT_CORE, 1);
    if (r == 0)
        r = confine_capabilities(KEPT_CAPABILITIES);
    if (r == 0)
        r = confine_new_privileges();
    if (r < 0)
        return (struct warm_failure){STEP_CONFINE, -r};
    if (chdir("/") < 0 || (r = warm_arrange_descriptors(c, report)) < 0)
        return (struct warm_failure){STEP_FDS, r < 0 ? -r : errno};
    warm_reset_signals();
    setsid(); /* no terminal, nor its signals */

    char *argv[] = {(char *)"python3", (char *)"-s", (char *)"-c", (char *)WARM_BOOT, NULL};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_SIZE(PYTHONS); i++) {
        execve(PYTHONS[i], argv, c->warm->env);
        if (errno != ENOENT && errno != ENOTDIR)
            code = errno;
    }
    return (struct warm_failure){STEP_EXEC, code};
}

/* Starts the child and waits until it has executed python3, or has failed. */
static int warm_spawn(const struct warm_child *c, pid_t *ret_pid, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    _cleanup_fd_ int in = ends[0];
    _cleanup_fd_ int out = ends[1];
    struct warm_failure failure;
    ssize_t n;

    /* Signals are blocked: a handler of the host's must not run in the child, on its copy of the
     * host's memory. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        umask(022);
        failure = warm_become(c, &out);
        n = write(out, &failure, sizeof failure);
        syscall(SYS_exit_group, n < 0 ? 2 : 1);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return error_errno(err, errno, "the warm process did not start: cannot make a process");

    close(TAKE_FD(out));
    do
        n = read(in, &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    if (n == 0) {
        *ret_pid = pid;
        return 0;
    }
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    if (n != sizeof failure)
        return error_set(err, EIO, "the warm process did not start");
    if (failure.step == STEP_EXEC && failure.code == ENOENT)
        return error_set(err, EOPNOTSUPP, "there is no python3 in these boxes to keep warm");
    if (failure.step == STEP_EXEC)
        return error_set(err, EOPNOTSUPP, "python3 of these boxes cannot be started: %s",
                         strerror(failure.code));
    return error_errno(err, failure.code, "the warm process did not start: cannot %s",
                       failure.step < ENTER_STEPS ? ENTER_WORDS[failure.step]
                                                  : STEP_WORDS[failure.step]);
}

/* The rules that a child of the warm process is put under are those of the plan for any fork of the
 * machine. */
static int warm_write_rules(const struct ns_machine *m, int *ret_fd)
{
    _cleanup_(plan_free) struct plan plan;
    _cleanup_buf_ struct buf b = BUF_INIT(WARM_RULES_BYTES);
    if (plan_init(&plan) < 0)
        return -ENOMEM;
    layout_landlock_rules(&plan, &m->layout);
    int nested = weakened("caps") ? 0 : CLONE_NEWUSER;
    struct warm_rules head = {.namespaces =
                                  (uint32_t)((ns_namespaces(&m->layout) & ~CLONE_NEWPID) | nested),
                              .landlock = layout_landlock_flags(&m->layout),
                              .on_disk = m->disk != NULL,
                              .n_rules = (uint32_t)plan.n_rules};
    buf_append(&b, &head, sizeof head);
    for (size_t i = 0; i < plan.n_rules; i++) {
        char class = (char)(plan.rules[i].class + 1); /* never a NUL */
        buf_append(&b, &class, 1);
        buf_append(&b, plan.rules[i].path, strlen(plan.rules[i].path) + 1);
    }
    if (b.failed || plan.overflow || plan.n_rules > WARM_RULES_MAX)
        return -E2BIG;
    _cleanup_fd_ int fd = memfd_create("hutch-warm-rules", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, b.data, b.len, 0) != (ssize_t)b.len)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int warm_start(const struct warm *w, int control, int output, pid_t *ret_pid, struct error *err)
{
    const struct ns_machine *m = w->machine;
    char path[LIBEXEC_PATH_MAX];
    if (!m->layout.warm)
        return error_set(err, EINVAL,
                         "these boxes were not opened to be entered by a warm process");
    if (weakened("pid"))
        return error_set(err, EOPNOTSUPP, "a box without a pid namespace cannot be entered");
    int r = libexec_find("hutch-warm.so", path, err);
    if (r < 0)
        return r;
    _cleanup_fd_ int module = open(path, O_RDONLY | O_CLOEXEC);
    if (module < 0)
        return error_errno(err, errno, "cannot open %s", path);
    _cleanup_fd_ int rules = -1;
    if ((r = warm_write_rules(m, &rules)) < 0)
        return error_errno(err, -r, "the warm process did not start");
    const struct warm_child child = {
        .warm = w, .module = module, .rules = rules, .control = control, .output = output};
    return warm_spawn(&child, ret_pid, err);
}
