/* Applying changes to a folder, against a scribe of the test's own making that may also lie. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "apply.h"
#include "changes.h"
#include "clock.h"

struct told {
    const char *path;
    enum wire_change kind;
    mode_t mode;
    const char *content; /* or a link's target */
    size_t gone;
};

enum lie { NO_LIE, LIE_SHORT, LIE_LONG, LIE_SIZE, LIE_ENDS, LIE_ERROR, LIE_BAD_FRAME, LIE_OFFSET };

/* The folder, what the scribe says, and what came of it. */
struct scene {
    char top[32];
    int folder;
    int64_t since;
    struct apply_memory *memory;
    const struct told *told;
    size_t n_told;
    enum lie lie;
    bool cut;
    char said[4096];
    struct error err;
};

static struct scene scene;

static void put_entry(struct buf *b, const struct told *t)
{
    size_t begin = wire_begin(b, WIRE_ENTRY);
    wire_put_str(b, WIRE_K_PATH, t->path);
    wire_put_u64(b, WIRE_K_KIND, t->kind);
    wire_put_u64(b, WIRE_K_MODE, t->mode);
    wire_put_u64(b, WIRE_K_SIZE, t->content ? strlen(t->content) : 0);
    if (S_ISLNK(t->mode) && t->content)
        wire_put_str(b, WIRE_K_TARGET, t->content);
    if (t->gone)
        wire_put_u64(b, WIRE_K_COUNT, t->gone);
    wire_end(b, begin);
}

static void put_list(struct buf *b)
{
    for (size_t i = 0; i < scene.n_told; i++)
        put_entry(b, &scene.told[i]);
    size_t begin = wire_begin(b, WIRE_RESULT);
    if (scene.cut)
        wire_put_u64(b, WIRE_K_TOO_MANY, 1);
    wire_end(b, begin);
}

static void put_data(struct buf *b, const char *content, size_t n)
{
    size_t begin = wire_begin(b, WIRE_DATA);
    if (scene.lie == LIE_OFFSET)
        wire_put_u64(b, WIRE_K_OFFSET, UINT64_MAX - 1);
    wire_put(b, WIRE_K_DATA, content, n);
    wire_end(b, begin);
}

static void put_file(struct buf *b, const char *path)
{
    const char *content = "";
    for (size_t i = 0; i < scene.n_told; i++)
        if (strcmp(scene.told[i].path, path) == 0 && scene.told[i].content)
            content = scene.told[i].content;
    size_t n = strlen(content);
    put_data(b, content, scene.lie == LIE_SHORT ? n - 1 : n);
    if (scene.lie == LIE_LONG)
        put_data(b, "more", 4);
    if (scene.lie == LIE_ENDS)
        return;
    size_t begin = wire_begin(b, scene.lie == LIE_ERROR ? WIRE_ERROR : WIRE_RESULT);
    wire_put_u64(b, WIRE_K_SIZE, scene.lie == LIE_SIZE ? n + 1 : n);
    wire_end(b, begin);
    if (scene.lie == LIE_BAD_FRAME)
        b->data[6] = 1;
}

static void answer(int conn)
{
    struct wire_reader in = WIRE_READER_INIT(conn);
    struct buf out = BUF_INIT(1 << 20);
    struct wire_frame f;
    if (wire_read(&in, &f) != 1)
        return;
    if (f.type == WIRE_CHANGES)
        put_list(&out);
    else
        put_file(&out, wire_find_str(&f, WIRE_K_PATH));
    wire_send(conn, &out, NULL, 0);
}

