/*
 * Where tasks lie: in a folder that somebody names, in $HUTCH_TASKS, or with hutch itself: beside
 * the build folder in a source tree, in share/hutch/tasks of an installation.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "names.h"
#include "parts.h"
#include "relpath.h"
#include "task_private.h"
#include "banned.h"

#define TASKS_MAX 100000u

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder of our own tasks, from where the guest is: build/ or libexec/hutch/. */
static int find_ours(char path[PATH_MAX], struct error *err)
{
    static const char *const PLACES[] = {"../tasks", "../../share/hutch/tasks"};
    char part[PARTS_PATH_MAX], place[PARTS_PATH_MAX + 64];
    int r = parts_find("hutch-guest", part, err);
    if (r < 0)
        return r;
    *strrchr(part, '/') = 0;
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        snprintf(place, sizeof place, "%s/%s", part, PLACES[i]);
        if (is_folder(place) && realpath(place, path))
            return 0;
    }
    return error_set(err, ENOENT,
                     "the tasks of hutch are neither in %s/%s nor in %s/%s: name a folder with "
                     "--tasks or HUTCH_TASKS",
                     part, PLACES[0], part, PLACES[1]);
}

static int find_folder(const char *tasks, char path[PATH_MAX], struct error *err)
{
    const char *env = getenv("HUTCH_TASKS");
    const char *named = tasks ? tasks : env && *env ? env : NULL;
    if (!named)
        return find_ours(path, err);
    if (strlen(named) >= PATH_MAX)
        return error_errno(err, ENAMETOOLONG, "the folder of the tasks");
    if (!is_folder(named))
        return error_set(err, ENOENT, "%s: is no folder%s", named, tasks ? "" : " (HUTCH_TASKS)");
    snprintf(path, PATH_MAX, "%s", named);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each folder that has a task.json; others are none of ours. */
static int list(const char *folder, struct task_list *ret, struct error *err)
{
    char path[PATH_MAX + NAME_MAX + 16];
    struct dirent *d;
    struct stat st;
    int r = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return error_errno(err, errno, "%s", folder);
    while (r == 0 && (d = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s/task.json", folder, d->d_name);
        if (d->d_name[0] == '.' || lstat(path, &st) < 0)
            continue;
        r = ret->count < TASKS_MAX ? task_list_add(ret, d->d_name) : -E2BIG;
    }
    closedir(dir);
    if (r < 0)
        return error_errno(err, -r, "%s", folder);
    if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof *ret->items, compare_names);
    return 0;
}

int task_names(const char *tasks, struct task_list *ret, struct error *err)
{
    char folder[PATH_MAX];
    struct task_list names = {0};
    int r = find_folder(tasks, folder, err);
    if (r == 0)
        r = list(folder, &names, err);
    if (r < 0) {
        task_list_free(&names);
        return r;
    }
    *ret = names;
    return 0;
}

/* A task of the current folder is named with a slash. */
static bool is_here(const char *name)
{
    char path[TASK_NAME_MAX + 16];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/task.json", name);
    return *name && n > 0 && n < (int)sizeof path && lstat(path, &st) == 0;
}

static int no_such_task(const char *folder, const char *name, struct error *err)
{
    struct task_list names = {0};
    if (is_here(name))
        return error_set(err, ENOENT, "there is no task %.100s in %s; the one here is ./%.100s",
                         name, folder, name);
    struct nearest near = nearest_to(name, strlen(name));
    if (list(folder, &names, NULL) == 0)
        for (size_t i = 0; i < names.count; i++)
            nearest_offer(&near, names.items[i]);
    int r = near.best ? error_set(err, ENOENT, "there is no task %.100s in %s; did you mean %s?",
                                  name, folder, near.best)
                      : error_set(err, ENOENT,
                                  "there is no task %.100s in %s; `hutch gym tasks` lists them",
                                  name, folder);
    task_list_free(&names);
    return r;
}

int task_find(const char *tasks, const char *name, struct task **ret, struct error *err)
{
    char folder[PATH_MAX], path[PATH_MAX + TASK_NAME_MAX + 16];
    if (strchr(name, '/'))
        return task_load(name, ret, err);
    int r = find_folder(tasks, folder, err);
    if (r < 0)
        return r;
    if (strlen(name) >= TASK_NAME_MAX || strcmp(name, "") == 0 || name[0] == '.')
        return no_such_task(folder, name, err);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return is_folder(path) ? task_load(path, ret, err) : no_such_task(folder, name, err);
}
