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

#include "box_options.h"
#include "dockerfile.h"
#include "harbor.h"
#include "importer.h"
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

static int harbor_add_script(struct task_tree *tree, const char *path, const struct buf *b,
                             struct error *err)
{
    int r = task_tree_add(tree, path, S_IFREG | 0755, b->data ? (const void *)b->data : "", b->len);
    return r < 0 ? error_errno(err, -r, "%s", path) : 0;
}

/* What a task without such a script means. */
static const char RUN_TESTS[] = "pytest \"$TEST_DIR/test_outputs.py\" -rA\n";

/* The tests, and our script that runs them. */
static int harbor_take_tests(struct harbor *h, struct task *t, struct error *err)
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
            r = harbor_add_script(&t->hidden, HARBOR_TESTS "/run-tests.sh", &b, err);
    }
    if (r == 0 &&
        !task_tree_find(&t->hidden, h->old ? HARBOR_TESTS "/run-tests.sh" : HARBOR_TESTS "/test.sh",
                        &at))
        r = error_set(err, ENOENT, "it has no tests/%s", script);
    return r == 0 ? harbor_add_runner(h, t, err) : r;
}

static int harbor_take_solution(struct harbor *h, struct task *t, struct error *err)
{
    int r = 0;
    if (h->old && harbor_has(h, "solution.sh")) {
        _cleanup_buf_ struct buf b = BUF_INIT(HARBOR_TEXT_MAX);
        r = harbor_read(h, "solution.sh", &b, err);
        if (r == 0)
            r = harbor_add_script(&t->solution_files, HARBOR_SOLUTION "/solve.sh", &b, err);
    } else if (!h->old) {
        r = task_read_part(&t->solution_files, h->folder, "solution", HARBOR_SOLUTION, err);
    }
    size_t at;
    if (r < 0 || !task_tree_find(&t->solution_files, HARBOR_SOLUTION "/solve.sh", &at))
        return r;
    return harbor_solution_script(h, t, err);
}

static int harbor_take_reward(struct task *t, struct error *err)
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

static void harbor_free(struct harbor *h)
{
    task_list_free(&h->env);
    task_list_free(&h->checks);
    task_list_free(&h->solves);
}

static int harbor_import(struct import *im, const char *folder, struct error *err)
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
        r = harbor_settings(&h, t, &why);
    if (r == 0)
        r = harbor_environment(&h, t, &why);
    if (r == 0)
        r = harbor_take_reward(t, &why);
    if (r == 0)
        r = harbor_take_tests(&h, t, &why);
    if (r == 0)
        r = harbor_take_solution(&h, t, &why);
    if (r < 0) {
        import_skip(im, t->name, &why);
        return 0;
    }
    return import_add(im, &t, err);
}

