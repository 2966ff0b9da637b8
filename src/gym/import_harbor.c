/*
 * Task folders of Harbor, and of the older Terminal-Bench:
 *
 *     Harbor               Terminal-Bench
 *     task.toml            task.yaml          times and sizes; of the older the instruction, too
 *     instruction.md                          the instruction
 *     environment/         .                  a Dockerfile, and the files that it copies
 *     tests/test.sh        run-tests.sh       grades; the first leaves a reward in /logs/verifier
 *     tests/               tests/             is at /tests while that runs, and at no other time
 *     solution/solve.sh    solution.sh        the reference solution
 *
 * There is no Docker here. The workspace is what the Dockerfile copies to its working folder; links
 * make it appear under that name, and /tests, /logs and /solution where the scripts expect them.
 * What a Dockerfile does beyond that needs an image that is there already (`--image`); without one
 * such tasks are passed over.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "import_harbor.h"
#include "import_private.h"
#include "relpath.h"
#include "banned.h"

#define NAMES_MAX 100000u

int harbor_read(struct harbor *h, const char *name, struct buf *b, struct error *err)
{
    char shown[2 * PATH_MAX];
    snprintf(shown, sizeof shown, "%s/%s", h->folder, name);
    return task_read_file(h->dir, name, shown, b, err);
}

bool harbor_has(const struct harbor *h, const char *name)
{
    struct stat st;
    return fstatat(h->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int add_script(struct task_tree *tree, const char *path, const struct buf *b,
                      struct error *err)
{
    int r = task_tree_add(tree, path, S_IFREG | 0755, b->data ? (const void *)b->data : "", b->len);
    return r < 0 ? error_errno(err, -r, "%s", path) : 0;
}

/* What a task without such a script means. */
static const char RUN_TESTS[] = "pytest \"$TEST_DIR/test_outputs.py\" -rA\n";

/* The tests, and our script that runs them. */
static int take_tests(struct harbor *h, struct task *t, struct error *err)
{
    const char *script = h->old ? "run-tests.sh" : "test.sh";
    size_t at;
    int r = task_read_part(&t->hidden, h->folder, "tests", HARBOR_TESTS, err);
    if (r == 0 && h->old) {
        _cleanup_buf_ struct buf b = BUF_INIT(HARBOR_TEXT_MAX);
        if (harbor_has(h, script) || !harbor_has(h, "tests/test_outputs.py"))
            r = harbor_read(h, script, &b, err);
        else
            buf_append_str(&b, RUN_TESTS);
        if (r == 0)
            r = add_script(&t->hidden, HARBOR_TESTS "/run-tests.sh", &b, err);
    }
    if (r == 0 &&
        !task_tree_find(&t->hidden, h->old ? HARBOR_TESTS "/run-tests.sh" : HARBOR_TESTS "/test.sh",
                        &at))
        r = error_set(err, ENOENT, "it has no tests/%s", script);
    return r == 0 ? harbor_add_runner(h, t, err) : r;
}

static int take_solution(struct harbor *h, struct task *t, struct error *err)
{
    int r = 0;
    if (h->old && harbor_has(h, "solution.sh")) {
        _cleanup_buf_ struct buf b = BUF_INIT(HARBOR_TEXT_MAX);
        r = harbor_read(h, "solution.sh", &b, err);
        if (r == 0)
            r = add_script(&t->solution_files, HARBOR_SOLUTION "/solve.sh", &b, err);
    } else if (!h->old) {
        r = task_read_part(&t->solution_files, h->folder, "solution", HARBOR_SOLUTION, err);
    }
    size_t at;
    if (r < 0 || !task_tree_find(&t->solution_files, HARBOR_SOLUTION "/solve.sh", &at))
        return r;
    return harbor_solution_script(h, t, err);
}

