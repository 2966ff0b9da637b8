#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "git_run.h"
#include "io.h"
#include "banned.h"

#define ARGS_MAX      96
#define ENV_MAX       48
#define SAID_MAX      (64u << 10)
#define END_PATIENCE  5000 /* milliseconds for git to end once its output has ended */
#define KILL_PATIENCE 200  /* and before and after SIGTERM: it removes its lock files then */

/* Settings that would make git run a program, reach a network or start work in the background. */
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

/* The strings that argv and envp point into live in `text`. */
struct command_line {
    const char *argv[ARGS_MAX];
    const char *envp[ENV_MAX];
    size_t n_args, n_env;
    struct buf text[3]; /* --git-dir, --work-tree, PATH */
    char *personal[ARRAY_SIZE(PERSONAL)];
};

static void command_line_free(struct command_line *l)
{
    for (size_t i = 0; i < ARRAY_SIZE(l->text); i++)
        buf_free(&l->text[i]);
    for (size_t i = 0; i < ARRAY_SIZE(l->personal); i++)
        free(l->personal[i]);
}

static void command_line_add(struct command_line *l, const char *arg)
{
    if (l->n_args < ARGS_MAX)
        l->argv[l->n_args++] = arg;
}

/* A later variable of the same name takes the place of the earlier one. */
static void command_line_add_env(struct command_line *l, const char *entry)
{
    size_t n = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < l->n_env; i++)
        if (strncmp(l->envp[i], entry, n) == 0) {
            l->envp[i] = entry;
            return;
        }
    if (l->n_env < ENV_MAX)
        l->envp[l->n_env++] = entry;
}

static const char *command_line_text(struct buf *b, const char *prefix, const char *value)
{
    *b = BUF_INIT(PATH_MAX * 2);
    buf_printf(b, "%s%s", prefix, value);
    return buf_cstr(b);
}

static int command_line_build(const struct git_call *c, struct command_line *l)
{
    const char *path = getenv("PATH");
    *l = (struct command_line){0};
    command_line_add(l, "git");
    for (size_t i = 0; i < ARRAY_SIZE(SETTINGS); i++) {
        command_line_add(l, "-c");
        command_line_add(l, SETTINGS[i]);
    }
    if (c->git_dir)
        command_line_add(l, command_line_text(&l->text[0], "--git-dir=", c->git_dir));
    if (c->work_tree)
        command_line_add(l, command_line_text(&l->text[1], "--work-tree=", c->work_tree));
    for (const char *const *arg = c->args; *arg; arg++)
        command_line_add(l, *arg);
    command_line_add_env(
        l, command_line_text(&l->text[2],
                             "PATH=", path && *path ? path : "/usr/local/bin:/usr/bin:/bin"));
    for (size_t i = 0; i < ARRAY_SIZE(ALWAYS); i++)
        command_line_add_env(l, ALWAYS[i]);
    for (size_t i = 0; !c->personal && i < ARRAY_SIZE(CLEAN); i++)
        command_line_add_env(l, CLEAN[i]);
    for (size_t i = 0; c->personal && i < ARRAY_SIZE(PERSONAL); i++) {
        const char *value = getenv(PERSONAL[i]);
        if (value && asprintf(&l->personal[i], "%s=%s", PERSONAL[i], value) > 0)
            command_line_add_env(l, l->personal[i]);
    }
    for (const char *const *entry = c->env; entry && *entry; entry++)
        command_line_add_env(l, *entry);
    bool failed = l->text[0].failed || l->text[1].failed || l->text[2].failed;
    return failed || l->n_args >= ARGS_MAX || l->n_env >= ENV_MAX ? -E2BIG : 0;
}

/* Root must neither run what a stranger's repository may name nor leave files in it that its owner
 * cannot write. */
static bool git_call_owner(const struct git_call *c, struct child_user *ret)
{
    struct stat st;
    const char *path = c->owner_of ? c->owner_of : c->git_dir ? c->git_dir : c->work_tree;
    if (geteuid() != 0 || c->personal || !path || stat(path, &st) < 0 || st.st_uid == 0)
        return false;
    *ret = (struct child_user){st.st_uid, st.st_gid};
    return true;
}

/* Before git has read a byte: its input comes from us. */
static void git_bound_memory(pid_t pid)
{
    const struct rlimit memory = {GIT_MEMORY_MAX, GIT_MEMORY_MAX}, no_core = {0, 0};
    prlimit(pid, RLIMIT_AS, &memory, NULL);
    prlimit(pid, RLIMIT_CORE, &no_core, NULL);
}

