/*
 * The policy. It is an allow-list: what ordinary development needs (compilers, interpreters,
 * debuggers, databases, threads) is allowed, all else is not. The box already stands in its own
 * namespaces without any capability, so most of what is refused here would fail anyway; the filter
 * is there for the day when the kernel has a bug in one of them.
 *
 * EPERM is for what a person should see as forbidden, ENOSYS for what programs probe for and can do
 * without.
 */
#include <errno.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <asm/ioctls.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>

#include "cleanup.h"
#include "policy.h"
#include "sys.h"
#include "banned.h"

#define WHOLE     0xffffffffu
#define GUEST_PID 1 /* in the box's own pid namespace */
#define GUEST_TID 2 /* of its thread (src/guest/notify.c), which these calls take for the process */
#define AGENT_ID  1000 /* the only user and group that a box has */

#define NEW_NAMESPACES                                                                             \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

#define SOCKET_TYPE 0xfu /* the rest of socket()'s second argument are flags */

/* clang-format off */
#define IF(a, m, v)     {.arg = (a), .mask = (m), .value = (v)}
#define IF_NOT(a, m, v) {.arg = (a), .mask = (m), .value = (v), .negate = true}

#define IF_GUEST(a)                                                                                \
    {POLICY_ERRNO(EPERM), {IF(a, WHOLE, GUEST_PID)}},                                              \
    {POLICY_ERRNO(EPERM), {IF(a, WHOLE, GUEST_TID)}}

/* The argument is neither the box's own id nor -1, which leaves an id as it is. */
#define IF_FOREIGN_ID(a)                                                                           \
    {POLICY_ERRNO(EPERM), {IF_NOT(a, WHOLE, AGENT_ID), IF_NOT(a, WHOLE, WHOLE)}}
/* clang-format on */

