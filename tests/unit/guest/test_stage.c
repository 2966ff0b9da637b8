/* STAGE, served as a worker serves it, in a folder that hostile hands prepared. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "diff/content.h"
#include "file.h"
#include "wire.h"

static char root[64];

/* The request and its files, and what came of it. */
struct staging {
    struct buf sent;
    struct buf told; /* "M a/b\n", sorted by nobody */
    uint64_t count;
    int code;
};

static void begin(struct staging *s, const char *const *own, const char *clear)
{
    *s = (struct staging){.sent = BUF_INIT(1u << 20), .told = BUF_INIT(1u << 20)};
    size_t at = wire_begin(&s->sent, WIRE_STAGE);
    wire_put_str(&s->sent, WIRE_K_NAME, root);
    for (; own && *own; own++)
        wire_put_str(&s->sent, WIRE_K_OWN, *own);
    if (clear)
        wire_put_str(&s->sent, WIRE_K_CLEAR, clear);
    wire_end(&s->sent, at);
}

static void put(struct staging *s, const char *path, mode_t mode, const char *content)
{
    size_t at = wire_begin(&s->sent, WIRE_ENTRY);
    wire_put_str(&s->sent, WIRE_K_PATH, path);
    wire_put_u64(&s->sent, WIRE_K_MODE, mode);
    wire_put_u64(&s->sent, WIRE_K_SIZE, strlen(content));
    wire_put_str(&s->sent, WIRE_K_DATA, content);
    wire_end(&s->sent, at);
}

static void put_end(struct staging *s)
{
    size_t at = wire_begin(&s->sent, WIRE_ENTRY);
    wire_put_u64(&s->sent, WIRE_K_EOF, 1);
    wire_end(&s->sent, at);
}

static void take(struct staging *s, const struct wire_frame *f)
{
    if (f->type == WIRE_ENTRY) {
        _cleanup_free_ char *path = wire_find_str(f, WIRE_K_PATH);
        buf_printf(&s->told, "%c %s%s\n", " AMD"[wire_find_u64(f, WIRE_K_KIND, 0)], path,
                   wire_find_u64(f, WIRE_K_MODE, 0) ? "/" : "");
    } else if (f->type == WIRE_RESULT) {
        s->count = wire_find_u64(f, WIRE_K_COUNT, 99);
    } else {
        s->code = (int)wire_find_u64(f, WIRE_K_CODE, 0);
    }
}

/* Serves it, and takes the answer. */
static void serve(struct staging *s)
{
    int ends[2];
    struct wire_frame f;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int)), 0);
    assert_int_equal(wire_send(ends[0], &s->sent, NULL, 0), 0);
    shutdown(ends[0], SHUT_WR);
    struct wire_reader in = WIRE_READER_INIT(ends[1]), out = WIRE_READER_INIT(ends[0]);
    pid_t pid = fork();
    if (pid == 0) { /* a worker ends right after, and gives nothing back */
        if (wire_read(&in, &f) == 1)
            file_answer(&in, &f, stage_serve);
        _exit(0);
    }
    close(ends[1]);
    while (wire_read(&out, &f) > 0)
        take(s, &f);
    close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    wire_reader_free(&out);
    buf_free(&s->sent);
}

static void expect_told(struct staging *s, const char *want)
{
    assert_int_equal(s->code, 0);
    assert_string_equal(s->told.len ? buf_cstr(&s->told) : "", want);
    buf_free(&s->told);
}

static char *in_root(const char *path)
{
    static char full[4][512];
    static unsigned n;
    char *at = full[n++ % 4];
    snprintf(at, sizeof full[0], "%s/%s", root, path);
    return at;
}

