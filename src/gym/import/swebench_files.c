/*
 * The files of a row: the base, extracted once per commit; the tests, which are the base's with the
 * test patch applied; and what pytest takes from the folders around them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "relpath.h"
#include "swebench.h"
#include "banned.h"

#define SUPPORT_MAX (4u << 20)

/* A repository of SWE-smith's is a copy, OWNER__NAME.COMMIT: the one that it was made from will do
 * as well. */
static bool repo_smith_origin(const char *repo, char owner[256], const char **ret_name,
                              char commit[GIT_ID_SIZE])
{
    const char *mirror = strncmp(repo, "swesmith/", 9) == 0 ? repo + 9 : "",
               *point = strrchr(mirror, '.');
    char *both;
    snprintf(owner, 256, "%.*s", point ? (int)(point - mirror) : 0, mirror);
    both = strstr(owner, "__");
    if (!point || !both)
        return false;
    *both = 0;
    *ret_name = both + 2;
    snprintf(commit, GIT_ID_SIZE, "%.64s", point + 1);
    return true;
}

/* The git folder of a repository in the folder of repositories: OWNER__NAME, OWNER/NAME or NAME, as
 * they are or with .git behind them. */
static bool repo_find_git(const char *repos, const char *owner, const char *name, char *dir,
                          size_t size)
{
    char path[PATH_MAX];
    for (unsigned i = 0; i < 6; i++) {
        const char *end = i % 2 ? ".git" : "";
        if (i < 4)
            snprintf(path, sizeof path, "%.3000s/%s%s%s%s", repos, owner, i < 2 ? "__" : "/", name,
                     end);
        else
            snprintf(path, sizeof path, "%.3000s/%s%s", repos, name, end);
        if (git_find(path, dir, size) == 0)
            return true;
    }
    return false;
}

static int repo_find(const struct rows *rows, const struct row *row, char *dir, size_t size,
                     struct error *err)
{
    const char *repos = rows->im->o->repos, *name = strchr(row->repo, '/') + 1, *first;
    char owner[256], origin[256], commit[GIT_ID_SIZE];
    if (!repos)
        return error_set(err, EINVAL,
                         "needs its repository %s: name the folder that contains it with --repos",
                         row->repo);
    snprintf(owner, sizeof owner, "%.*s", (int)(name - row->repo - 1), row->repo);
    if (repo_find_git(repos, owner, name, dir, size))
        return 0;
    if (repo_smith_origin(row->repo, origin, &first, commit) &&
        repo_find_git(repos, origin, first, dir, size))
        return 0;
    return error_set(err, ENOENT, "there is no repository %s__%s (nor %s) in %s", owner, name, name,
                     repos);
}

/* The commit that is meant: the row's; or the one of the repository's name; or what is checked out,
 * in a copy that has no other. */
static int repo_find_commit(const struct row *row, const char *git_dir, char ret[GIT_ID_SIZE],
                            struct error *err)
{
    char origin[256], commit[GIT_ID_SIZE];
    const char *name;
    struct error why = {0};
    size_t n = row->commit ? strlen(row->commit) : 0;
    if (n == 40 || n == 64)
        return memcpy(ret, row->commit, n + 1), 0;
    if (row->commit)
        return git_resolve(git_dir, row->commit, ret, err);
    if (repo_smith_origin(row->repo, origin, &name, commit) &&
        git_resolve(git_dir, commit, ret, &why) == 0)
        return 0;
    return git_resolve(git_dir, "HEAD", ret, err);
}

