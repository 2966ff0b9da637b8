/*
 * A second backend, to show that src/box needs nothing of ns: it runs hutch-guest as a child
 * process that sees the host's programs and one folder as its workspace. It isolates nothing; it
 * has a pid and a mount namespace because the guest insists on being process 1 and works in
 * /workspace.
 *
 * It has what every backend must have, and none of the optional members.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend.h"
#include "box_internal.h"
#include "sys.h"
#include "warm.h"

struct plain {
    struct machine base;
    struct guest guest;
};

static const struct backend PLAIN;

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        _exit(1);
    close(fd);
}

/* In the child: a tree of mounts that has what programs need, then the guest. */
_Noreturn static void plain_become_guest(const char *workspace, int program, int control, uid_t uid,
                                         gid_t gid)
{
    static const char *const SHOWN[] = {"/usr", "/dev", "/proc"};
    static const char *const LINKS[] = {"bin", "lib", "lib64", "sbin"};
    char root[] = "/tmp", path[64], map[64];
    int folder = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (uid != 0) {
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "%u %u 1", uid, uid);
        write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "%u %u 1", gid, gid);
        write_file("/proc/self/gid_map", map);
    }
    if (folder < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", root, "tmpfs", 0, "mode=0755") < 0)
        _exit(2);
    for (size_t i = 0; i < ARRAY_SIZE(SHOWN); i++) {
        snprintf(path, sizeof path, "%s%s", root, SHOWN[i]);
        if (mkdir(path, 0755) < 0 || mount(SHOWN[i], path, NULL, MS_BIND | MS_REC, NULL) < 0)
            _exit(3);
    }
    for (size_t i = 0; i < ARRAY_SIZE(LINKS); i++) {
        char target[64];
        snprintf(path, sizeof path, "%s/%s", root, LINKS[i]);
        snprintf(target, sizeof target, "usr/%s", LINKS[i]);
        if (symlink(target, path) < 0)
            _exit(4);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", folder);
    if (mkdir("/tmp/workspace", 0755) < 0 || mkdir("/tmp/tmp", 01777) < 0 ||
        mount(path, "/tmp/workspace", NULL, MS_BIND, NULL) < 0 || chroot(root) < 0 ||
        chdir("/workspace") < 0)
        _exit(5);
    char *argv[] = {(char *)"hutch-guest", NULL}, *env[] = {NULL};
    if (control == 3 ? fcntl(control, F_SETFD, 0) < 0 : dup2(control, 3) < 0)
        _exit(6);
    syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
    _exit(7);
}

static int plain_open(const struct box_options *o, struct machine **ret, struct error *err)
{
    struct plain *p = calloc(1, sizeof *p);
    _cleanup_fd_ int program = open(BUILD_FOLDER "/hutch-guest", O_PATH | O_CLOEXEC);
    _cleanup_fd_ int theirs = -1;
    assert_non_null(p);
    p->base = (struct machine){.backend = &PLAIN, .refs = 1};
    p->guest = GUEST_NONE;
    if (program < 0 || guest_control(&p->guest, &theirs) < 0) {
        free(p);
        return error_errno(err, errno, "cannot start hutch-guest");
    }
    uid_t uid = getuid();
    gid_t gid = getgid();
    long flags = CLONE_NEWPID | CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0) | SIGCHLD;
    pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    if (pid == 0)
        plain_become_guest(o->workspace, program, theirs, uid, gid);
    p->guest.pid = pid;
    p->guest.pidfd = pid > 0 ? sys_pidfd_open(pid, 0) : -1;
    *ret = &p->base;
    return 0;
}

static int plain_wait(struct machine *m, struct error *err)
{
    return ((struct plain *)m)->guest.pid > 0 ? 0 : error_set(err, EAGAIN, "no process");
}

static int plain_connect(struct machine *m, struct buf *request, const int *fds, size_t n_fds,
                         int *ret_fd)
{
    return guest_connect(&((struct plain *)m)->guest, request, fds, n_fds, ret_fd);
}

static void plain_kill(struct machine *m)
{
    guest_kill(&((struct plain *)m)->guest);
}

static void plain_close(struct machine *m)
{
    guest_end(&((struct plain *)m)->guest);
}

static void plain_free(struct machine *m)
{
    plain_close(m);
    free(m);
}

static void plain_status(struct machine *m, int wait_ms, struct machine_status *ret)
{
    guest_status(&((struct plain *)m)->guest, wait_ms, ret);
}

static const struct backend PLAIN = {.name = "plain",
                                     .open = plain_open,
                                     .wait = plain_wait,
                                     .connect = plain_connect,
                                     .kill = plain_kill,
                                     .close = plain_close,
                                     .free = plain_free,
                                     .status = plain_status};

