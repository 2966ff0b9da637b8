/* See git.h. */
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "git.h"
#include "io.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define ARGS_MAX      96
#define ENV_MAX       48
#define OUTPUT_MAX    (64u << 20) /* bytes of stdout, unless a call sets its own limit */
#define COMPLAINT_MAX (64u << 10)
#define MEMORY_MAX    (4ull << 30) /* address space of a git that reads what a box made */
#define REFS_MAX      100000u
#define END_PATIENCE  5000 /* milliseconds for git to end once its output has ended */
#define KILL_PATIENCE 200  /* and before and after SIGTERM: it removes its lock files then */

/* Settings that keep git from running a program, reaching a network or starting work in the
 * background. */
static const char *const SETTINGS[] = {
    "core.hooksPath=/dev/null",      "core.fsmonitor=false",    "core.alternateRefsCommand=:",
    "core.attributesFile=/dev/null", "core.pager=cat",          "gc.auto=0",
    "maintenance.auto=false",        "fetch.fsckObjects=true",  "transfer.fsckObjects=true",
    "receive.fsckObjects=true",      "submodule.recurse=false", "core.bigFileThreshold=32m",
    "core.deltaBaseCacheLimit=64m",  "pack.threads=1",          "advice.detachedHead=false",
};

static const char *const CLEAN[] = {
    "HOME=/nonexistent",       "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
    "GIT_ALLOW_PROTOCOL=none", "GIT_ATTR_NOSYSTEM=1",
};

static const char *const ALWAYS[] = {
    "LC_ALL=C",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_OPTIONAL_LOCKS=0",
    "GIT_NO_LAZY_FETCH=1",
    "GIT_NO_REPLACE_OBJECTS=1",
    "GIT_EDITOR=false",
};

/* What a personal call keeps of the caller's environment: where its configuration and its agents
 * are. */
static const char *const PERSONAL[] = {
    "HOME",           "USER",          "LOGNAME",      "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
    "SSH_AUTH_SOCK",  "SSH_AGENT_PID", "GIT_SSH",      "GNUPGHOME",       "http_proxy",
    "https_proxy",    "HTTPS_PROXY",   "no_proxy",     "NO_PROXY",        "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR",
};

struct command_line {
    const char *argv[ARGS_MAX + 1], *envp[ENV_MAX + 1];
    size_t n_args, n_env;
    char *owned[3 + ARRAY_SIZE(PERSONAL)]; /* strings that argv and envp point to */
    size_t n_owned;
    bool failed;
};

static void command_line_free(struct command_line *l)
{
    for (size_t i = 0; i < l->n_owned; i++)
        free(l->owned[i]);
}

static const char *command_line_own(struct command_line *l, const char *prefix, const char *value)
{
    char *text = l->owned[l->n_owned] = str_printf("%s%s", prefix, value);
    l->n_owned += text != NULL;
    l->failed |= !text;
    return text ? text : "";
}

static void command_line_add(struct command_line *l, const char *arg)
{
    if (l->n_args < ARGS_MAX)
        l->argv[l->n_args++] = arg;
    else
        l->failed = true;
}

/* A later variable of the same name takes the place of the earlier one. */
static void command_line_add_env(struct command_line *l, const char *entry)
{
    size_t n = strcspn(entry, "=") + 1, i = 0;
    while (i < l->n_env && strncmp(l->envp[i], entry, n) != 0)
        i++;
    if (i == ENV_MAX) {
        l->failed = true;
        return;
    }
    l->envp[i] = entry;
    l->n_env += i == l->n_env;
}

