/*
 * The filter, twice: asked about every number by a small interpreter and compared with the policy,
 * which shows that generate.c lost nothing; and installed in a child, which shows that the kernel
 * takes it so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <linux/audit.h>
#include <linux/falloc.h>
#include <linux/netlink.h>

#include "cleanup.h"
#include "confine.h"
#include "policy.h"
#include "sys.h"

#define X32_BIT    0x40000000
#define HIGH_BITS  0xdeadbeef00000000ull
#define NUMBER_END 1200

static uint32_t native(void)
{
    return seccomp_arch_native();
}

/* Only what generate.c emits; anything else fails the test. */
static uint32_t run_program(const struct sock_filter *program, size_t len,
                            const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t pc = 0; pc < len; pc++) {
        const struct sock_filter *i = &program[pc];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&a, (const char *)data + i->k, sizeof a);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            fail_msg("instruction %zu has code %#x", pc, i->code);
        }
    }
    fail_msg("the filter has no end");
    return 0;
}

static uint32_t run_filter(const struct seccomp_data *data)
{
    return run_program(seccomp_filter, seccomp_filter_len, data);
}

static int number_of(const char *name)
{
    int number = seccomp_syscall_resolve_name_arch(native(), name);
    if (number != __NR_SCMP_ERROR)
        return number;
    for (size_t i = 0; i < policy_n_numbers; i++)
        if (strcmp(policy_numbers[i].name, name) == 0)
            return policy_numbers[i].number;
    fail_msg("unknown name %s", name);
    return -1;
}

static uint32_t ask(int number, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct seccomp_data data = {.nr = number, .arch = native(), .args = {a0, a1, a2}};
    return run_filter(&data);
}

/* Fills what the groups say by number; a checked call gets 0, which is no action. */
static void expect_all(uint32_t *expected)
{
    for (size_t i = 0; i < NUMBER_END; i++)
        expected[i] = POLICY_DEFAULT;
    for (size_t i = 0; i < policy_n_groups; i++) {
        char name[64];
        int used;
        for (const char *p = policy_groups[i].names; sscanf(p, "%63s%n", name, &used) == 1;
             p += used)
            if (number_of(name) >= 0)
                expected[number_of(name)] = policy_groups[i].action;
    }
    for (size_t i = 0; i < policy_n_checks; i++)
        if (number_of(policy_checks[i].name) >= 0)
            expected[number_of(policy_checks[i].name)] = 0;
}

static void test_every_number(void **state)
{
    static uint32_t expected[NUMBER_END];
    expect_all(expected);
    for (int number = 0; number < NUMBER_END; number++)
        if (expected[number] && ask(number, ~0ull, ~0ull, ~0ull) != expected[number])
            fail_msg("number %d: %#x, expected %#x", number, ask(number, ~0ull, ~0ull, ~0ull),
                     expected[number]);
}

static void test_other_entries_are_closed(void **state)
{
    for (int number = 0; number < NUMBER_END; number++) {
        struct seccomp_data i386 = {.nr = number, .arch = AUDIT_ARCH_I386};
        assert_int_equal(run_filter(&i386), POLICY_DEFAULT);
        assert_int_equal(ask(number | X32_BIT, 0, 0, 0), POLICY_DEFAULT);
    }
    assert_int_equal(ask(-1, 0, 0, 0), POLICY_DEFAULT);
}

static bool test_holds(const struct policy_test *t, const uint64_t *args)
{
    return (((uint32_t)args[t->arg] & t->mask) == t->value) != t->negate;
}

static uint32_t policy_says(const struct policy_check *check, const uint64_t *args)
{
    for (size_t c = 0; c < POLICY_CASES_MAX && check->cases[c].tests[0].mask; c++) {
        bool all = true;
        for (size_t t = 0; t < POLICY_TESTS_MAX && check->cases[c].tests[t].mask; t++)
            all = all && test_holds(&check->cases[c].tests[t], args);
        if (all)
            return check->cases[c].action;
    }
    return check->otherwise;
}

