/* Applying changes to a folder, against a diff worker of the test's own making that may also
 * lie. */
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
#include "relpath.h"

struct told {
    const char *path;
    enum wire_change kind;
    mode_t mode;
    const char *content; /* or a link's target */
    bool implied;        /* a folder that is not empty */
    uint64_t link;
};

enum lie { NO_LIE, LIE_SHORT, LIE_LONG, LIE_SIZE, LIE_ENDS, LIE_ERROR, LIE_BAD_FRAME, LIE_OFFSET };

/* The folder, what the diff worker says, and what came of it. */
struct scene {
    char top[32];
    int folder;
    struct seen *seen;
    struct applied_log *log;
    struct apply_options options;
    uint64_t bytes_max;
    struct box_edits edits;
    void (*meanwhile)(void); /* what the person does while a file's content is on its way */
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
    if (t->implied)
        wire_put_u64(b, WIRE_K_IMPLIED, 1);
    if (t->link)
        wire_put_u64(b, WIRE_K_LINK, t->link);
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
    if (f.type == WIRE_FETCH && scene.meanwhile)
        scene.meanwhile();
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
    static const char *const NAMES[] = {"done", "same", "merged", "conflict", "refused"};
    assert_true((outcome != APPLY_CONFLICT && outcome != APPLY_REFUSED) || why);
    size_t used = strlen(scene.said);
    snprintf(scene.said + used, sizeof scene.said - used, "%s%s: %s", used ? ", " : "", path,
             NAMES[outcome]);
}

static int apply(const struct told *told, size_t n)
{
    const struct apply_report report = {say, NULL};
    scene.told = told;
    scene.n_told = n;
    scene.said[0] = 0;
    struct apply ap = {.folder = scene.folder,
                       .seen = scene.seen,
                       .log = scene.log,
                       .options = &scene.options,
                       .report = &report,
                       .connect = connect_fake,
                       .bytes_max = scene.bytes_max,
                       .edits = scene.edits};
    int r = apply_changes(&ap, &scene.err);
    scene.edits = ap.edits;
    while (waitpid(-1, NULL, 0) > 0)
        ;
    return r;
}

#define APPLY(...)                                                                                 \
    apply((const struct told[]){__VA_ARGS__},                                                      \
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

/* The box touches every path that the folder has now: from here on, what is written is the person's
 * doing. */
static int see_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    struct identity id;
    struct seen_base *base = NULL;
    int dir = -1;
    const char *rel = path + strlen(scene.top) + (path[strlen(scene.top)] == '/');
    if (!*rel)
        return 0;
    assert_int_equal(beneath_open_parent(scene.folder, rel, &dir), 0);
    assert_int_equal(identity_get(dir, relpath_name(rel), &id), 0);
    if (S_ISREG(id.mode))
        assert_int_equal(seen_base_read(dir, relpath_name(rel), &id, SEEN_CONTENT_MAX, &base), 0);
    close(dir);
    return seen_set(scene.seen, rel, SEEN_KNOWN, &id, base, false);
}

static void box_begins(void)
{
    assert_int_equal(nftw(scene.top, see_one, 16, FTW_PHYS), 0);
    usleep(20000); /* clocks of filesystems are coarse */
}