static int take_reward(struct task *t, struct error *err)
{
    t->tests.runner = TASK_COMMAND;
    t->tests.verdict = VERDICT_REWARD;
    int r = import_text(&t->tests.command, err, "bash /workspace/%s", HARBOR_RUN);
    if (r == 0)
        r = import_text(&t->tests.report, err, "%s", HARBOR_LOGS "/verifier/reward.txt");
    if (r == 0 && (task_list_add(&t->tests.own, HARBOR_FOLDER) < 0 ||
                   task_list_add(&t->tests.clear, HARBOR_LOGS) < 0))
        r = task_no_memory(err);
    return r;
}

/* All parts, in the order in which they need each other. */
static int make_task(struct harbor *h, struct task *t, struct error *err)
{
    int r = harbor_settings(h, t, err);
    if (r == 0)
        r = harbor_environment(h, t, err);
    if (r == 0)
        r = take_reward(t, err);
    if (r == 0)
        r = take_tests(h, t, err);
    return r == 0 ? take_solution(h, t, err) : r;
}

static void harbor_free(struct harbor *h)
{
    task_list_free(&h->env);
    task_list_free(&h->checks);
    task_list_free(&h->solves);
}

static int import_one(struct import *im, const char *folder, struct error *err)
{
    char path[PATH_MAX];
    struct error why = {0};
    _cleanup_(harbor_free) struct harbor h = {.im = im, .folder = folder, .dir = -1};
    _cleanup_task_ struct task *t = task_new();
    if (!t)
        return task_no_memory(err);
    if (!realpath(folder, path))
        return error_errno(err, errno, "%s", folder);
    import_name(relpath_name(path), t->name);
    if (!import_wants(im, t->name))
        return 0;
    _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    h.dir = dir;
    h.old = !harbor_has(&h, "task.toml");
    int r = dir < 0 ? error_errno(&why, errno, "%s", folder)
                    : import_text(&t->origin, &why, "%s", path);
    if (r == 0)
        r = make_task(&h, t, &why);
    if (r < 0) {
        import_skip(im, t->name, &why);
        return 0;
    }
    return import_add(im, &t, err);
}

static bool is_task(const char *folder)
{
    char path[2 * PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/task.toml", folder);
    if (stat(path, &st) == 0)
        return true;
    snprintf(path, sizeof path, "%s/task.yaml", folder);
    return stat(path, &st) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_folders(const char *where, struct task_list *ret, struct error *err)
{
    char path[PATH_MAX];
    struct dirent *d;
    int r = 0;
    DIR *dir = opendir(where);
    if (!dir)
        return error_errno(err, errno, "%s", where);
    while (r == 0 && (d = readdir(dir)) && ret->count < NAMES_MAX) {
        snprintf(path, sizeof path, "%.3800s/%s", where, d->d_name);
        if (d->d_name[0] != '.' && is_task(path))
            r = task_list_add(ret, path) < 0 ? task_no_memory(err) : 0;
    }
    closedir(dir);
    if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof *ret->items, compare_names);
    return r;
}

/* A checkout of a whole collection has them in its folder tasks. */
static int import_harbor(struct import *im, const char *where, struct error *err)
{
    struct task_list folders = {0};
    char inner[PATH_MAX];
    struct stat st;
    if (is_task(where))
        return import_one(im, where, err);
    int r = list_folders(where, &folders, err);
    snprintf(inner, sizeof inner, "%.4000s/tasks", where);
    if (r == 0 && folders.count == 0 && stat(inner, &st) == 0)
        r = list_folders(inner, &folders, err);
    if (r == 0 && folders.count == 0)
        r = error_set(err, ENOENT,
                      "%s: there is no task in it (a folder with task.toml or task.yaml)", where);
    for (size_t i = 0; i < folders.count && r == 0; i++)
        r = import_one(im, folders.items[i], err);
    task_list_free(&folders);
    return r;
}

const struct import_kind IMPORT_HARBOR = {"harbor", "harbor:DIR", import_harbor};