/* Every value a check speaks of, and some it does not, in all arguments that are tested, with and
 * without high bits. */
static void test_every_check(void **state)
{
    /* clang-format off */
    static const uint32_t values[] = {
        0, 1, 2, 3, 4, 5, 6, 10, 16, 17, 31, 40, 58, 132, 262,
        0x5412, 0x541c, 0x5423, 0x5413, 0x4b46, 0x5600, 0x4800,
        02000, 04000, 04755, 1000, 0x40000, 0x1000, 0x2000, 0x6000, 0x61ff, 0x8000,
        CLONE_NEWUSER, CLONE_NEWNET | SIGCHLD, CLONE_VM | CLONE_THREAD, 0x80001, 0xffffffff,
    };
    /* clang-format on */

    for (size_t i = 0; i < policy_n_checks; i++) {
        int number = number_of(policy_checks[i].name);
        if (number < 0)
            continue;
        for (size_t a = 0; a < ARRAY_SIZE(values); a++)
            for (size_t b = 0; b < ARRAY_SIZE(values); b++)
                for (size_t c = 0; c < ARRAY_SIZE(values); c++) {
                    struct seccomp_data data = {.nr = number, .arch = native()};
                    uint64_t high = (a + b + c) % 2 ? HIGH_BITS : 0;
                    data.args[0] = values[a] | high;
                    data.args[1] = values[b] | high;
                    data.args[2] = data.args[4] = values[c] | high;
                    uint64_t args[6];
                    memcpy(args, data.args, sizeof args);
                    assert_int_equal(run_filter(&data), policy_says(&policy_checks[i], args));
                }
    }
}

static uint32_t ask_unheard(const char *name, uint64_t a1, uint64_t a2, uint64_t a5)
{
    struct seccomp_data data = {
        .nr = number_of(name), .arch = native(), .args = {0, a1, a2, 0, 0, a5}};
    return run_program(seccomp_unheard_filter, seccomp_unheard_filter_len, &data);
}

/* Nobody would answer, and the kernel would say ENOSYS. */
static void test_without_a_listener_the_filter_decides(void **state)
{
    static const struct sock_filter *const programs[] = {seccomp_unheard_filter,
                                                         seccomp_diff_worker_filter};
    const size_t lens[] = {seccomp_unheard_filter_len, seccomp_diff_worker_filter_len};
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
        for (size_t pc = 0; pc < lens[i]; pc++)
            assert_false(programs[i][pc].code == (BPF_RET | BPF_K) &&
                         programs[i][pc].k == POLICY_NOTIFY);
    assert_int_equal(ask_unheard("renameat", 0, 0, 0), POLICY_ALLOW);
    assert_int_equal(ask_unheard("renameat2", 0, 0, 0), POLICY_ALLOW);
    assert_int_equal(ask_unheard("fchmod", 04755, 0, 0), POLICY_ERRNO(EPERM));
    assert_int_equal(ask_unheard("fchmodat", 0, 04755, 0), POLICY_ERRNO(EPERM));
    assert_int_equal(ask_unheard("landlock_restrict_self", 0, 0, 0), POLICY_ALLOW);
}

/* The guest must not wait for itself. */
static void test_what_the_guest_renames_is_not_asked_about(void **state)
{
    struct seccomp_data data = {.nr = number_of("renameat2"), .arch = native()};
    assert_int_equal(run_filter(&data), POLICY_NOTIFY);
    data.args[5] = SYS_RENAME_MARK;
    assert_int_equal(run_filter(&data), POLICY_ALLOW);
    data.args[4] = RENAME_WHITEOUT;
    assert_int_equal(run_filter(&data), POLICY_ERRNO(EPERM));
}

static uint32_t ask_allocation(const char *name, uint64_t arg1)
{
    struct seccomp_data data = {.nr = number_of(name), .arch = native(), .args = {[1] = arg1}};
    return run_program(seccomp_allocation_filter, seccomp_allocation_filter_len, &data);
}