static int set_up(void **state)
{
    scene = (struct scene){.top = "/tmp/hutch-test-XXXXXX"};
    if (!mkdtemp(scene.top))
        return -1;
    scene.folder = open(scene.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scene.seen = seen_new();
    scene.log = applied_log_new();
    scene.bytes_max = 1 << 20;
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
    seen_unref(scene.seen);
    applied_log_free(scene.log);
    box_edits_free(&scene.edits);
    return left;
}

#define FILE_644 (S_IFREG | 0644)

static void test_all_kinds(void **state)
{
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "new"},
                           {"gone", WIRE_DELETED, FILE_644, "old"},
                           {"n", WIRE_ADDED, S_IFDIR | 0511, NULL, true},
                           {"n/e", WIRE_ADDED, S_IFDIR | 0700, NULL, true},
                           {"n/e/w", WIRE_ADDED, S_IFREG | 04600, "added"},
                           {"l", WIRE_ADDED, S_IFLNK | 0777, "/etc"},
                           {"empty", WIRE_ADDED, S_IFDIR | 0700, NULL},
                           {"zero", WIRE_ADDED, FILE_644, ""}),
                     0);
    assert_string_equal(scene.said,
                        "mod: done, n/e/w: done, l: done, empty: done, zero: done, gone: done");
    assert_string_equal(read_file("mod"), "new");
    assert_int_equal(mode_of("mod"), S_IFREG | 0755);
    assert_string_equal(read_file("n/e/w"), "added");
    assert_int_equal(mode_of("n/e/w"), S_IFREG | 0600);
    assert_int_equal(mode_of("n"), S_IFDIR | 0511);
    assert_int_equal(mode_of("n/e"), S_IFDIR | 0700);
    assert_int_equal(fchmodat(scene.folder, "n", 0755, 0), 0);
    assert_int_equal(mode_of("empty"), S_IFDIR | 0700);
    assert_int_equal(mode_of("gone"), 0);
    char target[16];
    assert_int_equal(readlinkat(scene.folder, "l", target, sizeof target), 4);
}

static void test_deleted_folders(void **state)
{
    assert_int_equal(APPLY({"d/e", WIRE_DELETED, S_IFDIR | 0755, NULL, true},
                           {"d/e/x", WIRE_DELETED, FILE_644, "old"}),
                     0);
    assert_int_equal(mode_of("d/e"), 0);
    assert_int_equal(mode_of("d"), S_IFDIR | 0755);
    assert_int_equal(APPLY({"d/y", WIRE_DELETED, FILE_644, "old"}), 0);
    assert_int_equal(mode_of("d"), S_IFDIR | 0755);
    assert_int_equal(
        APPLY({"d", WIRE_DELETED, S_IFDIR | 0755, NULL}, {"none", WIRE_DELETED, S_IFDIR, NULL}), 0);
    assert_string_equal(scene.said, "none: same, d: done");
    assert_int_equal(mode_of("d"), 0);
}

static void test_conflicts(void **state)
{
    write_file("mod", "the person's");
    write_file("gone", "the person's");
    write_file("new", "the person's");
    unlinkat(scene.folder, "d/y", 0);
    assert_int_equal(
        APPLY({"d/y", WIRE_MODIFIED, FILE_644, "box"}, {"gone", WIRE_DELETED, FILE_644, "old"},
              {"mod", WIRE_MODIFIED, FILE_644, "box"}, {"new", WIRE_ADDED, FILE_644, "box"},
              {"x/y", WIRE_MODIFIED, FILE_644, "box"}),
        5);
    assert_string_equal(
        scene.said, "d/y: conflict, mod: conflict, new: conflict, x/y: conflict, gone: conflict");
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
    assert_int_equal(
        APPLY({"gone", WIRE_DELETED, FILE_644, "old"}, {"l", WIRE_ADDED, S_IFLNK | 0777, "t"},
              {"mod", WIRE_MODIFIED, FILE_644, "box"}, {"new", WIRE_ADDED, FILE_644, "box"}),
        0);
    assert_string_equal(scene.said, "l: same, mod: same, new: same, gone: same");
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "box"}), 0);
}

static void test_same_content_other_mode(void **state)
{
    write_file("mod", "box");
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "box"}), 0);
    assert_string_equal(scene.said, "mod: merged");
    assert_int_equal(mode_of("mod"), S_IFREG | 0755);
    assert_int_equal(fchmodat(scene.folder, "mod", 0700, 0), 0);
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0711, "box"}), 1);
}