const struct policy_group policy_groups[] = {
    /* Files, by name and by descriptor. What a name leads to is decided by the mounts and by
       Landlock. */
    {POLICY_ALLOW,
     "open openat openat2 creat close close_range read write pread64 pwrite64 readv writev preadv "
     "pwritev preadv2 pwritev2 lseek access faccessat faccessat2 stat fstat lstat newfstatat statx "
     "statfs fstatfs getdents getdents64 readlink readlinkat getcwd chdir fchdir"},
    {POLICY_ALLOW, "mkdir mkdirat rmdir unlink unlinkat link linkat symlink symlinkat truncate "
                   "ftruncate fallocate umask utime utimes futimesat utimensat"},
    {POLICY_ALLOW,
     "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr "
     "removexattr lremovexattr fremovexattr setxattrat getxattrat listxattrat removexattrat"},
    {POLICY_ALLOW, "fsync fdatasync sync syncfs sync_file_range readahead fadvise64 "
                   "copy_file_range sendfile splice "
                   "tee vmsplice flock fcntl dup dup2 dup3 pipe pipe2"},

    /* Waiting for something. */
    {POLICY_ALLOW,
     "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
     "epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime "
     "timerfd_gettime inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"},

    /* Memory. */
    {POLICY_ALLOW,
     "brk mmap munmap mremap mprotect madvise msync mincore mlock mlock2 munlock mlockall "
     "munlockall "
     "memfd_create pkey_alloc pkey_free pkey_mprotect mbind set_mempolicy get_mempolicy "
     "set_mempolicy_home_node membarrier process_madvise map_shadow_stack mseal"},

    /* Processes and threads. Those that reach another process (ptrace, process_vm_*, kill, pidfd_*)
     * reach only what the pid namespace shows, and debuggers need them. Process 1 is not dumpable
     * and the kernel drops signals to it; the calls that only ask for the same user id are in the
     * checks below. */
    {POLICY_ALLOW,
     "fork vfork execve execveat exit exit_group wait4 waitid set_tid_address set_robust_list "
     "get_robust_list rseq futex futex_waitv futex_wake futex_wait futex_requeue prctl arch_prctl "
     "ptrace process_vm_readv process_vm_writev pidfd_open pidfd_send_signal restart_syscall"},
    {POLICY_ALLOW,
     "kill tkill tgkill pause sigaltstack rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending "
     "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend"},
    {POLICY_ALLOW,
     "getpid gettid getppid getpgid getpgrp setpgid getsid setsid getrlimit setrlimit "
     "getrusage times sysinfo uname getcpu getrandom getpriority ioprio_get"},
    {POLICY_ALLOW, "sched_yield sched_getparam sched_getscheduler sched_get_priority_max "
                   "sched_get_priority_min sched_rr_get_interval sched_getaffinity sched_getattr"},

    /* Identity: one user is mapped and there is no capability, so these change nothing; but
       programs call them. */
    {POLICY_ALLOW,
     "getuid geteuid getgid getegid getresuid getresgid getgroups setgroups setfsuid setfsgid "
     "capget capset"},

    /* A program may tie its own hands further. */
    {POLICY_ALLOW, "seccomp landlock_create_ruleset landlock_add_rule"},

    /* Time, to read and to wait for. */
    {POLICY_ALLOW, "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time alarm "
                   "getitimer setitimer "
                   "timer_create timer_settime timer_gettime timer_getoverrun timer_delete"},

    /* Sockets; which kinds, see the checks. The network namespace says what they reach. */
    {POLICY_ALLOW,
     "bind connect listen accept accept4 getsockname getpeername shutdown sendto recvfrom sendmsg "
     "recvmsg sendmmsg recvmmsg getsockopt"},

    /* SysV and POSIX IPC, within the box's own ipc namespace (databases). */
    {POLICY_ALLOW,
     "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open "
     "mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"},

    /* Mounts and roots: with a nested user namespace these are the road to nearly every escape. */
    {POLICY_ERRNO(EPERM),
     "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount "
     "fspick mount_setattr unshare setns"},

    /* Files by handle go round all path checks; fanotify sees whole filesystems; a pidfd's
     * descriptors and kcmp see into processes in ways no debugger here needs. */
    {POLICY_ERRNO(EPERM),
     "open_by_handle_at name_to_handle_at fanotify_init fanotify_mark pidfd_getfd kcmp"},

    /* Programs inside the kernel, and tools of many an exploit: races made slow with userfaultfd,
     * memory hidden from the host, pages moved between nodes, descriptor tables written by hand. */
    {POLICY_ERRNO(EPERM),
     "bpf perf_event_open userfaultfd memfd_secret move_pages migrate_pages modify_ldt "
     "lookup_dcookie"},

    /* Keyrings are not per namespace: a box could find those of the person's session. */
    {POLICY_ERRNO(EPERM), "keyctl add_key request_key"},

    /* The machine itself. */
    {POLICY_ERRNO(EPERM),
     "reboot kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff acct "
     "quotactl quotactl_fd syslog iopl ioperm settimeofday clock_settime clock_adjtime adjtimex "
     "sethostname setdomainname vhangup nfsservctl uselib _sysctl ustat sysfs"},

    /* clone3 and io_uring take their arguments in memory, where no filter sees them: libc falls
     * back to clone, programs to epoll. The older asynchronous I/O draws on one count for the whole
     * machine (fs.aio-max-nr), which one box could use up for all. */
    {POLICY_ERRNO(ENOSYS),
     "clone3 io_uring_setup io_uring_enter io_uring_register io_setup io_destroy io_getevents "
     "io_pgetevents io_submit io_cancel"},
};
const size_t policy_n_groups = ARRAY_SIZE(policy_groups);