int git_run_begin(const struct git_call *c, struct child *ret, struct error *err)
{
    _cleanup_(command_line_free) struct command_line l = {0};
    const char *path = getenv("PATH");
    command_line_add(&l, "git");
    for (size_t i = 0; i < ARRAY_SIZE(SETTINGS); i++) {
        command_line_add(&l, "-c");
        command_line_add(&l, SETTINGS[i]);
    }
    if (c->git_dir)
        command_line_add(&l, command_line_own(&l, "--git-dir=", c->git_dir));
    if (c->work_tree)
        command_line_add(&l, command_line_own(&l, "--work-tree=", c->work_tree));
    for (const char *const *arg = c->args; *arg; arg++)
        command_line_add(&l, *arg);
    path = path && *path ? path : "/usr/local/bin:/usr/bin:/bin";
    command_line_add_env(&l, command_line_own(&l, "PATH=", path));
    for (size_t i = 0; i < ARRAY_SIZE(ALWAYS); i++)
        command_line_add_env(&l, ALWAYS[i]);
    for (size_t i = 0; !c->personal && i < ARRAY_SIZE(CLEAN); i++)
        command_line_add_env(&l, CLEAN[i]);
    for (size_t i = 0; c->personal && i < ARRAY_SIZE(PERSONAL); i++) {
        char name[32];
        const char *value = getenv(PERSONAL[i]);
        snprintf(name, sizeof name, "%s=", PERSONAL[i]);
        if (value)
            command_line_add_env(&l, command_line_own(&l, name, value));
    }
    for (const char *const *entry = c->env; entry && *entry; entry++)
        command_line_add_env(&l, *entry);
    if (l.failed)
        return error_errno(err, E2BIG, "cannot start git");

    /* Root must neither run what a stranger's repository may name nor leave files in it that its
     * owner cannot write. */
    struct stat st;
    struct child_user user;
    const char *owned = c->owner_of ? c->owner_of : c->git_dir ? c->git_dir : c->work_tree;
    bool other = geteuid() == 0 && !c->personal && owned && stat(owned, &st) == 0 && st.st_uid != 0;
    if (other)
        user = (struct child_user){st.st_uid, st.st_gid};
    const struct child_options o = {.command = "git",
                                    .argv = (char *const *)l.argv,
                                    .env = (char *const *)l.envp,
                                    .cwd = c->folder      ? c->folder
                                           : c->work_tree ? c->work_tree
                                                          : "/",
                                    .user = other ? &user : NULL};
    int r = child_start(&o, ret, err);
    if (r == 0 && c->hostile) { /* before git has read a byte: its input comes from us */
        const struct rlimit memory = {MEMORY_MAX, MEMORY_MAX}, no_core = {0, 0};
        prlimit(ret->pid, RLIMIT_AS, &memory, NULL);
        prlimit(ret->pid, RLIMIT_CORE, &no_core, NULL);
    }
    return r;
}

/* Reads what is there; closes the stream at its end. False: there is more than the buffer takes,
 * which is dropped. */
