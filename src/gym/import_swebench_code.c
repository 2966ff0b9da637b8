/*
 * The code of a repository: the folders from which it is imported, and the names that it has there.
 * A package of that name may be installed on the host, too; the repository's is meant.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "import_swebench.h"
#include "banned.h"

#define NAMES_MAX 2000

/* What the runner of the tests has loaded already, and would not load again. */
static bool is_runners(const char *name)
{
    static const char *const NAMES[] = {"pytest",    "_pytest", "pluggy", "iniconfig",
                                        "packaging", "attr",    "attrs"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0)
            return true;
    return false;
}

/* The name that a file or folder is imported by, or false. */
static bool module_name(const char *folder, const char *entry, char name[NAME_MAX + 1])
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

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names of a folder. */
static int take_names(struct task *t, const char *folder, struct error *err)
{
    char name[NAME_MAX + 1];
    struct dirent *d;
    int r = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    while (r == 0 && (d = readdir(dir)) && t->tests.packages.count < NAMES_MAX) {
        if (!module_name(folder, d->d_name, name) || task_list_has(&t->tests.packages, name))
            continue;
        if (is_runners(name))
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
                                                            : take_names(t, path, err);
    }
    if (r == 0 && t->tests.packages.count > 0)
        qsort(t->tests.packages.items, t->tests.packages.count, sizeof *t->tests.packages.items,
              compare_names);
    return r;
}