static void test_reserving_space_is_refused_and_freeing_it_is_not(void **state)
{
    const uint32_t refused = POLICY_ERRNO(EOPNOTSUPP);
    assert_int_equal(ask_allocation("fallocate", 0), refused);
    assert_int_equal(ask_allocation("fallocate", HIGH_BITS), refused);
    assert_int_equal(ask_allocation("fallocate", FALLOC_FL_KEEP_SIZE), refused);
    assert_int_equal(ask_allocation("fallocate", FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE),
                     refused);
    assert_int_equal(ask_allocation("fallocate", FALLOC_FL_UNSHARE_RANGE), refused);
    assert_int_equal(ask_allocation("fallocate", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE),
                     POLICY_ALLOW);
    assert_int_equal(ask_allocation("fallocate", FALLOC_FL_COLLAPSE_RANGE), POLICY_ALLOW);
    assert_int_equal(ask_allocation("fallocate", FALLOC_FL_INSERT_RANGE), POLICY_ALLOW);
    assert_int_equal(ask_allocation("ioctl", 0x40305828), refused); /* FS_IOC_RESVSP */
    assert_int_equal(ask_allocation("ioctl", HIGH_BITS | 0x4030582a),
                     refused);                                      /* FS_IOC_RESVSP64 */
    assert_int_equal(ask_allocation("ioctl", 0x40305839), refused); /* FS_IOC_ZERO_RANGE */
    assert_int_equal(ask_allocation("ioctl", FIONREAD), POLICY_ALLOW);
    assert_int_equal(ask_allocation("write", 0), POLICY_ALLOW);
}

/* Runs f in a child under the filter; it returns 0, or the number of the line that failed. */
static void in_child(int (*f)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        int nobody;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            seccomp_install(SECCOMP_ALONE, &nobody) < 0)
            _exit(255);
        int line = f();
        if (line) {
            dprintf(STDERR_FILENO, "line %d: %s\n", line, strerror(errno));
            _exit(1);
        }
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define WORKS(call)                                                                                \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((call) < 0)                                                                            \
            return __LINE__;                                                                       \
    } while (0)
#define FAILS(error, call)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((call) >= 0 || errno != (error))                                                       \
            return __LINE__;                                                                       \
    } while (0)