static int connect_fake(void *data, int *ret_fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    if (fork() == 0) {
        close(pair[0]);
        answer(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    *ret_fd = pair[0];
    return 0;
}

/* "path: outcome" for each, in the order it was said. */
static void say(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    static const char *const NAMES[] = {"done", "same", "conflict", "refused"};
    assert_true((outcome == APPLY_CONFLICT || outcome == APPLY_REFUSED) == (why != NULL));
    size_t used = strlen(scene.said);
    snprintf(scene.said + used, sizeof scene.said - used, "%s%s: %s", used ? ", " : "", path, NAMES[outcome]);
}

static int apply(const struct told *told, size_t n)
{
    const struct apply_report report = {say, NULL};
    scene.told = told;
    scene.n_told = n;
    scene.said[0] = 0;
    int r = apply_changes(scene.folder, scene.since, scene.memory, connect_fake, NULL, &report, &scene.err);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    return r;
}

#define APPLY(...)                                                                                           \
    apply((const struct told[]){__VA_ARGS__},                                                                \
          sizeof((const struct told[]){__VA_ARGS__}) / sizeof(struct told))

static void write_file(const char *path, const char *text)
{
    int fd = openat(scene.folder, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static const char *read_file(const char *path)
{
    static char text[256];
    int fd = openat(scene.folder, path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0)
        return strerror(errno);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return fstatat(scene.folder, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

/* From here on, what is written counts as the person's doing. Clocks of filesystems are coarse. */
static void box_begins(void)
{
    struct timespec now;
    usleep(20000);
    clock_gettime(CLOCK_REALTIME, &now);
    scene.since = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
    usleep(20000);
}

static int set_up(void **state)
{
    scene = (struct scene){.top = "/tmp/hutch-test-XXXXXX"};
    if (!mkdtemp(scene.top))
        return -1;
    scene.folder = open(scene.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scene.memory = apply_memory_new();
    umask(022);
    write_file("mod", "old");
    write_file("gone", "old");
    mkdirat(scene.folder, "d", 0755);
    mkdirat(scene.folder, "d/e", 0755);
    write_file("d/e/x", "old");
    write_file("d/y", "old");
    box_begins();
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

/* No temporary file may ever be left, whatever went wrong. */
static int check_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return strstr(path, ".hutch-") != NULL;
}

static int tear_down(void **state)
{
    int left = nftw(scene.top, check_one, 16, FTW_PHYS);
    nftw(scene.top, remove_one, 16, FTW_PHYS | FTW_DEPTH);
    close(scene.folder);
    apply_memory_free(scene.memory);
    return left;
}

#define FILE_644 (S_IFREG | 0644)

static void test_all_kinds(void **state)
{
    assert_int_equal(
        APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "new"}, {"gone", WIRE_DELETED, FILE_644, "old"},
              {"n/e/w", WIRE_ADDED, S_IFREG | 04600, "added"}, {"l", WIRE_ADDED, S_IFLNK | 0777, "/etc"},
              {"empty", WIRE_ADDED, S_IFDIR | 0700, NULL}, {"zero", WIRE_ADDED, FILE_644, ""}),
        0);
    assert_string_equal(scene.said, "mod: done, n/e/w: done, l: done, empty: done, zero: done, gone: done");
    assert_string_equal(read_file("mod"), "new");
    assert_int_equal(mode_of("mod"), S_IFREG | 0755);
    assert_string_equal(read_file("n/e/w"), "added");
    assert_int_equal(mode_of("n/e/w"), S_IFREG | 0600);
    assert_int_equal(mode_of("n/e"), S_IFDIR | 0755);
    assert_int_equal(mode_of("empty"), S_IFDIR | 0700);
    assert_int_equal(mode_of("gone"), 0);
    char target[16];
    assert_int_equal(readlinkat(scene.folder, "l", target, sizeof target), 4);
}

static void test_deleted_folders(void **state)
{
    assert_int_equal(APPLY({"d/e/x", WIRE_DELETED, FILE_644, "old", 1}), 0);
    assert_int_equal(mode_of("d/e"), 0);
    assert_int_equal(mode_of("d"), S_IFDIR | 0755);
    assert_int_equal(APPLY({"d/y", WIRE_DELETED, FILE_644, "old", 0}), 0);
    assert_int_equal(mode_of("d"), S_IFDIR | 0755);
    assert_int_equal(
        APPLY({"d", WIRE_DELETED, S_IFDIR | 0755, NULL, 0}, {"none", WIRE_DELETED, S_IFDIR, NULL, 9}), 0);
    assert_string_equal(scene.said, "none: same, d: done");
    assert_int_equal(mode_of("d"), 0);
}

static void test_conflicts(void **state)
{
    write_file("mod", "the person's");
    write_file("gone", "the person's");
    write_file("new", "the person's");
    unlinkat(scene.folder, "d/y", 0);
    assert_int_equal(APPLY({"d/y", WIRE_MODIFIED, FILE_644, "box"}, {"gone", WIRE_DELETED, FILE_644, "old"},
                           {"mod", WIRE_MODIFIED, FILE_644, "box"}, {"new", WIRE_ADDED, FILE_644, "box"},
                           {"x/y", WIRE_MODIFIED, FILE_644, "box"}),
                     5);
    assert_string_equal(scene.said,
                        "d/y: conflict, mod: conflict, new: conflict, x/y: conflict, gone: conflict");
    assert_string_equal(read_file("mod"), "the person's");
    assert_string_equal(read_file("gone"), "the person's");
    assert_string_equal(read_file("new"), "the person's");
    assert_int_equal(mode_of("d/y"), 0);
    assert_int_equal(mode_of("x"), 0);
}

static void test_same_is_no_conflict(void **state)
{
    write_file("mod", "box");
    write_file("new", "box");
    unlinkat(scene.folder, "gone", 0);
    assert_int_equal(symlinkat("t", scene.folder, "l"), 0);
    assert_int_equal(APPLY({"gone", WIRE_DELETED, FILE_644, "old"}, {"l", WIRE_ADDED, S_IFLNK | 0777, "t"},
                           {"mod", WIRE_MODIFIED, FILE_644, "box"}, {"new", WIRE_ADDED, FILE_644, "box"}),
                     0);
    assert_string_equal(scene.said, "l: same, mod: same, new: same, gone: same");
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "box"}), 0);
}

static void test_same_content_other_mode(void **state)
{
    write_file("mod", "box");
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "box"}), 1);
}