static void test_applied_twice(void **state)
{
    assert_int_equal(
        APPLY({"mod", WIRE_MODIFIED, FILE_644, "one"}, {"new", WIRE_ADDED, FILE_644, "one"}), 0);
    usleep(20000);
    assert_int_equal(
        APPLY({"mod", WIRE_MODIFIED, FILE_644, "two"}, {"new", WIRE_MODIFIED, FILE_644, "two"}), 0);
    assert_string_equal(read_file("mod"), "two");
    usleep(20000);
    write_file("mod", "the person's");
    assert_int_equal(
        APPLY({"mod", WIRE_MODIFIED, FILE_644, "three"}, {"new", WIRE_DELETED, FILE_644, "two"}),
        1);
    assert_string_equal(read_file("mod"), "the person's");
    assert_int_equal(mode_of("new"), 0);
}

static void test_other_names_of_a_file(void **state)
{
    assert_int_equal(linkat(scene.folder, "mod", scene.folder, "mod2", 0), 0);
    assert_int_equal(linkat(scene.folder, "gone", scene.folder, "gone2", 0), 0);
    box_begins();
    assert_int_equal(
        APPLY({"gone", WIRE_DELETED, FILE_644, "old"}, {"gone2", WIRE_DELETED, FILE_644, "old"},
              {"mod", WIRE_MODIFIED, FILE_644, "a"}, {"mod2", WIRE_MODIFIED, FILE_644, "b"}),
        0);
    assert_string_equal(read_file("mod"), "a");
    assert_string_equal(read_file("mod2"), "b");
}

static void test_types_trade_places(void **state)
{
    assert_int_equal(
        APPLY({"d", WIRE_ADDED, FILE_644, "file"}, {"d", WIRE_DELETED, S_IFDIR | 0755, NULL, true},
              {"d/e", WIRE_DELETED, S_IFDIR | 0755, NULL, true},
              {"d/e/x", WIRE_DELETED, FILE_644, "old"}, {"d/y", WIRE_DELETED, FILE_644, "old"},
              {"gone", WIRE_DELETED, FILE_644, "old"}, {"gone", WIRE_ADDED, S_IFDIR | 0755, NULL},
              {"mod", WIRE_DELETED, FILE_644, "old"},
              {"mod", WIRE_ADDED, S_IFDIR | 0755, NULL, true},
              {"mod/a", WIRE_ADDED, S_IFDIR | 0755, NULL, true},
              {"mod/a/b", WIRE_ADDED, FILE_644, "deep"}),
        0);
    assert_string_equal(read_file("d"), "file");
    assert_int_equal(mode_of("gone"), S_IFDIR | 0755);
    assert_string_equal(read_file("mod/a/b"), "deep");
}

static void test_folder_kept_by_the_person(void **state)
{
    write_file("d/mine", "the person's");
    assert_int_equal(
        APPLY({"d", WIRE_ADDED, FILE_644, "file"}, {"d", WIRE_DELETED, S_IFDIR | 0755, NULL, true},
              {"d/e", WIRE_DELETED, S_IFDIR | 0755, NULL, true},
              {"d/e/x", WIRE_DELETED, FILE_644, "old"}, {"d/y", WIRE_DELETED, FILE_644, "old"}),
        1);
    assert_string_equal(read_file("d/mine"), "the person's");
}

static void test_never_through_a_link(void **state)
{
    assert_int_equal(mkdirat(scene.folder, "outside", 0755), 0);
    write_file("outside/x", "safe");
    assert_int_equal(symlinkat("outside", scene.folder, "link"), 0);
    box_begins();
    assert_int_equal(APPLY({"link/n", WIRE_ADDED, FILE_644, "bad"},
                           {"link/s/n", WIRE_ADDED, FILE_644, "bad"},
                           {"link/x", WIRE_MODIFIED, FILE_644, "bad"}),
                     3);
    assert_int_equal(APPLY({"link/x", WIRE_DELETED, FILE_644, "safe"}), 0);
    assert_string_equal(read_file("outside/x"), "safe");
    assert_int_equal(mode_of("outside/n") | mode_of("outside/s"), 0);
    assert_true(S_ISLNK(mode_of("link")));
    assert_int_equal(APPLY({"link", WIRE_MODIFIED, FILE_644, "file now"}), 0);
    assert_string_equal(read_file("link"), "file now");
}