int git_run_begin(const struct git_call *c, struct child *ret, struct error *err)
{
    _cleanup_(command_line_free) struct command_line l;
    struct child_user user;
    int r = command_line_build(c, &l);
    if (r < 0)
        return error_errno(err, -r, "cannot start git");
    const struct child_options o = {.command = "git",
                                    .argv = (char *const *)l.argv,
                                    .env = (char *const *)l.envp,
                                    .cwd = c->folder      ? c->folder
                                           : c->work_tree ? c->work_tree
                                                          : "/",
                                    .user = git_call_owner(c, &user) ? &user : NULL};
    r = child_start(&o, ret, err);
    if (r == 0 && c->hostile)
        git_bound_memory(ret->pid);
    return r;
}

/* The first line of stderr that is a complaint, without its prefix and control characters. */
static void git_complaint(struct buf *said, char *text, size_t size)
{
    static const char *const PREFIXES[] = {"error: ", "fatal: "};
    char *all = buf_cstr(said), *line = all;
    for (size_t i = 0; all && i < ARRAY_SIZE(PREFIXES); i++) {
        char *at = strstr(all, PREFIXES[i]);
        if (at && (at == all || at[-1] == '\n')) {
            line = at + strlen(PREFIXES[i]);
            break;
        }
    }
    size_t n = 0;
    for (; line && *line && *line != '\n' && n + 1 < size; line++)
        text[n++] = (unsigned char)*line < 0x20 || *line == 0x7f ? '?' : *line;
    text[n] = 0;
}

/* Reads what is there. False: the stream has ended, and is closed. */
static bool git_read(int *fd, struct buf *into, size_t max, bool *over)
{
    char data[16 << 10];
    ssize_t n = read(*fd, data, sizeof data);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        close(TAKE_FD(*fd));
        return false;
    }
    if (into->len + (size_t)n > max)
        *over = true;
    else
        buf_append(into, data, (size_t)n);
    return true;
}

static void git_write(int *fd, const struct git_call *c, size_t *done)
{
    ssize_t n = write(*fd, (const char *)c->input + *done, c->n_input - *done);
    if (n > 0)
        *done += (size_t)n;
    if (*done == c->n_input || (n < 0 && errno != EAGAIN && errno != EINTR))
        close(TAKE_FD(*fd));
}

/* Moves bytes until both outputs have ended. What git says beyond its bound is read and dropped. */
static int git_pump(const struct git_call *c, struct child *g, struct buf *out, struct buf *said)
{
    int64_t deadline = clock_now() + (c->timeout_ns ? c->timeout_ns : GIT_TIMEOUT_NS);
    size_t sent = 0;
    bool over = false, chatty = false;
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
        if (p[0].revents)
            git_read(&g->out, out, out->max, &over);
        if (p[1].revents)
            git_read(&g->err, said, said->max, &chatty);
        if (p[2].revents)
            git_write(&g->in, c, &sent);
        if (over || out->failed)
            return -ENOBUFS;
    }
    return 0;
}

static int git_explain(const struct git_call *c, int r, int status, struct buf *said,
                       struct error *err)
{
    char complaint[400];
    const char *what = c->args[0];
    if (r == -ETIMEDOUT)
        return error_set(err, ETIMEDOUT, "git %s took too long and was ended", what);
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "interrupted");
    if (r == -ENOBUFS)
        return error_set(err, ENOBUFS, "git %s wrote more than was expected", what);
    if (r < 0)
        return error_errno(err, -r, "cannot wait for git %s", what);
    git_complaint(said, complaint, sizeof complaint);
    if (WIFSIGNALED(status))
        return error_set(err, EIO, "git %s was ended by signal %d%s%s", what, WTERMSIG(status),
                         *complaint ? ": " : "", complaint);
    if (WEXITSTATUS(status) == 0)
        return 0;
    error_set(err, EIO, "git %s: %s", what, *complaint ? complaint : "failed without a message");
    return WEXITSTATUS(status);
}

int git_run_finish(const struct git_call *c, struct child *child, struct buf *ret_out,
                   struct error *err)
{
    struct buf out = BUF_INIT(c->out_max ? c->out_max : GIT_OUTPUT_MAX);
    _cleanup_buf_ struct buf said = BUF_INIT(SAID_MAX);
    sigset_t before;
    sigpipe_block(&before); /* a git that ends before it has read all its input must not end us */
    int r = git_pump(c, child, &out, &said);
    sigpipe_restore(&before);
    int status = child_end(child, r < 0 ? KILL_PATIENCE : END_PATIENCE);
    r = git_explain(c, r, status, &said, err);
    if (ret_out)
        *ret_out = out;
    else
        buf_free(&out);
    return r;
}

int git_run(const struct git_call *c, struct buf *ret_out, struct error *err)
{
    struct child child = CHILD_NONE;
    if (ret_out)
        *ret_out = BUF_INIT(GIT_OUTPUT_MAX);
    int r = git_run_begin(c, &child, err);
    return r < 0 ? r : git_run_finish(c, &child, ret_out, err);
}

bool git_available(void)
{
    static const char *const args[] = {"version", NULL};
    return git_run(&(struct git_call){.args = args}, NULL, NULL) == 0;
}