static void test_applied_twice(void **state)
{
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "one"}, {"new", WIRE_ADDED, FILE_644, "one"}), 0);
    usleep(20000);
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "two"}, {"new", WIRE_MODIFIED, FILE_644, "two"}),
                     0);
    assert_string_equal(read_file("mod"), "two");
    usleep(20000);
    write_file("mod", "the person's");
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "three"}, {"new", WIRE_DELETED, FILE_644, "two"}),
                     1);
    assert_string_equal(read_file("mod"), "the person's");
    assert_int_equal(mode_of("new"), 0);
}

static void test_other_names_of_a_file(void **state)
{
    assert_int_equal(linkat(scene.folder, "mod", scene.folder, "mod2", 0), 0);
    assert_int_equal(linkat(scene.folder, "gone", scene.folder, "gone2", 0), 0);
    box_begins();
    assert_int_equal(APPLY({"gone", WIRE_DELETED, FILE_644, "old"}, {"gone2", WIRE_DELETED, FILE_644, "old"},
                           {"mod", WIRE_MODIFIED, FILE_644, "a"}, {"mod2", WIRE_MODIFIED, FILE_644, "b"}),
                     0);
    assert_string_equal(read_file("mod"), "a");
    assert_string_equal(read_file("mod2"), "b");
}

static void test_types_trade_places(void **state)
{
    assert_int_equal(APPLY({"d", WIRE_ADDED, FILE_644, "file"}, {"d/e/x", WIRE_DELETED, FILE_644, "old", 2},
                           {"d/y", WIRE_DELETED, FILE_644, "old", 1}, {"gone", WIRE_DELETED, FILE_644, "old"},
                           {"gone", WIRE_ADDED, S_IFDIR | 0755, NULL}, {"mod", WIRE_DELETED, FILE_644, "old"},
                           {"mod/a/b", WIRE_ADDED, FILE_644, "deep"}),
                     0);
    assert_string_equal(read_file("d"), "file");
    assert_int_equal(mode_of("gone"), S_IFDIR | 0755);
    assert_string_equal(read_file("mod/a/b"), "deep");
}

static void test_folder_kept_by_the_person(void **state)
{
    write_file("d/mine", "the person's");
    assert_int_equal(APPLY({"d", WIRE_ADDED, FILE_644, "file"}, {"d/e/x", WIRE_DELETED, FILE_644, "old", 2},
                           {"d/y", WIRE_DELETED, FILE_644, "old", 1}),
                     1);
    assert_string_equal(read_file("d/mine"), "the person's");
}

static void test_never_through_a_link(void **state)
{
    assert_int_equal(mkdirat(scene.folder, "outside", 0755), 0);
    write_file("outside/x", "safe");
    assert_int_equal(symlinkat("outside", scene.folder, "link"), 0);
    box_begins();
    assert_int_equal(APPLY({"link/n", WIRE_ADDED, FILE_644, "bad"}, {"link/s/n", WIRE_ADDED, FILE_644, "bad"},
                           {"link/x", WIRE_MODIFIED, FILE_644, "bad"}),
                     3);
    assert_int_equal(APPLY({"link/x", WIRE_DELETED, FILE_644, "safe", 1}), 0);
    assert_string_equal(read_file("outside/x"), "safe");
    assert_int_equal(mode_of("outside/n") | mode_of("outside/s"), 0);
    assert_true(S_ISLNK(mode_of("link")));
    assert_int_equal(APPLY({"link", WIRE_MODIFIED, FILE_644, "file now"}), 0);
    assert_string_equal(read_file("link"), "file now");
}