struct fixture {
    char folder[32];
    struct box *box;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct box_options o;
    struct error err = {0};
    box_options_default(&o);
    o.backend = &PLAIN;
    strcpy(f->folder, "/var/tmp/plain.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    o.workspace = f->folder;
    if (box_open(&o, &f->box, &err) < 0)
        fail_msg("%s", err.text);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char path[64];
    box_close(f->box);
    snprintf(path, sizeof path, "%s/file", f->folder);
    unlink(path);
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

static int sh(struct box *b, const char *script, struct box_result *ret, struct error *err)
{
    char shell[] = "/bin/sh", option[] = "-c", words[256];
    char *const argv[] = {shell, option, words, NULL};
    snprintf(words, sizeof words, "%s", script);
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = -1};
    *ret = (struct box_result){0};
    *err = (struct error){0};
    return box_exec(b, &c, ret, err);
}

static void test_runs_commands(void **state)
{
    struct fixture *f = *state;
    struct box_result r;
    struct error err;
    assert_int_equal(sh(f->box, "pwd; echo no >&2; exit 3", &r, &err), 0);
    assert_int_equal(r.exit_code, 3);
    assert_int_equal(r.out.head.len, 11);
    assert_memory_equal(r.out.head.data, "/workspace\n", 11);
    assert_memory_equal(r.err.head.data, "no\n", 3);
    box_result_free(&r);
    assert_int_equal(box_check(f->box, &err), 0);
    assert_true(box_pid(f->box) > 0);
}

/* A request to the guest and its answer; `data` is sent behind it. */
static void ask(struct box *b, struct buf *request, const char *data, struct buf *answer)
{
    struct error err = {0};
    int fd = -1;
    if (box_connect(b, request, &fd, &err) < 0)
        fail_msg("%s", err.text);
    if (data) {
        size_t begin = wire_begin(request, WIRE_DATA);
        wire_put(request, WIRE_K_DATA, data, strlen(data));
        wire_put_u64(request, WIRE_K_EOF, 1);
        wire_end(request, begin);
        assert_int_equal(wire_send(fd, request, NULL, 0), 0);
    }
    struct wire_reader in = WIRE_READER_INIT(fd);
    struct wire_frame frame;
    struct wire_field field;
    while (wire_read(&in, &frame) == 1 && frame.type == WIRE_DATA)
        if (wire_find(&frame, WIRE_K_DATA, &field))
            buf_append(answer, field.data, field.size);
    assert_int_equal(frame.type, WIRE_RESULT);
    wire_reader_free(&in);
    close(fd);
}

static void test_writes_and_reads_files_by_request(void **state)
{
    struct fixture *f = *state;
    _cleanup_buf_ struct buf request = BUF_INIT(1000), answer = BUF_INIT(1000);
    size_t begin = wire_begin(&request, WIRE_WRITE);
    wire_put_str(&request, WIRE_K_PATH, "file");
    wire_end(&request, begin);
    ask(f->box, &request, "content", &answer);
    begin = wire_begin(&request, WIRE_READ);
    wire_put_str(&request, WIRE_K_PATH, "file");
    wire_end(&request, begin);
    ask(f->box, &request, NULL, &answer);
    assert_int_equal(answer.len, 7);
    assert_memory_equal(answer.data, "content", 7);
}

static void test_says_what_the_backend_cannot_do(void **state)
{
    struct fixture *f = *state;
    struct error err = {0};
    struct snapshot *s = NULL;
    struct box_changes changes;
    struct box_options o;
    assert_int_equal(box_snapshot(f->box, &s, &err), -EOPNOTSUPP);
    assert_string_equal(err.text, "the backend plain cannot take snapshots");
    assert_int_equal(box_changes(f->box, &changes, &err), -EOPNOTSUPP);
    assert_string_equal(err.text, "the backend plain cannot show what a box changed");
    box_options_default(&o);
    assert_int_equal(box_adjust(f->box, &o, BOX_SET_MEMORY, &err), -EOPNOTSUPP);
    assert_string_equal(err.text, "the backend plain cannot change the limits of a box");
    struct box_result r;
    assert_int_equal(sh(f->box, "true", &r, &err), 0); /* and goes on */
    box_result_free(&r);
}

static void test_forks_need_a_backend_that_forks(void **state)
{
    struct fixture *f = *state;
    struct error err = {0};
    struct snapshot *s = NULL;
    struct box *fork = NULL;
    struct warm *w = NULL;
    assert_int_equal(box_template(f->box, &s, &err), 0);
    assert_int_equal(box_fork(s, &fork, &err), -EOPNOTSUPP);
    assert_string_equal(err.text, "the backend plain cannot fork a box");
    assert_int_equal(
        warm_open(&(struct warm_options){.family = s, .program = "", .cancel = -1}, &w, &err),
        -EOPNOTSUPP);
    assert_string_equal(err.text, "the backend plain cannot have warm processes");
    snapshot_free(s);
}

static void test_limits_without_counters(void **state)
{
    struct fixture *f = *state;
    struct box_result r;
    struct error err;
    char sleep[] = "/bin/sleep", seconds[] = "60";
    char *const argv[] = {sleep, seconds, NULL};
    struct box_command c = {.argv = argv,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .capture = true,
                            .cancel = -1,
                            .timeout_ns = 200000000};
    assert_int_equal(box_exec(f->box, &c, &r, &err), 0);
    assert_int_equal(r.limit, WIRE_LIMIT_TIMEOUT);
    assert_int_equal(r.exit_code, 124);
    box_result_free(&r);
}

static void test_a_killed_machine_is_a_box_that_ended(void **state)
{
    struct fixture *f = *state;
    struct box_result r;
    struct error err;
    f->box->machine->backend->kill(f->box->machine);
    assert_int_equal(sh(f->box, "true", &r, &err), -EPIPE);
    assert_string_equal(err.text, "the box has ended: something killed its process 1 (hutch-guest)"
                                  " with SIGKILL");
    assert_int_equal(box_check(f->box, &err), -EPIPE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_runs_commands),
        TEST(test_writes_and_reads_files_by_request),
        TEST(test_says_what_the_backend_cannot_do),
        TEST(test_forks_need_a_backend_that_forks),
        TEST(test_limits_without_counters),
        TEST(test_a_killed_machine_is_a_box_that_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
