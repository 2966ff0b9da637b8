/*
 * A task's folder. It may be a stranger's: every file of it is opened without following links, must
 * be a regular one, and is read within limits; what does not belong there is an error rather than
 * passed over, since a misspelt `test/` would otherwise be a task without tests.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "relpath.h"
#include "task_private.h"
#include "banned.h"

/* What may lie in a task's folder. */
static const char *const PARTS[] = {"src",           "tests",      "workspace", "hidden",
                                    "patches.json",  "task.json",  "README.md", ".gitignore",
                                    ".pytest_cache", "__pycache__"};

static bool name_ok(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && n < TASK_NAME_MAX && name[n] == 0;
}

static bool is_part(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
        if (strcmp(name, PARTS[i]) == 0)
            return true;
    return false;
}

static int check_parts(const char *folder, struct error *err)
{
    struct dirent *d;
    DIR *dir = opendir(folder);
    if (!dir)
        return error_errno(err, errno, "%s", folder);
    int r = 0;
    while (r == 0 && (d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 && !is_part(d->d_name))
            r = error_set(
                err, EINVAL,
                "%s/%.200s: is no part of a task (src, tests, hidden, workspace, patches.json, "
                "task.json); other files of the workspace go into workspace/",
                folder, d->d_name);
    closedir(dir);
    return r;
}

/* The task's name is its folder's, also when that is given as "." or with a slash behind it. */
static int take_name(struct task *t, const char *folder, struct error *err)
{
    char path[PATH_MAX];
    if (!realpath(folder, path))
        return error_errno(err, errno, "%s", folder);
    const char *name = relpath_name(path);
    if (!name_ok(name))
        return error_set(err, EINVAL,
                         "%s: \"%.100s\" is no name of a task (a to z, 0 to 9 and _, less than %d)",
                         folder, name, TASK_NAME_MAX);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->origin = strdup(path);
    return t->origin ? 0 : task_no_memory(err);
}

static int read_json(struct task *t, int dir, const char *folder, const char *name, size_t max,
                     int (*parse)(struct task *t, const char *text, size_t n, struct error *err),
                     struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(max);
    snprintf(shown, sizeof shown, "%s/%s", folder, name);
    int r = task_read_file(dir, name, shown, &b, err);
    if (r < 0)
        return r;
    r = parse(t, b.data ? (const char *)b.data : "", b.len, err);
    return r < 0 ? error_wrap(err, "%s", shown) : 0;
}

static int read_files(struct task *t, const char *folder, struct error *err)
{
    int r = task_read_part(&t->files, folder, "src", "src", err);
    if (r == 0)
        r = task_read_part(&t->files, folder, "tests", "tests", err);
    if (r == 0)
        r = task_read_part(&t->files, folder, "workspace", "", err);
    return r == 0 ? task_read_part(&t->hidden, folder, "hidden", "", err) : r;
}

int task_load(const char *folder, struct task **ret, struct error *err)
{
    _cleanup_task_ struct task *t = task_new();
    if (!t)
        return task_no_memory(err);
    _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, errno, "%s", folder);
    int r = take_name(t, folder, err);
    if (r == 0)
        r = check_parts(folder, err);
    if (r == 0)
        r = read_json(t, dir, folder, "task.json", TASK_JSON_MAX, task_parse, err);
    if (r == 0)
        r = read_json(t, dir, folder, "patches.json", TASK_DIFFS_MAX, task_parse_patches, err);
    if (r == 0)
        r = read_files(t, folder, err);
    if (r < 0)
        return r;
    r = task_finish(t, err);
    if (r < 0)
        return error_wrap(err, "%s/task.json", folder);
    *ret = TAKE_PTR(t);
    return 0;
}
