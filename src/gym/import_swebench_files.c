/*
 * The files of a row: the base, extracted once per commit; the tests, which are the base's with the test
 * patch applied; and what pytest takes from the folders around them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "import_swebench.h"
#include "relpath.h"
#include "banned.h"

#define SUPPORT_MAX (4u << 20)

/* The git folder of the row's repository: OWNER__NAME, OWNER/NAME or NAME in the folder of repositories. */
static int find_repo(const struct rows *rows, const struct row *row, char *dir, size_t size,
                     struct error *err)
{
    const char *repos = rows->im->o->repos, *slash = strchr(row->repo, '/');
    char path[3][PATH_MAX];
    if (!repos)
        return error_set(err, EINVAL, "its repository %s is needed: name the folder it is in with --repos",
                         row->repo);
    snprintf(path[0], PATH_MAX, "%s/%.*s__%s", repos, (int)(slash - row->repo), row->repo, slash + 1);
    snprintf(path[1], PATH_MAX, "%s/%s", repos, row->repo);
    snprintf(path[2], PATH_MAX, "%s/%s", repos, slash + 1);
    for (size_t i = 0; i < 3; i++)
        if (git_find(path[i], dir, size) == 0)
            return 0;
    return error_set(err, ENOENT, "there is no repository %s (nor %s) in %s", relpath_name(path[0]),
                     slash + 1, repos);
}

/* Extracts the commit to a folder beside the place it is meant for, and moves it there. */
static int extract(const char *git_dir, const char *commit, const char *folder, int cancel, struct error *err)
{
    char temporary[PATH_MAX];
    struct stat st;
    if (stat(folder, &st) == 0)
        return 0;
    snprintf(temporary, sizeof temporary, "%.4000s.XXXXXX", folder);
    if (!mkdtemp(temporary) || chmod(temporary, 0755) < 0)
        return error_errno(err, errno, "cannot make a folder in %s", folder);
    int r = git_extract(git_dir, commit, temporary, cancel, err);
    if (r == 0 && rename(temporary, folder) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        r = error_errno(err, errno, "cannot make %s", folder);
    import_remove(temporary);
    return r;
}

int swebench_root(const struct rows *rows, const struct row *row, struct task *t, struct error *err)
{
    char git_dir[PATH_MAX];
    const char *slash = strchr(row->repo, '/');
    int r = find_repo(rows, row, git_dir, sizeof git_dir, err);
    if (r == 0)
        r = import_text(&t->root, err, "%s/%.*s__%s-%s", rows->cache, (int)(slash - row->repo), row->repo,
                        slash + 1, row->commit);
    return r == 0 ? extract(git_dir, row->commit, t->root, rows->im->o->cancel, err) : r;
}

/* The files that the test patch changes, as the base has them, go to a folder of their own. */
static int copy_base(const struct task *t, int scratch, struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_fd_ int root = open(t->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "%s", t->root);
    for (size_t i = 0; i < t->tests.own.count; i++) {
        const char *path = t->tests.own.items[i];
        _cleanup_buf_ struct buf b = BUF_INIT(TASK_BYTES_MAX);
        struct stat st;
        snprintf(shown, sizeof shown, "%s/%s", t->root, path);
        if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* the patch makes it */
        int r = task_read_file(root, path, shown, &b, err);
        if (r == 0)
            r = import_write(scratch, path, st.st_mode, b.data, b.len);
        if (r < 0)
            return err->code ? r : error_errno(err, -r, "%s", path);
    }
    return 0;
}

/* No repository is meant, not even one that the cache may lie in. */
static int apply_in(const char *folder, const char *patch, struct error *err)
{
    struct git_child g;
    char byte[4096];
    const char *const args[] = {"-C", folder, "--git-dir=/nonexistent", "apply", "--whitespace=nowarn",
                                "-",  NULL};
    int r = git_start(&g, args, patch, strlen(patch), err);
    if (r < 0)
        return r;
    while (fread(byte, 1, sizeof byte, g.out) > 0)
        ;
    return git_end(&g, "test_patch does not apply to the base", err);
}

/* What the tests are once the test patch is applied. */
int swebench_hidden(const struct rows *rows, const struct row *row, struct task *t, struct error *err)
{
    char scratch[PATH_MAX];
    snprintf(scratch, sizeof scratch, "%.4000s/tests.XXXXXX", rows->cache);
    if (!mkdtemp(scratch))
        return error_errno(err, errno, "cannot make a folder in %s", rows->cache);
    _cleanup_fd_ int dir = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = dir < 0 ? error_errno(err, errno, "%s", scratch) : copy_base(t, dir, err);
    if (r == 0)
        r = apply_in(scratch, row->test_patch, err);
    if (r == 0)
        r = task_tree_read(&t->hidden, scratch, "", err);
    import_remove(scratch);
    return r;
}

/* A file of the base that the tests need as it is: staged pristine, like the tests themselves. */
static int take_support(struct task *t, int root, const char *path, const struct task_list *fixed,
                        struct error *err)
{
    char shown[2 * PATH_MAX];
    size_t at;
    struct stat st;
    _cleanup_buf_ struct buf b = BUF_INIT(SUPPORT_MAX);
    if (task_list_has(&t->tests.own, path) || task_list_has(fixed, path) ||
        task_tree_find(&t->files, path, &at) || fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return 0;
    snprintf(shown, sizeof shown, "%s/%s", t->root, path);
    int r = task_read_file(root, path, shown, &b, err);
    if (r == 0 &&
        (task_tree_add(&t->files, path, S_IFREG | 0644, b.data ? (const void *)b.data : "", b.len) < 0 ||
         task_list_add(&t->tests.own, path) < 0))
        r = task_no_memory(err);
    return r;
}

/* What pytest takes from the folders above a test: they are packages, and have fixtures. */
static int take_above(struct task *t, int root, const char *test, const struct task_list *fixed,
                      struct error *err)
{
    static const char *const NAMES[] = {"conftest.py", "__init__.py"};
    char path[PATH_MAX];
    size_t n = strlen(test);
    int r = 0;
    while (r == 0) {
        const char *slash = memrchr(test, '/', n);
        n = slash ? (size_t)(slash - test) : 0;
        for (size_t i = 0; i < (n ? 2 : 1) && r == 0; i++) {
            snprintf(path, sizeof path, "%.*s%s%s", (int)n, test, n ? "/" : "", NAMES[i]);
            r = take_support(t, root, path, fixed, err);
        }
        if (n == 0)
            break;
    }
    return r;
}

/* All such files, but for those that the solution changes. */
int swebench_supports(struct task *t, const char *solution, struct error *err)
{
    static const char *const SETTINGS[] = {"pytest.ini", ".pytest.ini", "tox.ini"};
    struct task_list fixed = {0};
    int r = 0;
    _cleanup_fd_ int root = open(t->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "%s", t->root);
    diff_paths(solution, &fixed, NULL);
    for (size_t i = 0; i < t->tests.paths.count && r == 0; i++)
        r = take_support(t, root, t->tests.paths.items[i], &fixed, err);
    for (size_t i = 0; i < t->tests.paths.count && r == 0; i++)
        r = take_above(t, root, t->tests.paths.items[i], &fixed, err);
    for (size_t i = 0; i < ARRAY_SIZE(SETTINGS) && r == 0; i++)
        r = take_support(t, root, SETTINGS[i], &fixed, err);
    task_list_free(&fixed);
    return r;
}
