/* COPY and ADD: their words and paths, which files of the context they mean, and where those go. */
#include <errno.h>
#include <fnmatch.h>
#include <linux/limits.h>
#include <string.h>

#include "import_dockerfile.h"
#include "import_private.h"
#include "relpath.h"
#include "banned.h"

size_t docker_words(char *at, char *words[DOCKER_WORDS_MAX])
{
    size_t n = 0;
    bool list = *at == '[';
    at += list;
    while (*at && n < DOCKER_WORDS_MAX) {
        at += strspn(at, list ? " \t," : " \t");
        if (!*at || (list && *at == ']'))
            break;
        char quote = *at == '"' || *at == '\'' ? *at++ : 0;
        words[n++] = at;
        at += quote ? strcspn(at, (char[]){quote, 0}) : strcspn(at, list ? ",] \t" : " \t");
        if (*at)
            *at++ = 0;
    }
    return n;
}

bool docker_resolve(const char *base, const char *path, char *ret, size_t size)
{
    char joined[2 * PATH_MAX];
    size_t n = 0;
    if ((size_t)snprintf(joined, sizeof joined, "%s/%s", *path == '/' ? "" : base, path) >=
        sizeof joined)
        return false;
    ret[0] = 0;
    for (char *at = joined, *part; (part = strsep(&at, "/"));) {
        if (!*part || strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            char *slash = strrchr(ret, '/');
            if (slash)
                *slash = 0;
            n = strlen(ret);
            continue;
        }
        int len = snprintf(ret + n, size - n, "/%s", part);
        if (len < 0 || (size_t)len >= size - n)
            return false;
        n += (size_t)len;
    }
    return true;
}

/* Where a file of the context goes when `source` is copied: the part of its path that is put behind
 * the target. NULL: it is not part of the source. */
static const char *part_of(const char *source, const char *path, bool *ret_file)
{
    size_t n = 0;
    source += strncmp(source, "./", 2) == 0 ? 2 : 0;
    size_t length = strlen(source);
    while (length > 0 && source[length - 1] == '/')
        length--;
    if (length == 0 || (length == 1 && *source == '.')) {
        *ret_file = false;
        return path;
    }
    /* Each beginning of the path that ends with a component is tried: it is the file, or a folder
     * above it.
     */
    for (;;) {
        char head[PATH_MAX], pattern[PATH_MAX];
        n += strcspn(path + n, "/");
        snprintf(head, sizeof head, "%.*s", (int)n, path);
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, source);
        if (fnmatch(pattern, head, FNM_PATHNAME) == 0) {
            *ret_file = path[n] == 0;
            return path[n] ? path + n + 1 : relpath_name(path);
        }
        if (!path[n])
            return NULL;
        n++;
    }
}

void docker_top(const char *path, char *ret, size_t size)
{
    path += *path == '/';
    snprintf(ret, size, "%.*s", (int)strcspn(path, "/"), path);
}

/* What boxes have themselves, and where the parts of a task are. */
bool docker_top_free(const char *name)
{
    static const char *const TAKEN[] = {"",    "bin",   "boot",     "dev",    "etc",      "home",
                                        "lib", "lib32", "lib64",    "libx32", "logs",     "proc",
                                        "run", "sbin",  "sys",      "tmp",    "solution", "tests",
                                        "usr", "var",   "workspace"};
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++)
        if (strcmp(name, TAKEN[i]) == 0)
            return false;
    return name[0] != '.';
}

/* The place in the workspace of an absolute path. 0: it has none. */
static int find_place(struct dockerfile *d, const char *path, char *ret, size_t size)
{
    char top[256], own[256];
    docker_top(path, top, sizeof top);
    docker_top(d->workdir, own, sizeof own);
    path += *path == '/';
    const char *rest = path + strcspn(path, "/");
    if (*own && strcmp(top, own) == 0) {
        snprintf(ret, size, "%s", rest + (*rest == '/'));
        return 1;
    }
    if (!docker_top_free(top) ||
        (!task_list_has(&d->tops, top) && d->tops.count >= DOCKER_TOPS_MAX))
        return 0;
    if (!task_list_has(&d->tops, top) && task_list_add(&d->tops, top) < 0)
        return -ENOMEM;
    snprintf(ret, size, DOCKER_TOPS "/%s%s", top, rest);
    return 1;
}

/* A later COPY over an earlier one takes its place. */
static int replace(struct task_file *old, const struct task_file *f)
{
    char *bytes = malloc(f->size + 1);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, f->bytes, f->size + 1);
    free(old->bytes);
    old->mode = f->mode;
    old->bytes = bytes;
    old->size = f->size;
    return 0;
}

static int copy_file(struct dockerfile *d, const struct task_file *f, const char *place)
{
    size_t at;
    d->bytes += f->size;
    if (d->bytes > TASK_BYTES_MAX)
        return -EFBIG;
    if (task_tree_find(&d->files, place, &at))
        return replace(&d->files.items[at], f);
    return task_tree_add(&d->files, place, f->mode, f->bytes, f->size);
}

int docker_copy(struct dockerfile *d, const struct task_tree *context, const struct docker_copy *c,
                const char **ret_why)
{
    char place[3 * PATH_MAX], target[2 * PATH_MAX];
    size_t count = 0;
    int found = find_place(d, c->target, target, sizeof target), r = found < 0 ? found : 0;
    for (size_t i = 0; found && i < context->count && r == 0; i++) {
        const struct task_file *f = &context->items[i];
        bool file;
        const char *part = part_of(c->source, f->path, &file);
        if (!part)
            continue;
        count++;
        if (file && !c->into && *target)
            snprintf(place, sizeof place, "%s", target);
        else
            snprintf(place, sizeof place, "%s%s%s", target, *target ? "/" : "", part);
        r = copy_file(d, f, place);
    }
    if (!found)
        *ret_why = "lies where boxes have something else";
    else if (count == 0)
        *ret_why = "there is no such file";
    return r;
}