static bool git_read(int *fd, struct buf *into)
{
    char data[16 << 10];
    ssize_t n = read(*fd, data, sizeof data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        close(TAKE_FD(*fd));
    else if (into->len + (size_t)n > into->max)
        return false;
    else
        buf_append(into, data, (size_t)n);
    return !into->failed;
}

/* Moves bytes until both outputs have ended. */
static int git_pump(const struct git_call *c, struct child *g, struct buf *out, struct buf *said)
{
    int64_t deadline = clock_now() + (c->timeout_ns ? c->timeout_ns : GIT_TIMEOUT_NS);
    size_t sent = 0;
    if (c->n_input == 0)
        cleanup_close(&g->in), g->in = -1;
    while (g->out >= 0 || g->err >= 0) {
        struct pollfd p[] = {{.fd = g->out, .events = POLLIN},
                             {.fd = g->err, .events = POLLIN},
                             {.fd = g->in, .events = POLLOUT},
                             {.fd = c->cancel > 0 ? c->cancel : -1, .events = POLLIN}};
        int left = clock_poll_ms(deadline);
        if (left == 0)
            return -ETIMEDOUT;
        if (poll(p, ARRAY_SIZE(p), left) < 0 && errno != EINTR)
            return -errno;
        if (p[3].revents)
            return -ECANCELED;
        if (p[0].revents && !git_read(&g->out, out))
            return -ENOBUFS;
        if (p[1].revents)
            git_read(&g->err, said);
        if (p[2].revents) {
            ssize_t n = write(g->in, (const char *)c->input + sent, c->n_input - sent);
            sent += n > 0 ? (size_t)n : 0;
            if (sent == c->n_input || (n < 0 && errno != EAGAIN && errno != EINTR))
                close(TAKE_FD(g->in));
        }
    }
    return 0;
}

int git_run_finish(const struct git_call *c, struct child *child, struct buf *ret_out,
                   struct error *err)
{
    static const char *const PREFIXES[] = {"error: ", "fatal: "};
    struct buf out = BUF_INIT(c->out_max ? c->out_max : OUTPUT_MAX);
    _cleanup_buf_ struct buf said = BUF_INIT(COMPLAINT_MAX);
    const char *what = c->args[0];
    char complaint[400];
    struct sigpipe before;
    sigpipe_block(&before); /* a git that ends before it has read all its input must not end us */
    int r = git_pump(c, child, &out, &said);
    sigpipe_restore(&before);
    int status = child_end(child, r < 0 ? KILL_PATIENCE : END_PATIENCE);
    if (ret_out)
        *ret_out = out;
    else
        buf_free(&out);
    if (r == -ETIMEDOUT)
        return error_set(err, ETIMEDOUT, "git %s took too long and was ended", what);
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "interrupted");
    if (r == -ENOBUFS)
        return error_set(err, ENOBUFS, "git %s printed more than its limit", what);
    if (r < 0)
        return error_errno(err, -r, "cannot wait for git %s", what);

    /* The first line of stderr that is a complaint, without its prefix and control characters. */
    const char *all = buf_cstr(&said), *line = all;
    for (size_t i = 0; all && i < ARRAY_SIZE(PREFIXES) && line == all; i++) {
        const char *at = strstr(all, PREFIXES[i]);
        if (at && (at == all || at[-1] == '\n'))
            line = at + strlen(PREFIXES[i]);
    }
    size_t n = 0;
    for (; line && *line && *line != '\n' && n + 1 < sizeof complaint; line++)
        complaint[n++] = (unsigned char)*line < 0x20 || *line == 0x7f ? '?' : *line;
    complaint[n] = 0;
    if (WIFSIGNALED(status))
        return error_set(err, EIO, "git %s was killed by signal %d%s%s", what, WTERMSIG(status),
                         n ? ": " : "", complaint);
    if (WEXITSTATUS(status) != 0)
        error_set(err, EIO, "git %s: %s", what, n ? complaint : "failed without a message");
    return WEXITSTATUS(status);
}

int git_run(const struct git_call *c, struct buf *ret_out, struct error *err)
{
    struct child child = CHILD_NONE;
    if (ret_out)
        *ret_out = BUF_INIT(OUTPUT_MAX);
    int r = git_run_begin(c, &child, err);
    return r < 0 ? r : git_run_finish(c, &child, ret_out, err);
}

int git_check(const struct git_call *c, struct buf *ret_out, struct error *err)
{
    int r = git_run(c, ret_out, err);
    return r > 0 ? -EIO : r;
}

int git_line(const struct git_call *c, char *ret, size_t size, struct error *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    int r = git_run(c, &out, err);
    const char *text = r == 0 ? buf_cstr(&out) : "";
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    snprintf(ret, size, "%.*s", (int)strcspn(text, "\n"), text);
    return r;
}

/* --- repositories --- */

void git_repo_free(struct git_repo *r)
{
    char *const strings[] = {r->work_tree, r->git_dir, r->common_dir,
                             r->objects,   r->index,   r->shallow};
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        free(strings[i]);
    *r = (struct git_repo){0};
}