static bool harbor_is_task(const char *folder)
{
    char path[2 * PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/task.toml", folder);
    if (stat(path, &st) == 0)
        return true;
    snprintf(path, sizeof path, "%s/task.yaml", folder);
    return stat(path, &st) == 0;
}

static int harbor_list_folders(const char *where, struct task_list *ret, struct error *err)
{
    char path[PATH_MAX];
    struct dirent *d;
    int r = 0;
    DIR *dir = opendir(where);
    if (!dir)
        return error_errno(err, errno, "%s", where);
    while (r == 0 && (d = readdir(dir)) && ret->count < NAMES_MAX) {
        snprintf(path, sizeof path, "%.3800s/%s", where, d->d_name);
        if (d->d_name[0] != '.' && harbor_is_task(path))
            r = task_list_add(ret, path) < 0 ? task_no_memory(err) : 0;
    }
    closedir(dir);
    task_list_sort(ret);
    return r;
}

/* A checkout of a whole collection has them in its folder tasks. */
static int harbor_import_all(struct import *im, const char *where, struct error *err)
{
    struct task_list folders = {0};
    char inner[PATH_MAX];
    struct stat st;
    if (harbor_is_task(where))
        return harbor_import(im, where, err);
    int r = harbor_list_folders(where, &folders, err);
    snprintf(inner, sizeof inner, "%.4000s/tasks", where);
    if (r == 0 && folders.count == 0 && stat(inner, &st) == 0)
        r = harbor_list_folders(inner, &folders, err);
    if (r == 0 && folders.count == 0)
        r = error_set(err, ENOENT, "%s: contains no task (a folder with task.toml or task.yaml)",
                      where);
    for (size_t i = 0; i < folders.count && r == 0; i++)
        r = harbor_import(im, folders.items[i], err);
    task_list_free(&folders);
    return r;
}

const struct import_kind IMPORT_HARBOR = {"harbor", "harbor:DIR", harbor_import_all};

/*
 * The scripts of a Harbor or Terminal-Bench task: the one that runs its tests and leaves a number
 * in /logs/verifier/reward.txt, the solution's, and the one that sets up its box.
 *
 * Many of them begin by fetching packages. There is no network, so they find stand-ins (foreign/):
 * what installs does nothing, and uv runs what is there.
 */

#define SCRIPT_MAX (256u << 10)

static const char BEGIN[] = "export PATH=/workspace/" HARBOR_FOLDER "/bin:$PATH\n"
                            "export TEST_DIR=/tests PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1\n"
                            "export PYTEST_ADDOPTS='-p no:cacheprovider'\n"
                            "mkdir -p " HARBOR_LOGS "/verifier ~/.local/bin\n"
                            ": >~/.local/bin/env\n";

/* reward.json is an object of numbers: "reward", or the mean of all of them. */
static const char HARBOR_END[] =
    "bash /tests/test.sh\n"
    "cd " HARBOR_LOGS "/verifier || exit 1\n"
    "if [ ! -e reward.txt ] && [ -e reward.json ]; then\n"
    "    tr -d '\\n' <reward.json | sed -n "
    "'s/.*\"reward\"[[:space:]]*:[[:space:]]*\\([0-9.eE+-]*\\).*/\\1/p' >reward.txt\n"
    "    [ -s reward.txt ] || tr ',{}' '\\n' <reward.json |\n"
    "        awk -F: 'NF == 2 && $2 + 0 == $2 { sum += $2; n++ } END { if (n) print sum / n }' "
    ">reward.txt\n"
    "fi\n";

/* The pass rate, out of the counts in the first element of pytest's report. */
static const char OLD_END[] =
    "export PYTEST_ADDOPTS=\"$PYTEST_ADDOPTS --junitxml=" HARBOR_LOGS "/verifier/junit.xml\"\n"
    "bash /tests/run-tests.sh\n"
    "cd " HARBOR_LOGS "/verifier || exit 1\n"
    "count() { sed -n \"s/.*<testsuite [^>]*\\b$1=\\\"\\([0-9]*\\)\\\".*/\\1/p\" junit.xml | head "
    "-n 1; }\n"
    "all=$(count tests) failed=$(count failures) errors=$(count errors) skipped=$(count skipped)\n"
    "awk -v n=\"${all:-0}\" -v bad=\"$((${failed:-0} + ${errors:-0} + ${skipped:-0}))\" \\\n"
    "    'BEGIN { print (n > 0 && bad < n ? (n - bad) / n : 0) }' >reward.txt\n";

static void harbor_put_exports(struct buf *b, const struct task_list *env)
{
    for (size_t i = 0; i < env->count; i++) {
        const char *value = strchr(env->items[i], '=') + 1;
        buf_printf(b, "export %.*s'", (int)(value - env->items[i]), env->items[i]);
        for (; *value; value++)
            if (*value == '\'')
                buf_append_str(b, "'\\''");
            else
                buf_append(b, value, 1);
        buf_append_str(b, "'\n");
    }
}

static int add_program(struct task *t, const char *path, const char *text, struct error *err)
{
    int r = task_tree_add(&t->hidden, path, S_IFREG | 0755, text, strlen(text));
    return r < 0 ? error_errno(err, -r, "%s", path) : 0;
}

int harbor_add_runner(struct harbor *h, struct task *t, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SCRIPT_MAX);
    buf_append_str(&b, "#!/bin/bash\n");
    buf_append_str(&b, HARBOR_STAND_INS);
    buf_append_str(&b, BEGIN);
    harbor_put_exports(&b, &h->checks);
    buf_printf(&b, "mkdir -p %s && cd %s || exit 1\n", h->workdir, h->workdir);
    buf_append_str(&b, h->old ? OLD_END : HARBOR_END);
    const char *text = b.failed ? NULL : buf_cstr(&b);
    if (!text)
        return task_no_memory(err);
    int r = add_program(t, HARBOR_RUN, text, err);
    if (r == 0)
        r = add_program(t, HARBOR_FOLDER "/bin/uv", HARBOR_UV, err);
    if (r == 0)
        r = add_program(t, HARBOR_FOLDER "/bin/uvx", HARBOR_UV, err);
    return r == 0 ? add_program(t, HARBOR_FOLDER "/python/hutch_ctrf.py", HARBOR_CTRF, err) : r;
}