static void test_refused(void **state)
{
    assert_int_equal(
        APPLY({".git/hooks/pre-commit", WIRE_ADDED, S_IFREG | 0755, "bad"},
              {"sub/.GIT /config", WIRE_ADDED, FILE_644, "bad"}, {"fifo", WIRE_ADDED, S_IFIFO | 0644, NULL},
              {"sock", WIRE_ADDED, S_IFSOCK | 0644, NULL}, {"dev", WIRE_ADDED, S_IFCHR | 0644, NULL}),
        5);
    assert_int_equal(mode_of(".git") | mode_of("sub") | mode_of("fifo") | mode_of("sock") | mode_of("dev"),
                     0);
}

static void test_lies(void **state)
{
    for (enum lie lie = LIE_SHORT; lie <= LIE_OFFSET; lie++) {
        scene.lie = lie;
        assert_true(APPLY({"mod", WIRE_MODIFIED, FILE_644, "new"}) < 0);
        assert_non_null(strstr(scene.err.text, "cannot apply mod"));
        assert_string_equal(read_file("mod"), "old");
    }
}

static void test_bad_paths(void **state)
{
    static const char *const BAD[] = {"../x", "/tmp/x", "a/../b", "", "a//b", "."};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_int_equal(APPLY({BAD[i], WIRE_ADDED, FILE_644, "bad"}), -EPROTO);
    assert_int_equal(APPLY({"x", (enum wire_change)7, FILE_644, "bad"}), -EPROTO);
    assert_int_equal(APPLY({"l", WIRE_ADDED, S_IFLNK | 0777, NULL}), -EPROTO);
    scene.cut = true;
    assert_int_equal(APPLY({"x", WIRE_ADDED, FILE_644, "cut"}), -E2BIG);
    assert_int_equal(mode_of("x"), 0);
}

/* Longer than the kernel takes at once. */
static void test_long_path(void **state)
{
    char path[8192] = "";
    for (int i = 0; i < 60; i++)
        snprintf(path + strlen(path), sizeof path - strlen(path), "%s%0100d", i ? "/" : "", i);
    assert_int_equal(APPLY({path, WIRE_ADDED, FILE_644, "deep"}), 0);
    assert_int_equal(APPLY({path, WIRE_ADDED, FILE_644, "deep"}), 0);
    assert_int_equal(APPLY({path, WIRE_DELETED, FILE_644, "deep", 59}), 0);
    path[100] = 0;
    assert_int_equal(mode_of(path), 0);
}

static void test_owner(void **state)
{
    if (geteuid() != 0)
        skip();
    struct stat st;
    assert_int_equal(fchown(scene.folder, 1234, 1235), 0);
    assert_int_equal(fchownat(scene.folder, "mod", 77, 78, 0), 0);
    box_begins();
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "x"}, {"n/new", WIRE_ADDED, FILE_644, "x"},
                           {"l", WIRE_ADDED, S_IFLNK | 0777, "t"}),
                     0);
    assert_int_equal(fstatat(scene.folder, "mod", &st, 0), 0);
    assert_true(st.st_uid == 77 && st.st_gid == 78);
    static const char *const NEW[] = {"n", "n/new", "l"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fstatat(scene.folder, NEW[i], &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(st.st_uid == 1234 && st.st_gid == 1235);
    }
}

static void test_list(void **state)
{
    static const struct told TOLD[] = {{"a", WIRE_ADDED, FILE_644, "12"}, {"b", WIRE_DELETED, FILE_644, ""}};
    struct box_changes list;
    int fd;
    scene.told = TOLD;
    scene.n_told = 2;
    assert_int_equal(connect_fake(NULL, &fd), 0);
    assert_int_equal(changes_read(fd, &list, &scene.err), 0);
    close(fd);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].path, "a");
    assert_int_equal(list.items[0].size, 2);
    assert_int_equal(list.items[1].kind, WIRE_DELETED);
    box_changes_free(&list);
    scene.cut = true;
    assert_int_equal(connect_fake(NULL, &fd), 0);
    assert_int_equal(changes_read(fd, &list, &scene.err), 0);
    close(fd);
    box_changes_free(&list);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deleted_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_conflicts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_is_no_conflict, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_content_other_mode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_applied_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_names_of_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_types_trade_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folder_kept_by_the_person, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_never_through_a_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
