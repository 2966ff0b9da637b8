/*
 * Calls everything that a box must not reach, by one entry of the kernel: native, int 0x80 (the
 * 32-bit table) or x32.
 *
 * The arguments are such that the kernel itself would refuse them harmlessly, with another error
 * than a filter's. So EPERM, ENOSYS, EACCES or death by SIGSYS is a denial, and any other answer
 * shows that the call got through. Each call is made in a child: one that is killed for it, or that
 * really changed its state, does not spoil the next.
 *
 *     syscalls native|int80|x32
 */
#include "hostile.h"

#define NONE (-1)
#define X32  0x40000000L

static char missing[] = "/nonexistent-hutch-test";
static char tmpfs[] = "tmpfs";
static char empty[64];
static long bad[4] = {-1, -1, -1, -1}; /* no time of day */

struct call {
    const char *name;
    int native, int80, x32;
    long args[6];
};

#define STR(s) ((long)(s))

static const struct call calls[] = {
    {"io_uring_setup", 425, 425, 425, {1, 0}},
    {"io_uring_enter", 426, 426, 426, {-1, 1, 0, 0, 0, 0}},
    {"io_uring_register", 427, 427, 427, {-1, 0, 0, 0}},
    {"bpf map lookup", 321, 357, 321, {1, STR(empty), 32}},
    {"bpf object get", 321, 357, 321, {7, STR(empty), 32}},
    {"perf_event_open", 298, 336, 298, {0, 0, -1, -1, 0}},
    {"userfaultfd", 323, 374, 323, {1}},
    {"keyctl session keyring", 250, 288, 250, {0, -3, 0}},
    {"keyctl describe", 250, 288, 250, {6, -4, 0, 0}},
    {"add_key", 248, 286, 248, {0, 0, 0, 0, -3}},
    {"request_key", 249, 287, 249, {0, 0, 0, -3}},
    {"kexec_load", 246, 283, 528, {0, 100, 0, 0}},
    {"kexec_file_load", 320, NONE, 320, {-1, -1, 0, 0, 0}},
    {"init_module", 175, 128, 175, {0, 0, 0}},
    {"finit_module", 313, 350, 313, {-1, 0, 0}},
    {"delete_module", 176, 129, 176, {STR(missing), 0}},
    {"open_by_handle_at", 304, 342, 304, {-1, 0, 0}},
    {"personality read-implies-exec", 135, 136, 135, {0x400000}},
    {"personality page zero", 135, 136, 135, {0x100000}},
    {"mount", 165, 21, 165, {STR(tmpfs), STR(missing), STR(tmpfs), 0, 0}},
    {"umount2", 166, 52, 166, {STR(missing), 0}},
    {"umount", NONE, 22, NONE, {STR(missing)}},
    {"pivot_root", 155, 217, 155, {STR(missing), STR(missing)}},
    {"open_tree clone", 428, 428, 428, {-100, STR(missing), 1}},
    {"move_mount", 429, 429, 429, {-1, STR(empty), -1, STR(empty), 0}},
    {"fsopen", 430, 430, 430, {STR(tmpfs), 0}},
    {"fsconfig", 431, 431, 431, {-1, 6, 0, 0, 0}},
    {"fsmount", 432, 432, 432, {-1, 0, 0}},
    {"fspick", 433, 433, 433, {-100, STR(missing), 0}},
    {"mount_setattr", 442, 442, 442, {-1, STR(empty), 0, 0, 0}},
    {"setns", 308, 346, 308, {-1, 0}},
    {"unshare user", 272, 310, 272, {CLONE_NEWUSER}},
    {"unshare mount", 272, 310, 272, {CLONE_NEWNS}},
    {"unshare all",
     272,
     310,
     272,
     {CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC}},
    {"clone user", 56, 120, 56, {CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0}},
    {"clone3 user", 435, 435, 435, {0, 0}},
    {"swapon", 167, 87, 167, {STR(missing), 0}},
    {"swapoff", 168, 115, 168, {STR(missing)}},
    {"reboot", 169, 88, 169, {0, 0, 0, 0}},
    {"acct", 163, 51, 163, {STR(missing)}},
    {"settimeofday", 164, 79, 164, {STR(bad), 0}},
    {"clock_settime", 227, 264, 227, {0, STR(bad)}},
    {"iopl", 172, 110, 172, {3}},
    {"ioperm", 173, 101, 173, {0x80, 1, 1}},
    {"quotactl", 179, 131, 179, {0x800005 << 8, 0, 0, 0}},
    {"syslog read", 103, 103, 103, {3, STR(empty), 0}},
    {"uselib", 134, 86, NONE, {STR(missing)}},
    {"ioctl TIOCSTI", 16, 54, 514, {0, 0x5412, STR(empty)}},
    {"ioctl TIOCLINUX", 16, 54, 514, {0, 0x541C, STR(empty)}},
};

static long call_native(long nr, const long a[6])
{
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    register long r9 __asm__("r9") = a[5];
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

/* The sixth argument (ebp) is never needed here. */
static long call_int80(long nr, const long a[6])
{
    long r;

    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(nr), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]), "D"(a[4])
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)r;
}

/* In the child: makes the call, and leaves its errno (0: it worked) as exit status. A clone that
 * works returns twice. */
static void child(const char *entry, long nr, const long *args)
{
    pid_t self = getpid();
    long r = *entry == 'i' ? call_int80(nr, args) : call_native(nr, args);

    if (getpid() != self && r == 0)
        _exit(0);
    _exit(r < 0 ? (int)-r : 0);
}

static void probe(const struct call *c, const char *entry)
{
    long nr = *entry == 'n' ? c->native : *entry == 'i' ? c->int80 : c->x32;
    int status;
    pid_t pid;

    if (nr == NONE)
        return;
    pid = fork();
    if (pid == 0)
        child(entry, *entry == 'x' ? nr | X32 : nr, c->args);
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        perror("fork");
        exit(2);
    }
    if (WIFSIGNALED(status)) {
        printf(WTERMSIG(status) == SIGSYS ? "DENIED %s %s (killed)\n" : "BREACH %s %s: signal %d\n",
               entry, c->name, WTERMSIG(status));
        breaches += WTERMSIG(status) != SIGSYS;
        return;
    }
    errno = WEXITSTATUS(status);
    if (errno == EPERM || errno == ENOSYS || errno == EACCES)
        denied("%s %s", entry, c->name);
    else
        breach("%s %s was reached: %s", entry, c->name,
               errno ? strerrorname_np(errno) : "it worked");
}

int main(int argc, char **argv)
{
    const char *entry = argc > 1 ? argv[1] : "native";

    setbuf(stdout, NULL);
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        probe(&calls[i], entry);
    return verdict();
}
