#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "missing.h"
#include "banned.h"

#define NAME_MOST 64

bool missing_on_host(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t n = strcspn(at, ":");
        struct stat st;
        int len = snprintf(path, size, "%.*s/%s", (int)n, at, name);
        if (at[0] == '/' && len > 0 && (size_t)len < size && access(path, X_OK) == 0 &&
            stat(path, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

bool missing_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

void missing_folder(const char *path, char *folder, size_t size)
{
    snprintf(folder, size, "%s", path);
    char *slash = strrchr(folder, '/');
    *slash = 0;
    const char *home = getenv("HOME");
    slash = strrchr(folder, '/');
    if (!slash || slash == folder || strcmp(slash, "/bin") != 0)
        return;
    *slash = 0;
    if ((home && strcmp(folder, home) == 0) || strcmp(folder, "/usr") == 0)
        *slash = '/';
}

/* The name in "bash: line 1: NAME: command not found", the last line. What it says is the box's
 * word: only what looks like the name of a program is looked for. */
static bool find_name(const struct box_capture *output, char *name, size_t size)
{
    static const char mark[] = ": command not found\n",
                      letters[] =
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    const struct buf *b = output->tail.len ? &output->tail : &output->head;
    size_t n = strlen(mark);
    if (b->len < n || memcmp(b->data + b->len - n, mark, n) != 0)
        return false;
    size_t end = b->len - n, begin = end;
    while (begin > 0 && end - begin < size && b->data[begin - 1] &&
           strchr(letters, b->data[begin - 1]))
        begin--;
    if (begin == end || end - begin >= size)
        return false;
    snprintf(name, size, "%.*s", (int)(end - begin), (const char *)b->data + begin);
    return true;
}

bool missing_describe(const struct box_capture *output, char *text, size_t size)
{
    static const char *const shown[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    char name[NAME_MOST], path[PATH_MAX], folder[PATH_MAX];
    if (!find_name(output, name, sizeof name) || !missing_on_host(name, path, sizeof path))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
        if (missing_is_below(path, shown[i]))
            return false;
    missing_folder(path, folder, sizeof folder);
    snprintf(text, size,
             "'%s' is not in the box but is at %.300s on the host; a person can show it with --ro "
             "%.300s when the"
             " box is made",
             name, path, folder);
    return true;
}
