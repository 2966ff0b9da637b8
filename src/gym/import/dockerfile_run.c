/*
 * RUN: what is to be made of it. What installs packages is left out, since the host must have them;
 * what needs the network or a root user cannot be had; anything else is carried out in the task's
 * box, once, when it is set up.
 */
#include <errno.h>
#include <fnmatch.h>
#include <linux/limits.h>
#include <string.h>

#include "dockerfile.h"
#include "importer.h"
#include "relpath.h"
#include "banned.h"

struct head {
    const char *text;
    enum docker_run kind;
};

/* By how a command begins. The first that fits counts. */
static const struct head HEADS[] = {
    {"apt-get ", DOCKER_RUN_INSTALLS},
    {"apt ", DOCKER_RUN_INSTALLS},
    {"apk ", DOCKER_RUN_INSTALLS},
    {"dnf ", DOCKER_RUN_INSTALLS},
    {"yum ", DOCKER_RUN_INSTALLS},
    {"pip ", DOCKER_RUN_INSTALLS},
    {"pip3 ", DOCKER_RUN_INSTALLS},
    {"python3 -m pip ", DOCKER_RUN_INSTALLS},
    {"python -m pip ", DOCKER_RUN_INSTALLS},
    {"uv pip ", DOCKER_RUN_INSTALLS},
    {"DEBIAN_FRONTEND=noninteractive apt", DOCKER_RUN_INSTALLS},
    {"locale-gen", DOCKER_RUN_INSTALLS},
    {"rm -rf /var/lib/apt", DOCKER_RUN_INSTALLS},
    {"rm -rf /var/cache", DOCKER_RUN_INSTALLS},
    {"rm -rf /root/.cache", DOCKER_RUN_INSTALLS},
    {"rm -rf /tmp", DOCKER_RUN_INSTALLS},
    {"true", DOCKER_RUN_INSTALLS},
    {"export ", DOCKER_RUN_INSTALLS},
    {"set -", DOCKER_RUN_INSTALLS},
    {"mkdir ", DOCKER_RUN_MAY},
    {"chmod ", DOCKER_RUN_MAY},
    {"chown ", DOCKER_RUN_MAY},
    {"git config ", DOCKER_RUN_MAY},
    {"git clone ", DOCKER_RUN_NETWORK},
    {"curl ", DOCKER_RUN_NETWORK},
    {"wget ", DOCKER_RUN_NETWORK},
    {"npm ", DOCKER_RUN_NETWORK},
    {"npx ", DOCKER_RUN_NETWORK},
    {"yarn ", DOCKER_RUN_NETWORK},
    {"pnpm ", DOCKER_RUN_NETWORK},
    {"gem ", DOCKER_RUN_NETWORK},
    {"conda ", DOCKER_RUN_NETWORK},
    {"uv ", DOCKER_RUN_NETWORK},
    {"poetry ", DOCKER_RUN_NETWORK},
    {"rustup ", DOCKER_RUN_NETWORK},
    {"huggingface-cli ", DOCKER_RUN_NETWORK},
    {"add-apt-repository ", DOCKER_RUN_NETWORK},
    {"useradd ", DOCKER_RUN_ROOT},
    {"adduser ", DOCKER_RUN_ROOT},
    {"groupadd ", DOCKER_RUN_ROOT},
    {"usermod ", DOCKER_RUN_ROOT},
    {"chpasswd", DOCKER_RUN_ROOT},
    {"service ", DOCKER_RUN_ROOT},
    {"systemctl ", DOCKER_RUN_ROOT},
    {"update-alternatives ", DOCKER_RUN_ROOT},
    {"sudo ", DOCKER_RUN_ROOT},
};

static enum docker_run kind_of(const char *at, size_t n)
{
    while (n > 0 && strchr(" \t({", *at))
        at++, n--;
    if (n == 0 || *at == '#')
        return DOCKER_RUN_INSTALLS;
    for (size_t i = 0; i < ARRAY_SIZE(HEADS); i++)
        if (n >= strlen(HEADS[i].text) && strncmp(at, HEADS[i].text, strlen(HEADS[i].text)) == 0)
            return HEADS[i].kind;
    return DOCKER_RUN_MUST;
}

/* The length of one command: up to &&, ||, ; or the end of a line that are not in quotes. */
static size_t command_length(const char *at)
{
    char quote = 0;
    size_t n = 0;
    for (; at[n]; n++) {
        if (at[n] == '\\' && at[n + 1] && quote != '\'')
            n++;
        else if (quote)
            quote = at[n] == quote ? 0 : quote;
        else if (at[n] == '"' || at[n] == '\'')
            quote = at[n];
        else if (strchr("&;|\n", at[n]))
            break;
    }
    return n;
}

enum docker_run docker_run_kind(const char *command)
{
    enum docker_run worst = DOCKER_RUN_INSTALLS;
    while (*command) {
        size_t n = command_length(command);
        enum docker_run kind = kind_of(command, n);
        worst = kind > worst ? kind : worst;
        command += n;
        command += strspn(command, "&;|\n");
    }
    return worst;
}

static void put_quoted(struct buf *b, const char *text)
{
    buf_append_str(b, "'");
    for (; *text; text++)
        if (*text == '\'')
            buf_append_str(b, "'\\''");
        else
            buf_append(b, text, 1);
    buf_append_str(b, "'");
}

void docker_run_add(struct dockerfile *d, unsigned line, const char *folder, const char *command,
                    bool must)
{
    buf_printf(&d->setup, "run %u ", line);
    put_quoted(&d->setup, folder);
    buf_append_str(&d->setup, must ? " must " : " may ");
    put_quoted(&d->setup, command);
    buf_append_str(&d->setup, "\n");
}

/* COPY and ADD: their words and paths, which files of the context they mean, and where those go. */

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
     * above it. */
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
        *ret_why = "is a path that a box uses for something else";
    else if (count == 0)
        *ret_why = "there is no such file";
    return r;
}
