/*
 * Repositories, read with git's plumbing alone. A repository is a stranger's, and its settings
 * could name programs: hooks, filters, a monitor of the file system, transports. None of the
 * commands used here runs any of these (objects are listed and printed raw), the person's own
 * settings are left out, and no box can write where git runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "importer.h"
#include "io.h"
#include "relpath.h"
#include "thread.h"
#include "banned.h"

#define ARGS_MAX    32
#define LIST_MAX    (64u << 20) /* bytes of the list of a commit's files */
#define FILES_MAX   400000u
#define EXTRACT_MAX (4ull << 30)
#define SAID_MAX    300

static int git_spawn(const char *const *args, int in, int out, int said, pid_t *ret)
{
    char path[PATH_MAX + 8];
    const char *search = getenv("PATH");
    snprintf(path, sizeof path, "PATH=%s", search ? search : "/usr/bin:/bin");
    char *env[] = {path,
                   (char[]){"LC_ALL=C"},
                   (char[]){"HOME=/nonexistent"},
                   (char[]){"GIT_CONFIG_NOSYSTEM=1"},
                   (char[]){"GIT_CONFIG_GLOBAL=/dev/null"},
                   (char[]){"GIT_TERMINAL_PROMPT=0"},
                   (char[]){"GIT_OPTIONAL_LOCKS=0"},
                   (char[]){"GIT_NO_LAZY_FETCH=1"},
                   (char[]){"GIT_NO_REPLACE_OBJECTS=1"},
                   NULL};
    const char *argv[ARGS_MAX] = {"git",
                                  "-c",
                                  "protocol.allow=never",
                                  "-c",
                                  "core.fsmonitor=false",
                                  "-c",
                                  "core.hooksPath=/dev/null"};
    size_t n = 7;
    for (; *args && n + 1 < ARGS_MAX; args++)
        argv[n++] = *args;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, said, 2);
    int r = posix_spawnp(ret, "git", &actions, NULL, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int git_start(struct git_child *g, const char *const *args, const void *input, size_t n,
              struct error *err)
{
    _cleanup_fd_ int in = io_memory_file(input ? input : "", n), said = io_memory_file("", 0);
    int out[2] = {-1, -1};
    *g = (struct git_child){.said = -1};
    int r = in < 0 ? in : said < 0 ? said : 0;
    if (r == 0 && pipe2(out, O_CLOEXEC) < 0)
        r = -errno;
    if (r < 0)
        return error_errno(err, -r, "cannot start git");
    r = git_spawn(args, in, out[1], said, &g->pid);
    close(out[1]);
    g->out = r == 0 ? fdopen(out[0], "r") : NULL;
    if (!g->out)
        close(out[0]);
    if (r < 0)
        return error_errno(err, -r, "cannot start git (is it installed?)");
    g->said = TAKE_FD(said);
    return g->out ? 0 : git_end(g, "git", err);
}

int git_end(struct git_child *g, const char *doing, struct error *err)
{
    char said[SAID_MAX];
    int status;
    bool early = !g->out;
    if (g->out)
        fclose(g->out); /* a child that still writes ends by that */
    while (waitpid(g->pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, errno, "%s", doing);
    ssize_t n = pread(g->said, said, SAID_MAX - 1, 0);
    said[n > 0 ? n : 0] = 0;
    said[strcspn(said, "\n")] = 0; /* the first line */
    close(g->said);
    if (early)
        return task_no_memory(err);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return error_set(err, EIO, "%s: %s", doing, said[0] ? said : "git failed");
}

int git_find(const char *folder, char *dir, size_t size)
{
    struct stat st;
    snprintf(dir, size, "%s/.git", folder);
    if (stat(dir, &st) == 0)
        return 0;
    snprintf(dir, size, "%s/objects", folder);
    if (stat(dir, &st) < 0)
        return -errno;
    snprintf(dir, size, "%s", folder);
    return 0;
}

int git_resolve(const char *git_dir, const char *name, char ret[GIT_ID_SIZE], struct error *err)
{
    struct git_child g;
    char dir[PATH_MAX + 16], wanted[GIT_ID_SIZE + 16], id[GIT_ID_SIZE + 8] = "", more[64];
    snprintf(dir, sizeof dir, "--git-dir=%s", git_dir);
    snprintf(wanted, sizeof wanted, "%.64s^{commit}", name);
    const char *const args[] = {dir, "rev-parse", "--verify", "--end-of-options", wanted, NULL};
    int r = git_start(&g, args, NULL, 0, err);
    if (r < 0)
        return r;
    bool said = fgets(id, sizeof id, g.out) != NULL;
    while (fgets(more, sizeof more, g.out))
        ;
    r = git_end(&g, "cannot read the commit", err);
    id[strcspn(id, "\n")] = 0;
    size_t n = strlen(id);
    if (r == 0 && (!said || n >= GIT_ID_SIZE || id[strspn(id, "0123456789abcdef")]))
        r = error_set(err, EIO, "cannot read the commit: git says %.80s", id);
    if (r == 0)
        memcpy(ret, id, n + 1);
    return r;
}

/* A file of the list: `MODE TYPE ID\tPATH`. */
struct entry {
    unsigned mode;
    const char *id, *path;
};

static bool entry_parse(char *line, struct entry *ret)
{
    char *tab = strchr(line, '\t'), *type = strchr(line, ' ');
    char *id = type ? strchr(type + 1, ' ') : NULL;
    if (!tab || !id || id > tab)
        return false;
    *tab = *type = *id = 0;
    *ret = (struct entry){(unsigned)strtoul(line, NULL, 8), id + 1, tab + 1};
    return strcmp(type + 1, "blob") == 0; /* a submodule is no file */
}

struct listing {
    struct buf text; /* the entries point into it */
    struct entry *items;
    size_t count;
};

static void listing_free(struct listing *l)
{
    buf_free(&l->text);
    free(l->items);
}

static int listing_split(struct listing *l, struct error *err)
{
    char *at = (char *)l->text.data, *end = at + l->text.len;
    size_t lines = 0;
    for (size_t i = 0; i < l->text.len; i++)
        lines += l->text.data[i] == 0;
    if (lines > FILES_MAX)
        return error_set(err, E2BIG, "the commit has more than %u files", FILES_MAX);
    l->items = calloc(lines + 1, sizeof *l->items);
    if (!l->items)
        return task_no_memory(err);
    for (char *zero; at < end && (zero = memchr(at, 0, (size_t)(end - at))); at = zero + 1)
        l->count += entry_parse(at, &l->items[l->count]);
    return 0;
}

static int listing_read(const char *git_dir, const char *commit, struct listing *ret,
                        struct error *err)
{
    struct git_child g;
    char dir[PATH_MAX + 16];
    snprintf(dir, sizeof dir, "--git-dir=%s", git_dir);
    const char *const args[] = {dir, "ls-tree", "-r", "-z", "--full-tree", commit, NULL};
    int r = git_start(&g, args, NULL, 0, err);
    if (r < 0)
        return r;
    int code = io_read_all(fileno(g.out), &ret->text);
    r = git_end(&g, "cannot read the commit", err);
    if (code == -ENOBUFS)
        return error_set(err, E2BIG, "the commit has too many files");
    if (r == 0 && code < 0)
        r = error_errno(err, -code, "git");
    return r < 0 ? r : listing_split(ret, err);
}

/* One object of `cat-file --batch`: `ID blob SIZE\n`, the bytes, `\n`. */
static int object_read(FILE *in, struct buf *b, uint64_t room)
{
    char line[256], type[32];
    unsigned long long size;
    if (!fgets(line, sizeof line, in) || sscanf(line, "%*s %31s %llu", type, &size) != 2)
        return -EIO;
    if (strcmp(type, "blob") != 0)
        return -EIO;
    if (size > room || size >= b->max)
        return -EFBIG;
    b->len = 0;
    void *to = buf_reserve(b, (size_t)size + 1);
    if (!to)
        return -ENOMEM;
    if (fread(to, 1, (size_t)size + 1, in) != (size_t)size + 1)
        return -EIO;
    b->len = (size_t)size;
    return 0;
}

static int objects_write(FILE *in, const struct listing *l, int root, int cancel, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1u << 30);
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct entry *e = &l->items[i];
        int r = cancel_check(cancel, err);
        if (r < 0)
            return r;
        r = object_read(in, &b, EXTRACT_MAX - bytes);
        if (r == -EFBIG)
            return error_set(err, EFBIG, "the commit's files are more than %llu GiB",
                             EXTRACT_MAX >> 30);
        if (r == 0) {
            bytes += b.len;
            r = import_write(root, e->path, e->mode, b.data, b.len);
        }
        if (r < 0)
            return error_errno(err, -r, "%.300s", e->path);
    }
    return 0;
}

int git_extract(const char *git_dir, const char *commit, const char *folder, int cancel,
                struct error *err)
{
    _cleanup_(listing_free) struct listing l = {.text = BUF_INIT(LIST_MAX)};
    _cleanup_buf_ struct buf ids = BUF_INIT(FILES_MAX * 80);
    struct git_child g;
    char dir[PATH_MAX + 16];
    int r = listing_read(git_dir, commit, &l, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < l.count; i++)
        buf_printf(&ids, "%s\n", l.items[i].id);
    if (ids.failed)
        return task_no_memory(err);
    _cleanup_fd_ int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "%s", folder);
    snprintf(dir, sizeof dir, "--git-dir=%s", git_dir);
    const char *const args[] = {dir, "cat-file", "--batch", NULL};
    r = git_start(&g, args, ids.data, ids.len, err);
    if (r < 0)
        return r;
    r = objects_write(g.out, &l, root, cancel, err);
    int ended = git_end(&g, "cannot read the commit's files", r < 0 ? NULL : err);
    return r < 0 ? r : ended;
}