int git_repo_open(const char *work_tree, struct git_repo *ret, struct error *err)
{
    static const char *const args[] = {"rev-parse",
                                       "--path-format=absolute",
                                       "--git-dir",
                                       "--git-common-dir",
                                       "--git-path",
                                       "objects",
                                       "--git-path",
                                       "index",
                                       "--git-path",
                                       "shallow",
                                       "--show-object-format",
                                       "--is-shallow-repository",
                                       NULL};
    _cleanup_git_repo_ struct git_repo r = {.work_tree = strdup(work_tree)};
    struct stat st;
    _cleanup_free_ char *dot_git = str_printf("%s/.git", work_tree);
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    if (!dot_git || !r.work_tree)
        return error_set(err, ENOMEM, "no memory");
    /* A .git that is a link into somewhere else is nobody's ordinary repository. */
    if (lstat(dot_git, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
        return -ENOENT;
    int s = git_run(&(struct git_call){.git_dir = dot_git, .work_tree = work_tree, .args = args},
                    &out, err);
    if (s != 0)
        return s < 0 ? s : error_wrap(err, "cannot read the repository %.300s", work_tree);

    /* One line each, in the order of the arguments. A path with a newline gives too many. */
    char **const paths[] = {&r.git_dir, &r.common_dir, &r.objects, &r.index, &r.shallow};
    char *text = buf_cstr(&out), *lines[8] = {0};
    size_t n = 0;
    for (char *line; (line = strsep(&text, "\n")) && *line; n++)
        if (n < ARRAY_SIZE(lines))
            lines[n] = line;
    bool good = n == 7 && strlen(lines[5]) < sizeof r.format;
    for (size_t i = 0; good && i < ARRAY_SIZE(paths); i++)
        good = lines[i][0] == '/' && (*paths[i] = strdup(lines[i]));
    if (!good)
        return error_set(err, EINVAL,
                         "cannot read the repository %.300s: its path has a line break", work_tree);
    snprintf(r.format, sizeof r.format, "%s", lines[5]);
    r.is_shallow = strcmp(lines[6], "true") == 0;
    *ret = r;
    memset(&r, 0, sizeof r);
    return 0;
}

char *git_repo_top(const char *folder)
{
    const char *home = getenv("HOME");
    _cleanup_free_ char *real_home = home && *home ? realpath(home, NULL) : NULL;
    size_t n = io_folder_with(folder, ".git"), n_home = real_home ? strlen(real_home) : 0;
    bool in_home = n_home && strncmp(folder, real_home, n_home) == 0 &&
                   (!folder[n_home] || folder[n_home] == '/');
    return n && (!in_home || n > n_home) ? strndup(folder, n) : NULL;
}

int git_repo_init(const char *work_tree, struct error *err)
{
    const char *const args[] = {"init", "-q", "--template=", work_tree, NULL};
    return git_check(&(struct git_call){.args = args, .owner_of = work_tree}, NULL, err);
}

int git_make_temporary(const char *name, char **ret, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    _cleanup_free_ char *path =
        str_printf("%.400s/%s-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp", name);
    if (!path)
        return error_set(err, ENOMEM, "no memory");
    if (!mkdtemp(path))
        return error_errno(err, errno, "cannot make a temporary folder %s", path);
    *ret = TAKE_PTR(path);
    return 0;
}

static int tree_remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

void git_remove_tree(const char *path)
{
    nftw(path, tree_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- refs --- */

void git_refs_free(struct git_refs *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->items[i].name);
    free(r->items);
    *r = (struct git_refs){0};
}

int git_refs_add(struct git_refs *r, const char *name, const char *id)
{
    if (r->count == REFS_MAX)
        return -E2BIG;
    if (r->count == r->room) {
        size_t room = r->room ? r->room * 2 : 32;
        struct git_ref *items = realloc(r->items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        r->items = items;
        r->room = room;
    }
    struct git_ref *one = &r->items[r->count];
    one->name = strdup(name);
    snprintf(one->id, sizeof one->id, "%s", id);
    r->count += one->name != NULL;
    return one->name ? 0 : -ENOMEM;
}

const struct git_ref *git_refs_find(const struct git_refs *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->items[i].name, name) == 0)
            return &r->items[i];
    return NULL;
}

bool git_refs_have_id(const struct git_refs *r, const char *id)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->items[i].id, id) == 0)
            return true;
    return false;
}