static void write_file(const char *path, const char *content, mode_t mode)
{
    FILE *f = fopen(in_root(path), "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
    assert_int_equal(chmod(in_root(path), mode), 0);
}

static void expect_file(const char *path, const char *content, mode_t mode)
{
    char there[256] = "";
    struct stat st;
    assert_int_equal(lstat(in_root(path), &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | mode);
    FILE *f = fopen(in_root(path), "r");
    assert_non_null(f);
    fread(there, 1, sizeof there - 1, f);
    fclose(f);
    assert_string_equal(there, content);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(in_root(path), &st) == 0;
}

static const char *const OWN[] = {"tests", "setup.cfg", NULL};

/* The two files of all tests here. */
static void stage_tests(struct staging *s, const char *clear)
{
    begin(s, OWN, clear);
    put(s, "tests/a.py", 0644, "one\n");
    put(s, "tests/sub/b.sh", 0755, "two\n");
    put_end(s);
    serve(s);
}

static void expect_staged(void)
{
    expect_file("tests/a.py", "one\n", 0644);
    expect_file("tests/sub/b.sh", "two\n", 0755);
}

static int set_up(void **state)
{
    snprintf(root, sizeof root, "/tmp/hutch-stage-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    empty_dir(dir);
    close(dir);
    return rmdir(root);
}

static void test_writes_what_is_missing(void **state)
{
    struct staging s;
    stage_tests(&s, NULL);
    expect_told(&s, "D tests/a.py\nD tests/sub/b.sh\n");
    expect_staged();
}

static void test_leaves_alone_what_is_the_same(void **state)
{
    struct staging s;
    struct stat before, after;
    stage_tests(&s, NULL);
    buf_free(&s.told);
    assert_int_equal(stat(in_root("tests/a.py"), &before), 0);
    stage_tests(&s, NULL);
    expect_told(&s, "");
    assert_int_equal(s.count, 0);
    assert_int_equal(stat(in_root("tests/a.py"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void test_puts_back_and_sweeps(void **state)
{
    struct staging s;
    stage_tests(&s, NULL);
    buf_free(&s.told);
    write_file("tests/a.py", "ONE\n", 0644);
    assert_int_equal(chmod(in_root("tests/sub/b.sh"), 0644), 0);
    write_file("tests/conftest.py", "", 0644);
    write_file("setup.cfg", "", 0644);
    write_file("other", "mine", 0644);
    stage_tests(&s, NULL);
    expect_told(&s, "M tests/a.py\nM tests/sub/b.sh\nA tests/conftest.py\nA setup.cfg\n");
    expect_staged();
    assert_false(exists("tests/conftest.py"));
    assert_true(exists("other"));
}

static void test_another_name_of_a_file_does_not_reach_it(void **state)
{
    struct staging s;
    stage_tests(&s, NULL);
    buf_free(&s.told);
    assert_int_equal(link(in_root("tests/a.py"), in_root("also")), 0);
    stage_tests(&s, NULL);
    expect_told(&s, "");
    write_file("also", "evil\n", 0644);
    expect_staged();
}

static void test_nothing_is_followed(void **state)
{
    struct staging s;
    assert_int_equal(mkdir(in_root("elsewhere"), 0755), 0);
    write_file("elsewhere/a.py", "theirs", 0644);
    assert_int_equal(symlink("elsewhere", in_root("tests")), 0);
    stage_tests(&s, NULL);
    expect_told(&s, "M tests\nD tests/a.py\nD tests/sub/b.sh\n");
    expect_staged();
    expect_file("elsewhere/a.py", "theirs", 0644);
    assert_int_equal(unlink(in_root("tests/a.py")), 0);
    assert_int_equal(symlink("/etc/passwd", in_root("tests/a.py")), 0);
    stage_tests(&s, NULL);
    expect_told(&s, "M tests/a.py\n");
    expect_staged();
}

static void test_whatever_is_in_the_way(void **state)
{
    struct staging s;
    write_file("tests", "a file", 0644);
    stage_tests(&s, NULL);
    expect_told(&s, "M tests\nD tests/a.py\nD tests/sub/b.sh\n");
    assert_int_equal(unlink(in_root("tests/a.py")), 0);
    assert_int_equal(mkfifo(in_root("tests/a.py"), 0644), 0);
    assert_int_equal(unlink(in_root("tests/sub/b.sh")), 0);
    assert_int_equal(mkdir(in_root("tests/sub/b.sh"), 0755), 0);
    write_file("tests/sub/b.sh/x", "", 0644);
    assert_int_equal(mkfifo(in_root("tests/pipe"), 0644), 0);
    stage_tests(&s, NULL);
    expect_told(&s, "M tests/a.py\nM tests/sub/b.sh\nA tests/pipe\n");
    expect_staged();
}

static void test_what_may_not_be_entered(void **state)
{
    struct staging s;
    stage_tests(&s, NULL);
    buf_free(&s.told);
    assert_int_equal(mkdir(in_root("tests/x"), 0755), 0);
    assert_int_equal(mkdir(in_root("tests/x/y"), 0755), 0);
    write_file("tests/x/y/z", "", 0);
    assert_int_equal(chmod(in_root("tests/x/y"), 0), 0);
    assert_int_equal(chmod(in_root("tests/x"), 0), 0);
    assert_int_equal(chmod(in_root("tests/sub"), 0), 0);
    assert_int_equal(chmod(in_root("tests"), 0), 0);
    stage_tests(&s, NULL);
    expect_told(&s, "A tests/x/\n");
    expect_staged();
}

static void test_clears(void **state)
{
    struct staging s;
    char path[128];
    assert_int_equal(mkdir(in_root("logs"), 0755), 0);
    write_file("logs/reward.txt", "1", 0644);
    snprintf(path, sizeof path, "%s/logs/", root);
    stage_tests(&s, path);
    buf_free(&s.told);
    assert_true(exists("logs"));
    assert_false(exists("logs/reward.txt"));
    assert_int_equal(rmdir(in_root("logs")), 0);
    assert_int_equal(symlink("/tmp", in_root("logs")), 0);
    snprintf(path, sizeof path, "%s/logs/hutch-no-such-file", root);
    stage_tests(&s, path);
    buf_free(&s.told);
    assert_false(exists("logs"));
}

static void test_links_are_made_as_links(void **state)
{
    struct staging s;
    for (int i = 0; i < 2; i++) {
        char target[32] = "";
        begin(&s, OWN, NULL);
        put(&s, "tests/l", S_IFLNK | 0777, "../src");
        put_end(&s);
        serve(&s);
        expect_told(&s, i ? "" : "D tests/l\n");
        assert_int_equal(readlink(in_root("tests/l"), target, sizeof target), 6);
        assert_string_equal(target, "../src");
    }
}

static void expect_refused(struct staging *s, int code)
{
    serve(s);
    assert_int_equal(s->code, code);
    buf_free(&s->told);
}

static void test_refuses_what_is_no_path(void **state)
{
    static const char *const BAD[] = {"../x", NULL};
    struct staging s;
    begin(&s, OWN, NULL);
    put(&s, "tests/../../x", 0644, "");
    expect_refused(&s, EINVAL);
    begin(&s, OWN, NULL);
    put(&s, "/etc/x", 0644, "");
    expect_refused(&s, EINVAL);
    begin(&s, BAD, NULL);
    expect_refused(&s, EINVAL);
    begin(&s, OWN, "relative");
    expect_refused(&s, EINVAL);
    begin(&s, OWN, "/tmp/../etc");
    expect_refused(&s, EINVAL);
    begin(&s, OWN, NULL);
    put(&s, "b", 0644, "");
    put(&s, "a", 0644, "");
    expect_refused(&s, EINVAL);
    begin(&s, OWN, NULL); /* it breaks off */
    expect_refused(&s, EPROTO);
}

/* Content that comes in pieces, and differs late. */
static void put_large(struct staging *s, size_t size, char last)
{
    char *content = malloc(size);
    memset(content, 'x', size);
    content[size - 1] = last;
    size_t at = wire_begin(&s->sent, WIRE_ENTRY);
    wire_put_str(&s->sent, WIRE_K_PATH, "tests/large");
    wire_put_u64(&s->sent, WIRE_K_SIZE, size);
    wire_put(&s->sent, WIRE_K_DATA, content, 1000);
    wire_end(&s->sent, at);
    for (size_t done = 1000; done < size;) {
        size_t piece = size - done < 60000 ? size - done : 60000;
        at = wire_begin(&s->sent, WIRE_DATA);
        wire_put(&s->sent, WIRE_K_DATA, content + done, piece);
        wire_end(&s->sent, at);
        done += piece;
    }
    put_end(s);
    free(content);
}

static void test_a_large_file_that_differs_late(void **state)
{
    static const char *const TOLD[] = {"D tests/large\n", "", "M tests/large\n"};
    struct staging s;
    struct stat st;
    for (int i = 0; i < 3; i++) {
        begin(&s, OWN, NULL);
        put_large(&s, 100000, i < 2 ? 'y' : 'z');
        serve(&s);
        expect_told(&s, TOLD[i]);
        assert_int_equal(stat(in_root("tests/large"), &st), 0);
        assert_int_equal(st.st_size, 100000);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    umask(022);
    const struct CMUnitTest tests[] = {
        TEST(test_writes_what_is_missing),
        TEST(test_leaves_alone_what_is_the_same),
        TEST(test_puts_back_and_sweeps),
        TEST(test_another_name_of_a_file_does_not_reach_it),
        TEST(test_nothing_is_followed),
        TEST(test_whatever_is_in_the_way),
        TEST(test_what_may_not_be_entered),
        TEST(test_clears),
        TEST(test_links_are_made_as_links),
        TEST(test_refuses_what_is_no_path),
        TEST(test_a_large_file_that_differs_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
