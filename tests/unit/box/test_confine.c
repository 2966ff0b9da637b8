/* Rules applied in a child, and what it may then do. Skipped where the kernel has no Landlock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cleanup.h"
#include "confine.h"

#define ABI_TRUNCATE 3
#define ABI_SCOPES   6

/* A folder with a writable and a closed one in it, and a listening abstract socket outside of the
 * child. */
struct place {
    char dir[64];
    struct sockaddr_un outside;
    socklen_t outside_len;
    int abi;
};

static int make_place(void **state)
{
    static struct place p;
    snprintf(p.dir, sizeof p.dir, "/tmp/test-landlock.XXXXXX");
    if (!mkdtemp(p.dir) || chdir(p.dir) < 0 || mkdir("open", 0700) < 0 ||
        mkdir("open/sub", 0700) < 0 || mkdir("closed", 0700) < 0)
        return -1;
    int fd = open("closed/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || close(fd) < 0)
        return -1;
    p.abi = landlock_abi();
    p.outside.sun_family = AF_UNIX;
    int n = snprintf(p.outside.sun_path + 1, sizeof p.outside.sun_path - 1, "test-landlock-%d",
                     getpid());
    p.outside_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    *state = &p;
    return 0;
}

static int remove_place(void **state)
{
    struct place *p = *state;
    static const char *const files[] = {"open/sub/file", "open/fifo", "open/file", "closed/file"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        unlink(files[i]);
    return rmdir("open/sub") || rmdir("open") || rmdir("closed") || chdir("/") || rmdir(p->dir);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)
#define REFUSED(call) CHECK((call) < 0 && (errno == EACCES || errno == EPERM || errno == EXDEV))

static int try_files(const struct place *p)
{
    struct stat st;

    CHECK(open("/usr", O_RDONLY | O_DIRECTORY) >= 0);
    CHECK(open("/etc/passwd", O_RDONLY) >= 0);
    CHECK(stat("closed/file", &st) == 0);
    REFUSED(open("closed/file", O_WRONLY));
    REFUSED(open("closed/new", O_CREAT | O_WRONLY, 0600));
    REFUSED(unlink("closed/file"));
    REFUSED(mkdir("closed/dir", 0700));
    CHECK(open("open/file", O_CREAT | O_RDWR, 0600) >= 0);
    CHECK(mkfifo("open/fifo", 0600) == 0);
    REFUSED(mknod("open/null", S_IFCHR | 0600, 0));
    REFUSED(rename("open/file", "closed/file2"));
    CHECK(rename("open/file", "open/sub/file") == 0);
    if (p->abi >= ABI_TRUNCATE)
        REFUSED(truncate("closed/file", 0));
    CHECK(open("/dev/null", O_RDWR | O_TRUNC | O_CREAT, 0666) >= 0);
    return 0;
}

static int try_outside(const struct place *p)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(kill(getpid(), 0) == 0);
    if (p->abi < ABI_SCOPES)
        return 0;
    REFUSED(kill(getppid(), 0));
    REFUSED(connect(fd, (const struct sockaddr *)&p->outside, p->outside_len));
    return 0;
}

static void in_child(const struct place *p, int (*f)(const struct place *))
{
    const struct landlock_rule rules[] = {{"/", LANDLOCK_READ},
                                          {"open", LANDLOCK_WRITE},
                                          {"/dev", LANDLOCK_DEVICES},
                                          {"/etc/passwd", LANDLOCK_WRITE}};
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            confine_landlock(rules, ARRAY_SIZE(rules), 0) != p->abi)
            _exit(255);
        int line = f(p);
        if (line)
            dprintf(STDERR_FILENO, "line %d: %s\n", line, strerror(errno));
        _exit(line != 0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_files(void **state)
{
    const struct place *p = *state;
    if (p->abi < LANDLOCK_OLDEST)
        skip();
    in_child(p, try_files);
}

static void test_outside(void **state)
{
    const struct place *p = *state;
    if (p->abi < LANDLOCK_OLDEST)
        skip();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&p->outside, p->outside_len), 0);
    assert_int_equal(listen(fd, 4), 0);
    in_child(p, try_outside);
    close(fd);
}

static void test_missing_path_is_an_error(void **state)
{
    const struct place *p = *state;
    if (p->abi < LANDLOCK_OLDEST)
        skip();
    const struct landlock_rule rules[] = {{"/", LANDLOCK_READ}, {"no/such", LANDLOCK_WRITE}};
    assert_int_equal(confine_landlock(rules, ARRAY_SIZE(rules), 0), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_missing_path_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