int git_refs_read(const char *git_dir, struct git_refs *ret, struct error *err)
{
    static const char *const args[] = {"for-each-ref", "--format=%(objectname) %(refname)", NULL};
    struct git_refs refs = {0};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    int r = git_run(&(struct git_call){.git_dir = git_dir, .args = args}, &out, err);
    if (r != 0)
        return r < 0 ? r : error_wrap(err, "cannot list the branches");
    char *text = buf_cstr(&out);
    for (char *line; r == 0 && text && (line = strsep(&text, "\n"));) {
        char *space = strchr(line, ' ');
        if (!space)
            continue;
        *space = 0;
        r = git_id_is_valid(line) ? git_refs_add(&refs, space + 1, line) : -EINVAL;
    }
    if (r < 0) {
        git_refs_free(&refs);
        return error_errno(err, -r, "cannot list the branches");
    }
    *ret = refs;
    return 0;
}

/* --- names --- */

bool git_id_is_valid(const char *id)
{
    size_t n = strspn(id, "0123456789abcdef");
    return (n == 40 || n == 64) && !id[n];
}

bool git_ref_name_is_safe(const char *name)
{
    static const char *const KINDS[] = {"refs/heads/", "refs/tags/", "refs/notes/"};
    const char *at = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++)
        if (strncmp(name, KINDS[i], strlen(KINDS[i])) == 0)
            at = name + strlen(KINDS[i]);
    if (!at || strlen(name) > GIT_REF_BYTES || !utf8_valid((const uint8_t *)name, strlen(name)))
        return false;
    for (const char *c = at; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("~^:?*[\\\"'`$;|&<>(){}!", *c) ||
            (c[0] == '.' && c[1] == '.'))
            return false;
    for (;; at++) {
        size_t n = strcspn(at, "/");
        if (n == 0 || at[0] == '.' || at[0] == '-' || at[n - 1] == '.' ||
            (n == 1 && at[0] == '@') || (n == 4 && memcmp(at, "HEAD", 4) == 0) ||
            (n >= 5 && memcmp(at + n - 5, ".lock", 5) == 0))
            return false;
        at += n;
        if (!*at)
            return true;
    }
}

bool git_path_split(const char *path, struct git_path *ret)
{
    static const struct {
        const char *name;
        enum git_path_kind kind;
    } NAMES[] = {{"refs", GIT_PATH_COMMITS},
                 {"objects", GIT_PATH_COMMITS},
                 {"logs", GIT_PATH_COMMITS},
                 {"reftable", GIT_PATH_COMMITS},
                 {"packed-refs", GIT_PATH_COMMITS},
                 {"HEAD", GIT_PATH_COMMITS},
                 {"hooks", GIT_PATH_SETTINGS},
                 {"config", GIT_PATH_SETTINGS},
                 {"config.worktree", GIT_PATH_SETTINGS}};
    const char *at = path;
    while (at && strncmp(at, ".git/", 5) != 0)
        at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL;
    if (!at)
        return false;
    *ret = (struct git_path){.n_folder = at > path ? (size_t)(at - path - 1) : 0,
                             .in_module = strncmp(at, ".git/modules/", 13) == 0};
    /* A submodule's repository lies in modules/NAME, with the same names in it. NAME may have
     * slashes and be "config", so that names are looked for at any depth, and commits win. */
    for (at += 5; at && ret->kind != GIT_PATH_COMMITS; at = strchr(at, '/')) {
        at += *at == '/';
        for (size_t i = 0, n = strcspn(at, "/"); i < ARRAY_SIZE(NAMES); i++)
            if (strlen(NAMES[i].name) == n && memcmp(at, NAMES[i].name, n) == 0)
                ret->kind = NAMES[i].kind;
        if (!ret->in_module)
            break;
    }
    return true;
}
