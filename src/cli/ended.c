#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ended.h"
#include "say.h"
#include "banned.h"

/* The first three and the last end a command; of the other two it gets errors, and may end by itself. */
static void explain_limit(enum wire_limit limit)
{
    static const char *const limits[] = {
        [WIRE_LIMIT_TIMEOUT] = "the command ran longer than its time limit and was ended; see --timeout",
        [WIRE_LIMIT_CPU] = "the command used more CPU time than its limit and was ended; see --cpu-time",
        [WIRE_LIMIT_MEMORY] = "the command needed more memory than the box has and was ended; see --memory",
        [WIRE_LIMIT_PIDS] = "the command needed more processes than the box may have; see --pids",
        [WIRE_LIMIT_DISK] = "the command wrote until the box was full; see --disk",
        [WIRE_LIMIT_OUTPUT] = "the command printed more than it may and was ended; see --output-total",
    };
    if ((size_t)limit < ARRAY_SIZE(limits) && limits[limit])
        say("%s", limits[limit]);
}

/* Looks a command up in the host's PATH; true with its absolute path. */
static bool find_on_host(const char *name, char *path, size_t size)
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

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* Is a program at this path of the host in the box, too? If so it was found, and the status is its own. */
static bool is_shown(const char *path, const struct box_options *o)
{
    static const char *const selection[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    for (size_t i = 0; !(o && o->image) && i < ARRAY_SIZE(selection); i++)
        if (is_below(path, selection[i]))
            return true;
    for (size_t i = 0; o && i < o->n_shares; i++)
        if (is_below(path, o->shares[i].source) || is_below(path, o->shares[i].at))
            return true;
    return false;
}

/* The folder to show for a program: the one above `bin`, where its libraries are, unless that is everything.
 */
static void folder_to_show(const char *path, char *folder, size_t size)
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

/* A program that is on the host and not in the box: true if that was it, and was said. */
static bool explain_missing(const char *name, const struct box_options *o)
{
    char path[PATH_MAX], folder[PATH_MAX];
    if (strchr(name, '/') || !find_on_host(name, path, sizeof path) || is_shown(path, o))
        return false;
    if (o && o->image && is_below(path, "/usr")) {
        say("'%s' is not in the image but is at %s on the host", name, path);
        return true;
    }
    folder_to_show(path, folder, sizeof folder);
    say("'%s' is not in the box but is at %s on the host; show it with --ro %s and call it by"
        " that path",
        name, path, folder);
    return true;
}

void ended_explain(const struct box_result *r, const struct box_options *options, const char *name)
{
    explain_limit(r->limit);
    if (r->failure[0] && !(r->exit_code == 127 && explain_missing(name, options)))
        say("cannot run %s", r->failure);
}