static void test_refused(void **state)
{
    assert_int_equal(APPLY({".git/hooks/pre-commit", WIRE_ADDED, S_IFREG | 0755, "bad"},
                           {"sub/.GIT /config", WIRE_ADDED, FILE_644, "bad"},
                           {"fifo", WIRE_ADDED, S_IFIFO | 0644, NULL},
                           {"sock", WIRE_ADDED, S_IFSOCK | 0644, NULL},
                           {"dev", WIRE_ADDED, S_IFCHR | 0644, NULL}),
                     5);
    assert_int_equal(
        mode_of(".git") | mode_of("sub") | mode_of("fifo") | mode_of("sock") | mode_of("dev"), 0);
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
    scene.options.on_conflict = APPLY_THEIRS; /* makes the folders, too */
    assert_int_equal(APPLY({path, WIRE_ADDED, FILE_644, "deep"}), 0);
    assert_int_equal(APPLY({path, WIRE_ADDED, FILE_644, "deep"}), 0);
    assert_int_equal(APPLY({path, WIRE_DELETED, FILE_644, "deep"}), 0);
    assert_int_equal(applied_log_position(scene.log), 2);
}

static void test_owner(void **state)
{
    if (geteuid() != 0)
        skip();
    struct stat st;
    assert_int_equal(fchown(scene.folder, 1234, 1235), 0);
    assert_int_equal(fchownat(scene.folder, "mod", 77, 78, 0), 0);
    box_begins();
    assert_int_equal(
        APPLY({"mod", WIRE_MODIFIED, FILE_644, "x"}, {"n", WIRE_ADDED, S_IFDIR | 0755, NULL, true},
              {"n/new", WIRE_ADDED, FILE_644, "x"}, {"l", WIRE_ADDED, S_IFLNK | 0777, "t"}),
        0);
    assert_int_equal(fstatat(scene.folder, "mod", &st, 0), 0);
    assert_true(st.st_uid == 77 && st.st_gid == 78);
    static const char *const NEW[] = {"n", "n/new", "l"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fstatat(scene.folder, NEW[i], &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(st.st_uid == 1234 && st.st_gid == 1235);
    }
}

/* Moving a folder changes nothing in the files below it, so their own times cannot tell. */
static void test_files_in_a_moved_folder_are_left_alone(void **state)
{
    mkdirat(scene.folder, "precious", 0755);
    mkdirat(scene.folder, "precious/e", 0755);
    write_file("precious/y", "thesis");
    write_file("precious/e/x", "thesis");
    box_begins(); /* the box knows them by the name `precious` */
    assert_int_equal(renameat(scene.folder, "d", scene.folder, "old-d"), 0);
    assert_int_equal(renameat(scene.folder, "precious", scene.folder, "d"), 0);
    assert_int_equal(APPLY({"d", WIRE_DELETED, S_IFDIR | 0755, NULL, true},
                           {"d/e", WIRE_DELETED, S_IFDIR | 0755, NULL, true},
                           {"d/e/x", WIRE_DELETED, FILE_644, "thesis"},
                           {"d/y", WIRE_MODIFIED, FILE_644, "box"}),
                     2);
    assert_string_equal(read_file("d/y"), "thesis");
    assert_string_equal(read_file("d/e/x"), "thesis");
}

static void test_a_file_that_the_box_never_saw_is_left_alone(void **state)
{
    write_file("new", "the person's");
    usleep(20000);
    assert_int_equal(APPLY({"new", WIRE_DELETED, FILE_644, ""}), 1);
    assert_int_equal(APPLY({"new", WIRE_MODIFIED, FILE_644, "box"}), 1);
    assert_string_equal(read_file("new"), "the person's");
}

static void save_mod_in_place(void)
{
    write_file("mod", "saved");
}

static void save_mod_by_rename(void)
{
    write_file("beside", "saved");
    renameat(scene.folder, "beside", scene.folder, "mod");
}

static void save_new(void)
{
    write_file("new", "saved");
}

static void test_a_save_during_apply_is_kept(void **state)
{
    scene.meanwhile = save_mod_in_place;
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "box"}), 1);
    assert_string_equal(read_file("mod"), "saved");
    write_file("mod", "old");
    box_begins();
    scene.meanwhile = save_mod_by_rename;
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "box"}), 1);
    assert_string_equal(read_file("mod"), "saved");
    scene.meanwhile = save_new;
    assert_int_equal(APPLY({"new", WIRE_ADDED, FILE_644, "box"}), 1);
    assert_string_equal(read_file("new"), "saved");
    assert_int_equal(applied_log_position(scene.log), 0);
}