const struct policy_check policy_checks[] = {
    /* Processes and threads, yes; namespaces, no: within its own user namespace a process has every
       capability. */
    {"clone", POLICY_ALLOW, {{POLICY_ERRNO(EPERM), {IF_NOT(0, NEW_NAMESPACES, 0)}}}},

    /* The guest is process 1 and has the user id of the code that it watches: nobody may limit it,
     * make it wait for others or bind it to a busy processor. Of other processes a program may do
     * so (renice, taskset, chrt, prlimit), but not of all of the user's at once, of which process 1
     * is one. */
    {"prlimit64", POLICY_ALLOW, {IF_GUEST(0)}},
    {"sched_setparam", POLICY_ALLOW, {IF_GUEST(0)}},
    {"sched_setscheduler", POLICY_ALLOW, {IF_GUEST(0)}},
    {"sched_setattr", POLICY_ALLOW, {IF_GUEST(0)}},
    {"sched_setaffinity", POLICY_ALLOW, {IF_GUEST(0)}},
    {"setpriority",
     POLICY_ALLOW,
     {{POLICY_ERRNO(EPERM), {IF(0, WHOLE, PRIO_PROCESS), IF(1, WHOLE, GUEST_PID)}},
      {POLICY_ERRNO(EPERM), {IF(0, WHOLE, PRIO_PROCESS), IF(1, WHOLE, GUEST_TID)}},
      {POLICY_ERRNO(EPERM), {IF(0, WHOLE, PRIO_USER)}}}},
    {"ioprio_set",
     POLICY_ALLOW,
     {{POLICY_ERRNO(EPERM), {IF(0, WHOLE, IOPRIO_WHO_PROCESS), IF(1, WHOLE, GUEST_PID)}},
      {POLICY_ERRNO(EPERM), {IF(0, WHOLE, IOPRIO_WHO_PROCESS), IF(1, WHOLE, GUEST_TID)}},
      {POLICY_ERRNO(EPERM), {IF(0, WHOLE, IOPRIO_WHO_USER)}}}},

    /* The kernel answers EINVAL to an id that the user namespace does not map. Programs that were
     * written for an ordinary user expect EPERM, and many go on after it (tar, cp -p, install,
     * servers). */
    {"chown", POLICY_ALLOW, {IF_FOREIGN_ID(1), IF_FOREIGN_ID(2)}},
    {"fchown", POLICY_ALLOW, {IF_FOREIGN_ID(1), IF_FOREIGN_ID(2)}},
    {"lchown", POLICY_ALLOW, {IF_FOREIGN_ID(1), IF_FOREIGN_ID(2)}},
    {"fchownat", POLICY_ALLOW, {IF_FOREIGN_ID(2), IF_FOREIGN_ID(3)}},
    {"setuid", POLICY_ALLOW, {IF_FOREIGN_ID(0)}},
    {"setgid", POLICY_ALLOW, {IF_FOREIGN_ID(0)}},
    {"setreuid", POLICY_ALLOW, {IF_FOREIGN_ID(0), IF_FOREIGN_ID(1)}},
    {"setregid", POLICY_ALLOW, {IF_FOREIGN_ID(0), IF_FOREIGN_ID(1)}},
    {"setresuid", POLICY_ALLOW, {IF_FOREIGN_ID(0), IF_FOREIGN_ID(1), IF_FOREIGN_ID(2)}},
    {"setresgid", POLICY_ALLOW, {IF_FOREIGN_ID(0), IF_FOREIGN_ID(1), IF_FOREIGN_ID(2)}},

    /* Asking, the ordinary one, and fixed addresses, which gdb sets for the program that it starts.
     * Others bring back old behaviour that weakens a program: readable means executable, page zero
     * mapped. */
    {"personality",
     POLICY_ERRNO(EPERM),
     {{POLICY_ALLOW, {IF(0, WHOLE, 0)}},
      {POLICY_ALLOW, {IF(0, WHOLE, WHOLE)}},
      {POLICY_ALLOW, {IF(0, WHOLE, ADDR_NO_RANDOMIZE)}}}},

    /* The person's own terminal may be the box's stdin: nothing may type into it (TIOCSTI), paste
     * into it (TIOCLINUX), or change the keyboard and screens of a console (0x4b.., 0x56..).
     * TIOCSETD loads line disciplines, the source of many a hole. */
    {"ioctl",
     POLICY_ALLOW,
     {{POLICY_ERRNO(EPERM), {IF(1, WHOLE, TIOCSTI)}},
      {POLICY_ERRNO(EPERM), {IF(1, WHOLE, TIOCLINUX)}},
      {POLICY_ERRNO(EPERM), {IF(1, WHOLE, TIOCSETD)}},
      {POLICY_ERRNO(EPERM), {IF(1, 0xffffff00u, 0x4b00)}},
      {POLICY_ERRNO(EPERM), {IF(1, 0xffffff00u, 0x5600)}}}},

    /* Local sockets of any type, TCP and UDP, and the routing netlink (getifaddrs needs it). Each
     * other family or protocol is a large piece of kernel, often loaded as a module at the first
     * call: packet, vsock, alg, bluetooth, xdp, SCTP, MPTCP… The answers are those of a kernel
     * without them. */
    {"socket",
     POLICY_ALLOW,
     {{POLICY_ALLOW, {IF(0, WHOLE, AF_UNIX)}},
      {POLICY_ALLOW, {IF(0, WHOLE, AF_NETLINK), IF(2, WHOLE, NETLINK_ROUTE)}},
      {POLICY_ERRNO(EAFNOSUPPORT), {IF_NOT(0, WHOLE, AF_INET), IF_NOT(0, WHOLE, AF_INET6)}},
      {POLICY_ERRNO(EPERM),
       {IF_NOT(1, SOCKET_TYPE, SOCK_STREAM), IF_NOT(1, SOCKET_TYPE, SOCK_DGRAM)}},
      {POLICY_ERRNO(EPROTONOSUPPORT),
       {IF_NOT(2, WHOLE, 0), IF_NOT(2, WHOLE, IPPROTO_TCP), IF_NOT(2, WHOLE, IPPROTO_UDP)}}}},
    {"socketpair", POLICY_ALLOW, {{POLICY_ERRNO(EAFNOSUPPORT), {IF_NOT(0, WHOLE, AF_UNIX)}}}},

    /* Upper-layer protocols (TLS in the kernel and such) can be put on any TCP socket without a
       privilege. */
    {"setsockopt",
     POLICY_ALLOW,
     {{POLICY_ERRNO(ENOPROTOOPT), {IF(1, WHOLE, IPPROTO_TCP), IF(2, WHOLE, TCP_ULP)}}}},

    /* FIFOs, sockets and plain files. Devices need a capability, but for one: the character device
     * 0:0, which to an overlay means "deleted", anybody may make. A rename can leave one behind as
     * well. */
    {"mknod",
     POLICY_ALLOW,
     {{POLICY_ERRNO(EPERM), {IF(1, S_IFMT, S_IFCHR)}},
      {POLICY_ERRNO(EPERM), {IF(1, S_IFMT, S_IFBLK)}}}},
    {"mknodat",
     POLICY_ALLOW,
     {{POLICY_ERRNO(EPERM), {IF(2, S_IFMT, S_IFCHR)}},
      {POLICY_ERRNO(EPERM), {IF(2, S_IFMT, S_IFBLK)}}}},

    /* An overlay refuses to rename a folder of a lower layer (EXDEV), which the guest then does
     * piece by piece. What the guest itself renames is marked in an argument that the call does not
     * have; who else sets it gains the kernel's own answer. Domains that programs make with
     * Landlock bind themselves and not the guest: it must know of the first one. */
    {"rename", POLICY_NOTIFY, .unheard = POLICY_ALLOW},
    {"renameat", POLICY_NOTIFY, .unheard = POLICY_ALLOW},
    {"renameat2",
     POLICY_NOTIFY,
     {{POLICY_ERRNO(EPERM), {IF_NOT(4, RENAME_WHITEOUT, 0)}},
      {POLICY_ALLOW, {IF(5, WHOLE, SYS_RENAME_MARK)}}},
     .unheard = POLICY_ALLOW},
    {"landlock_restrict_self", POLICY_NOTIFY, .unheard = POLICY_ALLOW},

    /* A set-user-id program in a folder that the host sees too would run as the person for whoever
     * starts it there: the guest sets the mode without the bit. A file made with the bit by open()
     * loses it at the first write. Set-group-id stays: on folders it is what shared repositories
     * are made of, and the filter cannot tell folders from files. */
    {"chmod", POLICY_ALLOW, {{POLICY_NOTIFY, {IF_NOT(1, S_ISUID, 0)}}}, POLICY_ERRNO(EPERM)},
    {"fchmod", POLICY_ALLOW, {{POLICY_NOTIFY, {IF_NOT(1, S_ISUID, 0)}}}, POLICY_ERRNO(EPERM)},
    {"fchmodat", POLICY_ALLOW, {{POLICY_NOTIFY, {IF_NOT(2, S_ISUID, 0)}}}, POLICY_ERRNO(EPERM)},
    {"fchmodat2", POLICY_ALLOW, {{POLICY_NOTIFY, {IF_NOT(2, S_ISUID, 0)}}}, POLICY_ERRNO(EPERM)},
};
const size_t policy_n_checks = ARRAY_SIZE(policy_checks);

/*
 * A diff worker runs no code of the agent's. It copies the box's layers, and a deleted file is
 * copied by making the device that means "deleted"; any other device would need a capability that
 * it does not have.
 */
const struct policy_check policy_diff_worker_checks[] = {
    {"mknodat", POLICY_ALLOW, {{POLICY_ERRNO(EPERM), {IF(2, S_IFMT, S_IFBLK)}}}},
};
const size_t policy_n_diff_worker_checks = ARRAY_SIZE(policy_diff_worker_checks);

const struct policy_number policy_numbers[] = {
    {"fchmodat2", 452},     {"map_shadow_stack", 453}, {"futex_wake", 454},
    {"futex_wait", 455},    {"futex_requeue", 456},    {"mseal", 462},
    {"setxattrat", 463},    {"getxattrat", 464},       {"listxattrat", 465},
    {"removexattrat", 466}, {"open_tree_attr", 467},
};
const size_t policy_n_numbers = ARRAY_SIZE(policy_numbers);