int harbor_solution_script(struct harbor *h, struct task *t, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SCRIPT_MAX);
    buf_append_str(&b, HARBOR_STAND_INS);
    harbor_put_exports(&b, &h->solves);
    buf_printf(&b, "mkdir -p %s && cd %s && bash /solution/solve.sh", h->workdir, h->workdir);
    const char *text = b.failed ? NULL : buf_cstr(&b);
    return text ? import_text(&t->solution_script, err, "%s", text) : task_no_memory(err);
}

int harbor_setup_script(struct task *t, const struct buf *runs, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SCRIPT_MAX);
    if (runs->len == 0)
        return 0;
    buf_append_str(&b, HARBOR_STAND_INS);
    buf_append_str(&b, HARBOR_SETUP);
    buf_append(&b, runs->data, runs->len);
    const char *text = b.failed ? NULL : buf_cstr(&b);
    return text ? import_text(&t->setup, err, "%s", text) : task_no_memory(err);
}

/*
 * The boxes of a Harbor or Terminal-Bench task: what the Dockerfile makes, or an image that has all
 * of it; links that show it where its scripts look for it.
 */

/* Where the root filesystem lies: of an image by name, or in a folder, which may have one for each
 * task. */
static int harbor_find_image(const char *image, const char *task, char path[PATH_MAX],
                             struct error *err)
{
    char place[2 * PATH_MAX];
    struct stat st;
    if (!strchr(image, '/')) {
        int r = box_image_path(image, place, PATH_MAX, err);
        if (r < 0)
            return r;
    } else {
        snprintf(place, sizeof place, "%.4000s/%s", image, task);
        if (stat(place, &st) < 0 || !S_ISDIR(st.st_mode))
            snprintf(place, sizeof place, "%.4000s", image);
    }
    if (!realpath(place, path) || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return error_set(err, ENOENT, "there is no image '%s'; unpack its root filesystem to %s",
                         image, place);
    return 0;
}

/* The folder at the top that the working folder lies in is the image's, and what the box shows as
 * the workspace. */
static int harbor_take_image(struct harbor *h, struct task *t, struct error *err)
{
    char path[PATH_MAX], root[2 * PATH_MAX], top[256];
    struct stat st;
    int r = harbor_find_image(h->im->o->image, t->name, path, err);
    if (r < 0)
        return r;
    r = import_text(&t->image, err, "%s", path);
    docker_top(h->workdir, top, sizeof top);
    snprintf(root, sizeof root, "%s/%s", path, top);
    if (r == 0 && lstat(root, &st) == 0 && S_ISDIR(st.st_mode))
        r = import_text(&t->root, err, "%s", root);
    return r;
}

/* Without an image: the files, the folders at the top and the set-up are what the Dockerfile
 * makes. */
static int harbor_take_parts(struct harbor *h, struct task *t, struct dockerfile *d,
                             struct error *err)
{
    char at[300], to[600] = "";
    if (d->troubles.count > 0)
        return error_set(err, EOPNOTSUPP,
                         "its Dockerfile, %s; give a root filesystem that has all of it (--image)",
                         d->troubles.items[0]);
    if (d->notes.count > 1)
        snprintf(to, sizeof to, " (and %zu more such lines)", d->notes.count - 1);
    if (d->notes.count > 0)
        import_say(h->im, "%s: Dockerfile, %s%s", t->name, d->notes.items[0], to);
    for (size_t i = 0; i < d->tops.count; i++) {
        snprintf(at, sizeof at, "/%s", d->tops.items[i]);
        snprintf(to, sizeof to, "/workspace/" DOCKER_TOPS "/%s", d->tops.items[i]);
        if (task_link_add(t, at, to) < 0)
            return task_no_memory(err);
    }
    t->files = d->files;
    d->files = (struct task_tree){0};
    return harbor_setup_script(t, &d->setup, err);
}

static int harbor_read_dockerfile(struct harbor *h, struct dockerfile *ret, struct error *err)
{
    const char *name = h->old ? "Dockerfile" : "environment/Dockerfile";
    struct task_tree context = {0};
    _cleanup_buf_ struct buf b = BUF_INIT(HARBOR_TEXT_MAX);
    bool there = harbor_has(h, name);
    if (!there && h->docker_image[0] && !h->im->o->image)
        return error_set(err, EOPNOTSUPP,
                         "it has no Dockerfile; give the root filesystem of %s (--image)",
                         h->docker_image);
    int r = there ? harbor_read(h, name, &b, err) : 0;
    if (r == 0)
        r = h->old ? task_tree_read(&context, h->folder, "", err)
                   : task_read_part(&context, h->folder, "environment", "", err);
    if (r == 0)
        r = dockerfile_read((const char *)b.data, b.len, &context, h->workdir, ret, err);
    task_tree_free(&context);
    return r;
}

static int harbor_take_dockerfile(struct harbor *h, struct task *t, struct error *err)
{
    struct dockerfile d = {0};
    int r = harbor_read_dockerfile(h, &d, err);
    if (r < 0)
        return r;
    snprintf(h->workdir, sizeof h->workdir, "%s", d.workdir);
    r = h->im->o->image ? harbor_take_image(h, t, err) : harbor_take_parts(h, t, &d, err);
    const struct task_list *env[] = {&d.env, &h->env}; /* the Dockerfile's, then task.toml's */
    for (size_t k = 0; k < ARRAY_SIZE(env); k++)
        for (size_t i = 0; r == 0 && i < env[k]->count; i++)
            r = task_list_add(&t->env, env[k]->items[i]) < 0 ? task_no_memory(err) : 0;
    dockerfile_free(&d);
    return r;
}

static int harbor_take_links(struct harbor *h, struct task *t, struct error *err)
{
    char top[256], at[300];
    int r = 0;
    if (!h->workdir[0])
        return error_set(err, EOPNOTSUPP, "its working folder is the whole root filesystem");
    docker_top(h->workdir, top, sizeof top);
    /* scripts contain it without quotes */
    if (h->workdir[strspn(h->workdir,
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")])
        return error_set(err, EINVAL, "its working folder %s has an unusual name", h->workdir);
    if (strcmp(top, "workspace") != 0 && !docker_top_is_free(top))
        return error_set(err, EOPNOTSUPP,
                         "its working folder %s is a path that a box uses for something else",
                         h->workdir);
    snprintf(at, sizeof at, "/%s", top);
    if (strcmp(top, "workspace") != 0)
        r = task_link_add(t, at, "/workspace");
    if (r == 0)
        r = task_link_add(t, "/tests", "/workspace/" HARBOR_TESTS);
    if (r == 0)
        r = task_link_add(t, "/solution", "/workspace/" HARBOR_SOLUTION);
    if (r == 0)
        r = task_link_add(t, "/logs", HARBOR_LOGS);
    if (r < 0)
        return task_no_memory(err);
    return strchr(h->workdir + 1, '/')
               ? import_text(&t->instruction, err, "%s\n\nThe working folder is %s.",
                             t->instruction, h->workdir)
               : 0;
}

int harbor_environment(struct harbor *h, struct task *t, struct error *err)
{
    int r = harbor_take_dockerfile(h, t, err);
    return r == 0 ? harbor_take_links(h, t, err) : r;
}