static void test_a_file_that_is_being_written_is_left_alone(void **state)
{
    int fd = openat(scene.folder, "mod", O_WRONLY);
    assert_int_equal(
        APPLY({"mod", WIRE_MODIFIED, FILE_644, "box"}, {"gone", WIRE_DELETED, FILE_644, ""}), 1);
    assert_string_equal(scene.said, "mod: conflict, gone: done");
    assert_string_equal(read_file("mod"), "old");
    close(fd);
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "box"}), 0);
}

static void test_an_empty_folder_in_the_place_of_a_file_is_a_conflict(void **state)
{
    unlinkat(scene.folder, "mod", 0);
    mkdirat(scene.folder, "mod", 0755);
    assert_int_equal(
        APPLY({"mod", WIRE_DELETED, S_IFDIR | 0755, NULL}, {"mod", WIRE_ADDED, FILE_644, "box"}),
        1);
    assert_string_equal(scene.said, "mod: conflict");
    assert_true(S_ISDIR(mode_of("mod")));
}

static void test_changes_that_do_not_overlap_are_merged(void **state)
{
    write_file("mod", "1\n2\n3\n4\n5\n");
    box_begins();
    write_file("mod", "one\n2\n3\n4\n5\n");
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "1\n2\n3\n4\nfive\n"}), 0);
    assert_string_equal(scene.said, "mod: merged");
    assert_string_equal(read_file("mod"), "one\n2\n3\n4\nfive\n");
    assert_int_equal(mode_of("mod"), S_IFREG | 0755);
    assert_int_equal(scene.edits.count, 1); /* the box gets it, too */
    /* until then, what the box has is no change of its own */
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "1\n2\n3\n4\nfive\n"}), 0);
    assert_string_equal(scene.said, "mod: same");
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, S_IFREG | 0755, "1\n2\n3\n4\nfive\nsix\n"}), 0);
    assert_string_equal(read_file("mod"), "one\n2\n3\n4\nfive\nsix\n");
}

static void test_a_conflict_is_resolved_as_chosen(void **state)
{
    write_file("mod", "mine\n");
    scene.options.on_conflict = APPLY_MINE;
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "theirs\n"}), 0);
    assert_string_equal(read_file("mod"), "mine\n");
    assert_int_equal(scene.edits.count, 1);
    assert_int_equal(scene.edits.items[0].kind, BOX_EDIT_FOLDER);
    scene.options.on_conflict = APPLY_MARKERS;
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "theirs\n"}), 0);
    assert_string_equal(read_file("mod"), "<<<<<<< folder\nmine\n=======\ntheirs\n>>>>>>> box\n");
    write_file("mod", "mine again\n");
    scene.options.on_conflict = APPLY_THEIRS;
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "theirs 2\n"}), 0);
    assert_string_equal(read_file("mod"), "theirs 2\n");
    write_file("gone", "mine\n");
    assert_int_equal(APPLY({"gone", WIRE_DELETED, FILE_644, ""}), 0);
    assert_int_equal(mode_of("gone"), 0);
}

static void test_only_named_paths_are_applied(void **state)
{
    static const char *const PATHS[] = {"d", "mod"};
    scene.options.paths = PATHS;
    scene.options.n_paths = 2;
    assert_int_equal(
        APPLY({"d/y", WIRE_MODIFIED, FILE_644, "box"}, {"gone", WIRE_DELETED, FILE_644, ""},
              {"mod", WIRE_MODIFIED, FILE_644, "box"}, {"mod2", WIRE_ADDED, FILE_644, "box"}),
        0);
    assert_string_equal(scene.said, "d/y: done, mod: done");
    assert_string_equal(read_file("gone"), "old");
}

