/*
 * A checkout of QuixBugs: small programs with a bug on one line, in Python.
 *
 *     python_programs/NAME.py           the program with the bug
 *     correct_python_programs/NAME.py   the same without: the diff of the two is the solution
 *     python_testcases/test_NAME.py     its tests, and beside them what all tests need
 *     json_testcases/NAME.json          the data of tests that are tables
 *     conftest.py                       by an option, which of the two programs the tests import
 *
 * Options of a conftest.py are not known to pytest when tests are graded, so that file gets an end
 * that calls its functions with the default of every option.
 *
 * A task's workspace has the program, its tests and what they need; never the correct programs.
 * Patches that do not solve it are made by changing one line that the solution leaves alone
 * (patches.c): the bug is still there, so its tests still fail.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "importer.h"
#include "thread.h"
#include "banned.h"

/* For a checkout without one. */
static const char CONFTEST[] = "import pytest\n"
                               "\n"
                               "pytest.use_correct = False\n"
                               "pytest.run_slow = False\n";

#define PROGRAM_MAX (1u << 20)
#define DATA_MAX    (16u << 20)
#define NAMES_MAX   10000u

struct checkout {
    struct import *im;
    int dir;
    const char *where;
};

static bool checkout_has(const struct checkout *c, const char *path)
{
    struct stat st;
    return fstatat(c->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A file of the checkout, put at the same place of the workspace. */
static int checkout_take_file(struct checkout *c, struct task *t, const char *path, bool needed,
                              struct error *err)
{
    char shown[2 * PATH_MAX];
    struct error why = {0};
    _cleanup_buf_ struct buf b = BUF_INIT(DATA_MAX);
    snprintf(shown, sizeof shown, "%s/%s", c->where, path);
    int r = task_read_file(c->dir, path, shown, &b, &why);
    if (r == -ENOENT && !needed)
        return 0;
    if (r < 0)
        return error_set(err, -r, "%s", why.text);
    r = task_tree_add(&t->files, path, S_IFREG | 0644, b.data ? b.data : (const void *)"", b.len);
    return r < 0 ? error_errno(err, -r, "%s", shown) : 0;
}

static bool is_python(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".py") == 0;
}

/* test_NAME.py of a program; test_utils.py is a helper. */
static bool checkout_is_test(const struct checkout *c, const char *name)
{
    char path[PATH_MAX];
    if (strncmp(name, "test_", 5) != 0)
        return false;
    snprintf(path, sizeof path, "python_programs/%s", name + 5);
    return checkout_has(c, path);
}

/* What lies beside the tests and is none. */
static int checkout_take_helpers(struct checkout *c, struct task *t, struct error *err)
{
    char path[PATH_MAX];
    struct dirent *d;
    size_t count = 0;
    int r = 0,
        fd = openat(c->dir, "python_testcases", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return error_errno(err, errno, "%s/python_testcases", c->where);
    while (r == 0 && (d = readdir(dir)) && count++ < NAMES_MAX) {
        if (!is_python(d->d_name) || checkout_is_test(c, d->d_name))
            continue;
        snprintf(path, sizeof path, "python_testcases/%s", d->d_name);
        r = checkout_take_file(c, t, path, false, err);
    }
    closedir(dir);
    return r;
}

static int checkout_take_conftest(struct checkout *c, struct task *t, struct error *err)
{
    char shown[2 * PATH_MAX];
    struct error why = {0};
    _cleanup_buf_ struct buf b = BUF_INIT(PROGRAM_MAX);
    snprintf(shown, sizeof shown, "%s/conftest.py", c->where);
    int r = task_read_file(c->dir, "conftest.py", shown, &b, &why);
    if (r < 0 && r != -ENOENT)
        return error_set(err, -r, "%s", why.text);
    buf_append_str(&b, r < 0 ? CONFTEST : "\n\n");
    buf_append_str(&b, r < 0 ? "" : QUIXBUGS_CONFTEST_END);
    if (b.failed || task_tree_add(&t->files, "conftest.py", S_IFREG | 0644, b.data, b.len) < 0)
        return task_no_memory(err);
    return 0;
}

static int checkout_take_files(struct checkout *c, struct task *t, const char *name,
                               struct error *err)
{
    static const char *const SHARED[] = {"python_programs/__init__.py", "python_programs/node.py"};
    char path[PATH_MAX];
    int r = 0;
    snprintf(path, sizeof path, "python_programs/%s.py", name);
    r = checkout_take_file(c, t, path, true, err);
    snprintf(path, sizeof path, "python_testcases/test_%s.py", name);
    if (r == 0)
        r = checkout_take_file(c, t, path, true, err);
    snprintf(path, sizeof path, "json_testcases/%s.json", name);
    if (r == 0)
        r = checkout_take_file(c, t, path, false, err);
    for (size_t i = 0; i < ARRAY_SIZE(SHARED) && r == 0; i++)
        r = checkout_take_file(c, t, SHARED[i], false, err);
    if (r == 0)
        r = checkout_take_conftest(c, t, err);
    return r == 0 ? checkout_take_helpers(c, t, err) : r;
}

static int checkout_read_program(struct checkout *c, const char *folder, const char *name,
                                 struct buf *b, struct error *err)
{
    char path[PATH_MAX], shown[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.py", folder, name);
    snprintf(shown, sizeof shown, "%s/%s", c->where, path);
    return task_read_file(c->dir, path, shown, b, err);
}

static int checkout_take_patches(struct checkout *c, struct task *t, const char *name,
                                 struct error *err)
{
    char path[PATH_MAX];
    _cleanup_buf_ struct buf bad = BUF_INIT(PROGRAM_MAX), good = BUF_INIT(PROGRAM_MAX);
    int r = checkout_read_program(c, "python_programs", name, &bad, err);
    if (r == 0)
        r = checkout_read_program(c, "correct_python_programs", name, &good, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "python_programs/%s.py", name);
    return variants_add(t, path, &bad, &good, err);
}

static int checkout_describe(struct task *t, const char *name, struct error *err)
{
    char path[PATH_MAX];
    int r = import_text(&t->title, err, "QuixBugs: %s", name);
    if (r == 0)
        r = import_text(
            &t->instruction, err,
            "The program python_programs/%s.py has a bug on a single line. Find it and repair it, "
            "so "
            "that the tests in python_testcases/test_%s.py pass. Change nothing but the program.",
            name, name);
    if (r == 0)
        r = import_text(&t->language, err, "python");
    snprintf(path, sizeof path, "python_testcases/test_%s.py", name);
    if (r == 0 &&
        (task_list_add(&t->tests.paths, path) < 0 || task_list_add(&t->tests.import, ".") < 0 ||
         task_list_add(&t->tests.own, "python_testcases") < 0 ||
         task_list_add(&t->tests.own, "json_testcases") < 0 ||
         task_list_add(&t->tests.own, "conftest.py") < 0))
        r = task_no_memory(err);
    snprintf(path, sizeof path, "python_programs/%s.py", name);
    if (r == 0 && task_list_add(&t->reads, path) < 0)
        r = task_no_memory(err);
    return r;
}

static int checkout_import_program(struct checkout *c, const char *name, struct error *err)
{
    _cleanup_task_ struct task *t = task_new();
    struct error why = {0};
    if (!t)
        return task_no_memory(err);
    import_name(name, t->name);
    /* many of the bugs never end: a run that loops is stopped soon; the slowest correct program
     * takes 3 s */
    t->test_timeout_ns = 40 * NS_PER_S;
    t->test_cpu_ns = 6 * NS_PER_S;
    int r = import_text(&t->origin, &why, "%s/python_programs/%s.py", c->where, name);
    if (r == 0)
        r = checkout_take_files(c, t, name, &why);
    if (r == 0)
        r = checkout_take_patches(c, t, name, &why);
    if (r == 0)
        r = checkout_describe(t, name, &why);
    if (r < 0) {
        import_skip(c->im, name, &why);
        return 0;
    }
    return import_add(c->im, &t, err);
}

/* Is it a program, and not something that programs need (node.py) or that tries them (gcd_test.py)?
 * One that has no test is told of. */
static bool checkout_is_program(struct checkout *c, const char *name)
{
    char test[PATH_MAX], correct[PATH_MAX];
    size_t n = strlen(name);
    snprintf(test, sizeof test, "python_testcases/test_%s.py", name);
    snprintf(correct, sizeof correct, "correct_python_programs/%s.py", name);
    if (!import_wants(c->im, name) || checkout_has(c, test))
        return import_wants(c->im, name);
    struct error why = {0};
    bool helper = strcmp(name, "node") == 0 || (n > 5 && strcmp(name + n - 5, "_test") == 0);
    if (helper || !checkout_has(c, correct))
        return false;
    error_set(&why, ENOENT, "it has no %s", test);
    import_skip(c->im, name, &why);
    return false;
}

/* The programs that have a test, sorted. */
static int checkout_list_programs(struct checkout *c, struct task_list *ret, struct error *err)
{
    char name[NAME_MAX + 1];
    struct dirent *d;
    int r = 0,
        fd = openat(c->dir, "python_programs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return error_set(err, ENOENT, "%s: not a checkout of QuixBugs (no folder python_programs)",
                         c->where);
    while (r == 0 && (d = readdir(dir))) {
        snprintf(name, sizeof name, "%s", d->d_name);
        if (!is_python(name) || ret->count >= NAMES_MAX)
            continue;
        name[strlen(name) - 3] = 0;
        if (checkout_is_program(c, name))
            r = task_list_add(ret, name) < 0 ? task_no_memory(err) : 0;
    }
    closedir(dir);
    task_list_sort(ret);
    return r;
}

static int quixbugs_import(struct import *im, const char *where, struct error *err)
{
    struct task_list names = {0};
    _cleanup_fd_ int dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct checkout c = {im, dir, where};
    if (dir < 0)
        return error_errno(err, errno, "%s", where);
    if (checkout_has(&c, "python_programs") && !checkout_has(&c, "python_testcases"))
        return error_set(
            err, ENOENT,
            "%s: has no folder python_testcases; checkouts of before 2021 have no tests to run",
            where);
    int r = checkout_list_programs(&c, &names, err);
    if (r == 0 && checkout_has(&c, "java_programs") && !im->o->only)
        import_say(im, "java_programs: left out: only the Python programs can be played");
    for (size_t i = 0; i < names.count && r == 0; i++)
        r = checkout_import_program(&c, names.items[i], err);
    task_list_free(&names);
    return r;
}

const struct import_kind IMPORT_QUIXBUGS = {"quixbugs", "quixbugs:DIR", quixbugs_import};