int swebench_root(const struct rows *rows, const struct row *row, struct task *t, struct error *err)
{
    char git_dir[PATH_MAX], commit[GIT_ID_SIZE];
    const char *slash = strchr(row->repo, '/');
    int r = repo_find(rows, row, git_dir, sizeof git_dir, err);
    if (r == 0)
        r = repo_find_commit(row, git_dir, commit, err);
    if (r == 0)
        r = import_text(&t->root, err, "%s/%.*s__%s-%s", rows->cache, (int)(slash - row->repo),
                        row->repo, slash + 1, commit);
    struct stat st;
    if (r < 0 || stat(t->root, &st) == 0)
        return r;
    /* extracted beside its place and then moved there */
    char temporary[PATH_MAX];
    snprintf(temporary, sizeof temporary, "%.4000s.XXXXXX", t->root);
    if (!mkdtemp(temporary) || chmod(temporary, 0755) < 0)
        return error_errno(err, errno, "cannot make a folder in %s", t->root);
    r = git_extract(git_dir, commit, temporary, rows->im->o->cancel, err);
    if (r == 0 && rename(temporary, t->root) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        r = error_errno(err, errno, "cannot make %s", t->root);
    import_remove(temporary);
    return r;
}

/* Files of the base, as far as they are there, go to a folder of their own. */
static int scratch_copy_base(const struct task *t, const struct task_list *paths, int scratch,
                             struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_fd_ int root = open(t->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "%s", t->root);
    for (size_t i = 0; i < paths->count; i++) {
        const char *path = paths->items[i];
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

int swebench_scratch(const struct rows *rows, const struct task *t, const struct task_list *paths,
                     char scratch[PATH_MAX], struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/files.XXXXXX", rows->cache);
    if (!mkdtemp(path))
        return error_errno(err, errno, "cannot make a folder in %s", rows->cache);
    _cleanup_fd_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = dir < 0 ? error_errno(err, errno, "%s", path) : scratch_copy_base(t, paths, dir, err);
    if (r < 0)
        import_remove(path);
    else
        memcpy(scratch, path, sizeof path);
    return r;
}

/* No repository is meant, not even one that the cache may lie in. */
int swebench_apply(const char *scratch, const char *patch, bool reverse, const char *doing,
                   struct error *err)
{
    struct git_child g;
    char byte[4096];
    const char *const args[] = {"-C",
                                scratch,
                                "--git-dir=/nonexistent",
                                "apply",
                                "--whitespace=nowarn",
                                reverse ? "-R" : "-",
                                reverse ? "-" : NULL,
                                NULL};
    int r = git_start(&g, args, patch, strlen(patch), err);
    if (r < 0)
        return r;
    while (fread(byte, 1, sizeof byte, g.out) > 0)
        ;
    return git_end(&g, doing, err);
}

/* What the tests are once the test patch is applied. */
int swebench_hidden(const struct rows *rows, const char *test_patch, struct task *t,
                    struct error *err)
{
    char scratch[PATH_MAX];
    int r = swebench_scratch(rows, t, &t->tests.own, scratch, err);
    if (r < 0)
        return r;
    r = swebench_apply(scratch, test_patch, false, "test_patch does not apply to the base", err);
    if (r == 0)
        r = task_tree_read(&t->hidden, scratch, "", err);
    import_remove(scratch);
    return r;
}

/* A file of the base that the tests need as it is: staged pristine, like the tests themselves. */
static int support_take(struct task *t, int root, const char *path, const struct task_list *fixed,
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
    if (r == 0 && (task_tree_add(&t->files, path, S_IFREG | 0644,
                                 b.data ? (const void *)b.data : "", b.len) < 0 ||
                   task_list_add(&t->tests.own, path) < 0))
        r = task_no_memory(err);
    return r;
}

/* What pytest takes from the folders above a test: they are packages, and have fixtures. */
static int support_take_above(struct task *t, int root, const char *test,
                              const struct task_list *fixed, struct error *err)
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
            r = support_take(t, root, path, fixed, err);
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
        r = support_take(t, root, t->tests.paths.items[i], &fixed, err);
    for (size_t i = 0; i < t->tests.paths.count && r == 0; i++)
        r = support_take_above(t, root, t->tests.paths.items[i], &fixed, err);
    for (size_t i = 0; i < ARRAY_SIZE(SETTINGS) && r == 0; i++)
        r = support_take(t, root, SETTINGS[i], &fixed, err);
    task_list_free(&fixed);
    return r;
}

/*
 * The code of a repository: the folders from which it is imported, and the names that it has there.
 * A package of that name may be installed on the host, too; the repository's is meant.
 */

#define NAMES_MAX 2000

/* The name that a file or folder is imported by, or false. */
static bool code_module_name(const char *folder, const char *entry, char name[NAME_MAX + 1])
{
    char path[2 * PATH_MAX];
    struct stat st;
    size_t n = strlen(entry);
    snprintf(name, NAME_MAX + 1, "%s", entry);
    snprintf(path, sizeof path, "%s/%s/__init__.py", folder, entry);
    if (n > 3 && strcmp(entry + n - 3, ".py") == 0)
        name[n - 3] = 0;
    else if (stat(path, &st) < 0)
        return false;
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] ==
           0;
}

/* All names of a folder. */
static int code_take_names(struct task *t, const char *folder, struct error *err)
{
    static const char *const RUNNERS[] = {"pytest",    "_pytest", "pluggy", "iniconfig",
                                          "packaging", "attr",    "attrs"};
    char name[NAME_MAX + 1];
    struct dirent *d;
    int r = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    while (r == 0 && (d = readdir(dir)) && t->tests.packages.count < NAMES_MAX) {
        if (!code_module_name(folder, d->d_name, name) || task_list_has(&t->tests.packages, name))
            continue;
        bool loaded = false; /* by the runner of the tests, which would not load it again */
        for (size_t i = 0; i < ARRAY_SIZE(RUNNERS); i++)
            loaded |= strcmp(name, RUNNERS[i]) == 0;
        if (loaded)
            r = error_set(err, EOPNOTSUPP, "its package %s is part of what runs the tests here",
                          name);
        else if (task_list_add(&t->tests.packages, name) < 0)
            r = task_no_memory(err);
    }
    closedir(dir);
    return r;
}

int swebench_code(struct task *t, struct error *err)
{
    static const char *const FOLDERS[] = {"src", "lib", "."};
    char path[PATH_MAX];
    struct stat st;
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS) && r == 0; i++) {
        snprintf(path, sizeof path, "%.4000s/%s", t->root, FOLDERS[i]);
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        r = task_list_add(&t->tests.import, FOLDERS[i]) < 0 ? task_no_memory(err)
                                                            : code_take_names(t, path, err);
    }
    if (r == 0)
        task_list_sort(&t->tests.packages);
    return r;
}
