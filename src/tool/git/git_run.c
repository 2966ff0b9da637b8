#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "git_repo.h"
#include "io.h"
#include "thread.h"
#include "banned.h"

#define ARGS_MAX      96
#define ENV_MAX       48
#define SAID_MAX      (64u << 10)
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
        const struct rlimit memory = {GIT_MEMORY_MAX, GIT_MEMORY_MAX}, no_core = {0, 0};
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

int git_run_finish(const struct git_call *c, struct child *child, struct buf *ret_out,
                   struct error *err)
{
    struct buf out = BUF_INIT(c->out_max ? c->out_max : GIT_OUTPUT_MAX);
    _cleanup_buf_ struct buf said = BUF_INIT(SAID_MAX);
    const char *what = c->args[0];
    char complaint[400];
    sigset_t before;
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
        return error_set(err, ENOBUFS, "git %s wrote more than was expected", what);
    if (r < 0)
        return error_errno(err, -r, "cannot wait for git %s", what);
    git_complaint(&said, complaint, sizeof complaint);
    if (WIFSIGNALED(status))
        return error_set(err, EIO, "git %s was ended by signal %d%s%s", what, WTERMSIG(status),
                         *complaint ? ": " : "", complaint);
    if (WEXITSTATUS(status) != 0)
        error_set(err, EIO, "git %s: %s", what,
                  *complaint ? complaint : "failed without a message");
    return WEXITSTATUS(status);
}

int git_run(const struct git_call *c, struct buf *ret_out, struct error *err)
{
    struct child child = CHILD_NONE;
    if (ret_out)
        *ret_out = BUF_INIT(GIT_OUTPUT_MAX);
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

bool git_available(void)
{
    static const char *const args[] = {"version", NULL};
    return git_run(&(struct git_call){.args = args}, NULL, NULL) == 0;
}