static void test_names_of_one_file_are_linked(void **state)
{
    struct stat a, b;
    assert_int_equal(APPLY({"h1", WIRE_ADDED, FILE_644, "x", false, 7},
                           {"h2", WIRE_ADDED, FILE_644, "x", false, 7},
                           {"mod", WIRE_MODIFIED, FILE_644, "x", false, 7}),
                     0);
    assert_int_equal(fstatat(scene.folder, "h1", &a, 0), 0);
    assert_int_equal(fstatat(scene.folder, "mod", &b, 0), 0);
    assert_true(a.st_ino == b.st_ino && a.st_nlink == 3);
    usleep(20000);
    assert_int_equal(
        APPLY({"h1", WIRE_MODIFIED, FILE_644, "y"}, {"h2", WIRE_DELETED, FILE_644, ""}), 0);
}

static void test_no_more_is_written_than_the_disk_limit(void **state)
{
    scene.bytes_max = 5;
    assert_int_equal(APPLY({"a", WIRE_ADDED, FILE_644, "123"}, {"b", WIRE_ADDED, FILE_644, "456"}),
                     -EDQUOT);
    assert_string_equal(read_file("a"), "123");
    assert_int_equal(mode_of("b"), 0);
}

static void test_modes_of_folders(void **state)
{
    assert_int_equal(APPLY({"d", WIRE_MODIFIED, S_IFDIR | 0700, NULL}), 0);
    assert_int_equal(mode_of("d"), S_IFDIR | 0700);
    assert_int_equal(fchmodat(scene.folder, "d", 0750, 0), 0);
    assert_int_equal(APPLY({"d", WIRE_MODIFIED, S_IFDIR | 0711, NULL}), 1);
    assert_int_equal(mode_of("d"), S_IFDIR | 0750);
}

static int log_one(void *data, const struct applied_entry *e)
{
    char content[16] = "";
    if (e->kind == APPLIED_FILE)
        assert_true(applied_log_read(scene.log, e, content, sizeof content - 1, 0) >= 0);
    size_t used = strlen(scene.said);
    snprintf(scene.said + used, sizeof scene.said - used, "%s:%d:%s ", e->path, (int)e->kind,
             content);
    return 0;
}

static void test_the_log_has_the_earliest_state(void **state)
{
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "one"},
                           {"new", WIRE_ADDED, FILE_644, "one"},
                           {"gone", WIRE_DELETED, FILE_644, ""}),
                     0);
    uint64_t position = applied_log_position(scene.log);
    assert_int_equal(APPLY({"mod", WIRE_MODIFIED, FILE_644, "two"}), 0);
    scene.said[0] = 0;
    assert_int_equal(applied_log_each(scene.log, 0, log_one, NULL), 0);
    assert_string_equal(scene.said, "gone:1:old mod:1:old new:0: ");
    scene.said[0] = 0;
    struct applied_log *copy = applied_log_copy(scene.log);
    assert_int_equal(applied_log_each(copy, position, log_one, NULL), 0);
    assert_string_equal(scene.said, "mod:1:one ");
    applied_log_free(copy);
}

static void test_list(void **state)
{
    static const struct told TOLD[] = {{"a", WIRE_ADDED, FILE_644, "12"},
                                       {"b", WIRE_DELETED, FILE_644, ""}};
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
        cmocka_unit_test_setup_teardown(test_files_in_a_moved_folder_are_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_the_box_never_saw_is_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_save_during_apply_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_being_written_is_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_empty_folder_in_the_place_of_a_file_is_a_conflict,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changes_that_do_not_overlap_are_merged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_conflict_is_resolved_as_chosen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_named_paths_are_applied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_of_one_file_are_linked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_more_is_written_than_the_disk_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_modes_of_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_log_has_the_earliest_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