static int allowed_calls(void)
{
    int pair[2], status;

    WORKS(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    WORKS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    WORKS(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP));
    WORKS(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    WORKS(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    WORKS(eventfd(0, EFD_CLOEXEC));
    WORKS(syscall(SYS_memfd_create, "name", 0));
    WORKS(open("/dev/null", O_RDWR));
    WORKS(personality(0xffffffff));
    WORKS(personality(ADDR_NO_RANDOMIZE));
    WORKS(syscall(SYS_setresuid, -1, -1, -1));
    FAILS(ENOENT, chown("/nothing/x", 1000, 1000));
    WORKS(syscall(SYS_pidfd_open, getpid(), 0));
    WORKS(syscall(SYS_close_range, 100, 200, 0));

    pid_t pid = fork();
    WORKS(pid);
    if (pid == 0)
        _exit(7);
    WORKS(waitpid(pid, &status, 0));
    return WEXITSTATUS(status) == 7 ? 0 : __LINE__;
}

static int denied_calls(void)
{
    int pair[2];

    FAILS(EPERM, syscall(SYS_mount, "none", "/", NULL, 0, NULL));
    FAILS(EPERM, syscall(SYS_umount2, "/nothing", 0));
    FAILS(EPERM, syscall(SYS_unshare, CLONE_NEWUSER));
    FAILS(EPERM, syscall(SYS_setns, -1, 0));
    FAILS(EPERM, syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    FAILS(EPERM, syscall(SYS_clone, HIGH_BITS | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0));
    FAILS(ENOSYS, syscall(SYS_clone3, NULL, 0));
    FAILS(ENOSYS, syscall(SYS_io_uring_setup, 1, NULL));
    FAILS(EPERM, syscall(SYS_bpf, 0, NULL, 0));
    FAILS(EPERM, syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0));
    FAILS(EPERM, syscall(SYS_userfaultfd, 0));
    FAILS(EPERM, syscall(SYS_keyctl, 0, 0, 0, 0, 0));
    FAILS(EPERM, syscall(SYS_open_by_handle_at, -1, NULL, 0));
    FAILS(EPERM, syscall(SYS_pidfd_getfd, -1, 0, 0));
    FAILS(EPERM, personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC));
    FAILS(EPERM, syscall(SYS_personality, HIGH_BITS | READ_IMPLIES_EXEC));
    FAILS(EPERM, syscall(SYS_ioctl, 0, TIOCSTI, "x"));
    FAILS(EPERM, syscall(SYS_ioctl, 0, HIGH_BITS | TIOCSTI, "x"));
    FAILS(EPERM, syscall(SYS_ioctl, 0, HIGH_BITS | TIOCLINUX, "x"));
    FAILS(EAFNOSUPPORT, socket(AF_PACKET, SOCK_RAW, 0));
    FAILS(EAFNOSUPPORT, socket(AF_VSOCK, SOCK_STREAM, 0));
    FAILS(EAFNOSUPPORT, socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
    FAILS(EPERM, socket(AF_INET, SOCK_RAW, IPPROTO_TCP));
    FAILS(EPROTONOSUPPORT, socket(AF_INET, SOCK_STREAM, 262));
    FAILS(EAFNOSUPPORT, socketpair(AF_INET, SOCK_STREAM, 0, pair));
    FAILS(EPERM, mknodat(AT_FDCWD, "/nothing/x", S_IFCHR | 0600, 0));
    FAILS(EPERM, fchmodat(AT_FDCWD, "/nothing/x", 04755, 0));
    FAILS(EPERM, chown("/nothing/x", 0, -1));
    FAILS(EPERM, lchown("/nothing/x", 1000, 7));
    FAILS(EPERM, fchownat(AT_FDCWD, "/nothing/x", 7, 1000, 0));
    FAILS(EPERM, fchown(0, -1, 0));
    FAILS(EPERM, syscall(SYS_setuid, 0));
    FAILS(EPERM, syscall(SYS_setresgid, -1, 1000, 7));
    FAILS(ENOSYS, syscall(999));
    return 0;
}

#ifdef __x86_64__
static long int80(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

/* getpid is as closed as mount: nothing at all goes through the other entries. */
static int other_entries(void)
{
    static const int i386[] = {20 /* getpid */,
                               21 /* mount */,
                               61 /* chroot */,
                               120 /* clone */,
                               310 /* unshare */,
                               346 /* setns */,
                               357 /* bpf */,
                               336 /* perf_event_open */,
                               425 /* io_uring_setup */};
    static const int x64[] = {SYS_getpid, SYS_mount,  SYS_clone, SYS_unshare, SYS_bpf,
                              SYS_ioctl,  SYS_keyctl, 512,       547};

    for (size_t i = 0; i < ARRAY_SIZE(i386); i++)
        if (int80(i386[i], 0, 0, 0) != -ENOSYS)
            return __LINE__;
    for (size_t i = 0; i < ARRAY_SIZE(x64); i++)
        FAILS(ENOSYS, syscall(x64[i] | X32_BIT, 0, 0, 0));
    return 0;
}
#endif

static void test_allowed(void **state)
{
    in_child(allowed_calls);
}

static void test_denied(void **state)
{
    in_child(denied_calls);
}

#ifdef __x86_64__
static void test_other_entries(void **state)
{
    in_child(other_entries);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number),
        cmocka_unit_test(test_other_entries_are_closed),
        cmocka_unit_test(test_every_check),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_denied),
        cmocka_unit_test(test_without_a_listener_the_filter_decides),
        cmocka_unit_test(test_what_the_guest_renames_is_not_asked_about),
        cmocka_unit_test(test_reserving_space_is_refused_and_freeing_it_is_not),
#ifdef __x86_64__
        cmocka_unit_test(test_other_entries),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
