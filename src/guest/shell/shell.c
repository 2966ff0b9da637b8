/*
 * The SHELL request: scripts in the shell of a session, whose folder, exported variables and
 * functions last from call to call, as people expect of a terminal.
 *
 * Each call is a process of its own that ends with it, so nothing that a script does (exit, set -e,
 * exec, a syntax error, kill -9 $$) can harm the session. Starting bash takes longer than most
 * calls, so the next shell is started in advance:
 *
 *     started, state restored, waits ── a call comes ──▶ gets its script, runs it,
 *     writes its state, ends ──▶ the result is sent, the next shell is started
 *
 * A shell and the guest share four things, which are descriptors 3 to 6 of the shell until it has
 * what it needs: a pipe, of which a line is the call; a payload with the session's state and later
 * the script; what the script reads as its input; and a report, into which the shell writes that it
 * has taken the script, and on its way out the session's state. Hostile code can write anything
 * into the report. It is used only if it is complete and the process exited by itself; all it can
 * do is become the state of the same session again, in a shell of the same user.
 *
 * A ready shell is a command in the guest's list with a tag of its own, which no other process may
 * have. If it does not take its script because it was killed, stopped or traced, a fresh one
 * replaces it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thread.h"
#include "error.h"
#include "io.h"
#include "shell.h"
#include "banned.h"

#define SESSIONS_MAX   8
#define SESSION_FOLDER "/workspace"
#define DEFAULT_NAME   "main"
#define HURRY          (5 * NS_PER_MS)
#define REPORT_MAX     (STATE_MAX + 64)
#define PRELUDE_MAX    8192
#define FILES_FEW      128 /* below this, descriptors are left to the script */
#define WARM_PATIENCE  (2 * NS_PER_S)
#define COLD_PATIENCE  (10 * NS_PER_S)
#define ENV_MAX        1024
#define ARGS_MAX       16
#define WORD_MAX       (128u << 10) /* the longest argument that the kernel passes to a program */

/* A descriptor above which bash keeps its report while the script runs: out of reach of every
 * command, and of the numbers that scripts choose. The low one is for shells that may have few. */
#define PRELUDE_HIGH 59
#define PRELUDE_LOW  7

/* What a call hands to its shell. */
struct shell_call {
    struct buf payload; /* CWD, "1" if there is input, the script; a NUL after each */
    struct buf data;
    bool own_cwd; /* CWD was given: the session's folder stays what it was */
};

/* What a shell has besides being a command. */
struct shell {
    struct session *session;
    struct command *command;
    int wake; /* -1 once it was called */
    int payload, input, report;
    size_t payload_size;
    bool plain; /* the POSIX shell, since there is no bash */
    bool warm;  /* it was ready before its call */
    bool fresh; /* began without the session's state */
    bool replaced;
    uint64_t revision; /* of the state that it began with */
    struct shell_call call;
    struct loop_timer confirm;
    bool saved;
    char *gone; /* the session's folder, which was not there any more */
};

static void shell_call_free(struct shell_call *call)
{
    buf_free(&call->payload);
    buf_free(&call->data);
}

/* Commands for the variables of env, but for those that `but` has with the same value. */
static void session_put_exports(struct buf *b, const struct words *env, const struct words *but,
                                bool plain)
{
    for (size_t i = 0; i < env->count; i++) {
        bool known = !state_is_variable(env->list[i]);
        for (size_t k = 0; but && !known && k < but->count; k++)
            known = strcmp(but->list[k], env->list[i]) == 0;
        if (!known)
            state_put_export(b, env->list[i], plain);
    }
}

/* Takes the request's variables: all of them into a new session, later those that differ from
 * before. */
static int session_seed(struct session *s, struct words *env)
{
    bool same = s->seed.count == env->count;
    for (size_t i = 0; same && i < env->count; i++)
        same = strcmp(s->seed.list[i], env->list[i]) == 0;
    if (same)
        return 0;
    /* A loaded state came with the variables of then: those count until the host asks for others,
     * which are added after them. */
    int r = 0;
    if (s->raw.len && s->seed.list) {
        _cleanup_buf_ struct buf more = BUF_INIT(STATE_MAX), raw = BUF_INIT(STATE_MAX);
        struct state st;
        session_put_exports(&more, env, &s->seed, s->plain);
        const char *text = buf_cstr(&more);
        if (!text || !state_parse(s->raw.data, s->raw.len, &st) ||
            state_put(&raw, st.cwd, st.cwd_len, st.exports, text, st.functions) < 0) {
            r = -ENOBUFS;
        } else {
            struct buf old = s->raw;
            s->raw = raw;
            raw = old;
            s->revision++;
        }
    }
    words_free(&s->seed);
    s->seed = *env;
    *env = (struct words){0};
    return r;
}

/* The state that a shell begins with; without any yet, the seed. `fresh`: forgets the state. */
static int session_begin(struct session *s, bool fresh, struct state *ret)
{
    if (fresh || !s->raw.len) {
        s->raw.len = 0;
        s->raw.failed = false;
        s->revision++;
        _cleanup_buf_ struct buf exports = BUF_INIT(STATE_MAX);
        session_put_exports(&exports, &s->seed, NULL, s->plain);
        const char *text = buf_cstr(&exports);
        if (!text)
            return -ENOBUFS;
        int r = state_put(&s->raw, SESSION_FOLDER, strlen(SESSION_FOLDER), text, "", "");
        if (r < 0)
            return r;
    }
    return state_parse(s->raw.data, s->raw.len, ret) ? 0 : -EINVAL;
}

/* Takes over a parsed state and keeps it in the box. With own_cwd its folder is not taken. */
static int session_save(struct session *s, const struct state *st, bool own_cwd)
{
    struct buf raw = BUF_INIT(STATE_MAX);
    struct state old;
    bool keep = own_cwd && state_parse(s->raw.data, s->raw.len, &old);
    int r = state_put(&raw, keep ? old.cwd : st->cwd, keep ? old.cwd_len : st->cwd_len, st->exports,
                      "", st->functions);
    if (r < 0 || (raw.len == s->raw.len && memcmp(raw.data, s->raw.data, raw.len) == 0)) {
        buf_free(&raw);
    } else {
        buf_free(&s->raw);
        s->raw = raw;
        s->revision++;
        s->unwritten = true;
    }
    /* A full disk costs only what a fork would begin with, until the next call. */
    if (s->unwritten)
        s->unwritten = !state_store(s->name, &s->raw);
    return r;
}

/* The session that the request names, made or loaded if it is not known, with the request's
 * variables. NULL with err set. */
static struct session *session_find(struct guest *g, const struct wire_frame *f, struct error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    _cleanup_words_ struct words env = {0};
    struct wire_field field;
    bool named = wire_find(f, WIRE_K_NAME, &field);
    _cleanup_free_ char *name = named ? wire_find_str(f, WIRE_K_NAME) : strdup(DEFAULT_NAME);
    size_t n = name ? strlen(name) : 0;
    int r = words_collect(f, WIRE_K_ENV, &env);
    if (r < 0) {
        error_errno(err, -r, "cannot read the environment");
        return NULL;
    }
    if (n == 0 || n > SESSION_NAME_MAX || strspn(name, allowed) != n || name[0] == '.') {
        error_set(err, EINVAL,
                  "the name of a session must have 1 to %d letters, digits, '.', '_' or '-', and "
                  "not start with a dot",
                  SESSION_NAME_MAX);
        return NULL;
    }
    struct session *s = LIST_FIRST(&g->sessions), *oldest = NULL, *each;
    while (s && strcmp(s->name, name) != 0)
        s = LIST_NEXT(s, link);
    if (s) {
        LIST_REMOVE(s, link);
    } else {
        bool exists = false;
        s = calloc(1, sizeof *s);
        if (!s) {
            error_errno(err, ENOMEM, "cannot make the session");
            return NULL;
        }
        s->guest = g;
        s->raw = BUF_INIT(STATE_MAX);
        memcpy(s->name, name, n);
        s->unloadable = !state_load(name, &s->raw, &exists) && exists;
        g->n_sessions++;
    }
    LIST_INSERT_HEAD(&g->sessions, s, link);

    /* Too many: forgets the one used the longest ago, of those that no command points to. */
    LIST_FOREACH(each, &g->sessions, link)
    if (each->calls == each->n_ready && each != s)
        oldest = each;
    if (g->n_sessions > SESSIONS_MAX && oldest) {
        shell_discard_ready(oldest);
        LIST_REMOVE(oldest, link);
        g->n_sessions--;
        buf_free(&oldest->raw);
        words_free(&oldest->seed);
        free(oldest);
    }
    if (session_seed(s, &env) < 0) {
        error_set(err, E2BIG, "the session's variables are longer than %u KiB", STATE_MAX >> 10);
        return NULL;
    }
    return s;
}

/*
 * Variables go into the payload, not into the environment: what bash obeys at its start (BASH_ENV,
 * SHELLOPTS) would act before the script does. Left are PATH, to find the shell by, the folder as
 * the session calls it, and names that no shell has variables for.
 */
static int shell_make_args(const struct command *c, const struct state *st, int anchor,
                           struct buf *text, char *envp[ENV_MAX], char *argv[ARGS_MAX])
{
    const struct words *seed = &c->shell->session->seed;
    const char *path = "PATH=" SEARCH_PATH_DEFAULT;
    size_t n = 0;
    buf_printf(text, "PWD=%.*s", (int)st->cwd_len, st->cwd);
    buf_append(text, "", 1);
    size_t pwd_size = text->len;
    if (prelude_put_bash(text, anchor) < 0 || !buf_cstr(text))
        return -ENOMEM;
    for (size_t i = 0; i < seed->count && n < ENV_MAX - 3; i++) {
        if (strncmp(seed->list[i], "PATH=", 5) == 0)
            path = seed->list[i];
        else if (state_is_foreign(seed->list[i]))
            envp[n++] = seed->list[i];
    }
    envp[n++] = (char *)path;
    envp[n++] = (char *)text->data;
    envp[n] = NULL;

    const char *prelude = (const char *)text->data + pwd_size;
    const char *bash[ARGS_MAX] = {"bash", "--norc", "--noprofile", "-c", prelude, "bash"};
    memcpy(argv, bash, sizeof bash);
    if (!c->shell->plain)
        return 0;
    /* The POSIX shell gets everything as arguments: it has nothing to read a payload with. */
    const char *cwd = (const char *)c->shell->call.payload.data;
    const char *input = cwd + strlen(cwd) + 1, *script = input + strlen(input) + 1;
    const char *sh[ARGS_MAX] = {"sh",   "-c", PRELUDE_SH, "sh",  st->exports,
                                c->cwd, cwd,  input,      script};
    memcpy(argv, sh, sizeof sh);
    for (size_t i = 0; argv[i]; i++)
        if (strlen(argv[i]) >= WORD_MAX)
            return -E2BIG;
    return 0;
}

/* Hands c->shell->call to a shell. */
static int shell_hand_over(struct command *c)
{
    struct shell *s = c->shell;
    const struct shell_call *call = &s->call;
    int r = s->plain
                ? 0
                : io_write_at(s->payload, call->payload.data, call->payload.len, s->payload_size);
    if (r >= 0)
        r = io_write_at(s->input, call->data.data, call->data.len, 0);
    if (r < 0)
        return r;
    /* One that died (EPIPE) is replaced when it is reaped. */
    if (!s->plain && write(s->wake, "\n", 1) < 0 && errno != EPIPE)
        return -errno;
    close(TAKE_FD(s->wake));
    s->warm = c->idle;
    c->idle = false;
    /* A process that is stopped or gone takes nothing; then another one is started. */
    if (!s->fresh)
        loop_timer_set(&c->guest->loop, &s->confirm,
                       clock_now() + (s->warm ? WARM_PATIENCE : COLD_PATIENCE));
    return 0;
}

static int shell_spawn(struct command *c, bool called, struct error *err)
{
    _cleanup_(spawn_close) struct spawn spawn = {.fds = {-1, -1, -1}};
    _cleanup_buf_ struct buf text = BUF_INIT(PRELUDE_MAX + 2 * PATH_MAX);
    _cleanup_buf_ struct buf saved = BUF_INIT(2 * STATE_MAX);
    _cleanup_fd_ int wake = -1;
    char *envp[ENV_MAX], *argv[1 + ARGS_MAX] = {0}; /* argv[0] is spawn's free slot */
    struct shell *s = c->shell;
    struct state st;
    int ends[2];
    int anchor = c->limits.files && c->limits.files < FILES_FEW ? PRELUDE_LOW : PRELUDE_HIGH;
    int r = c->background ? background_open_log(c, spawn.fds, err) : 0;
    if (r < 0)
        return r;
    r = relay_open_pipes(c, c->background ? RELAY_STDIN : RELAY_STDOUT, spawn.fds);
    if (r < 0)
        return error_errno(err, -r, "cannot connect the shell's input and output");
    r = session_begin(s->session, s->fresh, &st);
    s->revision = s->session->revision;
    if (r < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, r < 0 ? -r : errno, "cannot start a shell");
    wake = ends[0];
    s->wake = ends[1];

    /* What the shell and the guest share, with the session's state in it. Offsets are shared, too,
     * so the guest reads and writes at offsets that it names. */
    s->payload = memfd_create("payload", MFD_CLOEXEC);
    s->input = memfd_create("input", MFD_CLOEXEC);
    s->report = memfd_create("report", MFD_CLOEXEC);
    buf_append(&saved, st.cwd, st.cwd_len);
    buf_append(&saved, "", 1);
    buf_append(&saved, st.exports, strlen(st.exports) + 1);
    buf_append(&saved, st.functions, strlen(st.functions) + 1);
    s->payload_size = saved.len;
    c->cwd = strndup(st.cwd, st.cwd_len);
    c->name = strdup(s->plain ? "sh" : "bash");
    if (s->payload < 0 || s->input < 0 || s->report < 0 || saved.failed || !c->cwd || !c->name)
        r = -ENOMEM;
    if (r >= 0)
        r = io_write_at(s->payload, saved.data, saved.len, 0);
    if (r >= 0)
        r = shell_make_args(c, &st, anchor, &text, envp, argv + 1);
    if (r == -E2BIG)
        return error_set(err, E2BIG,
                         "the script or the session's variables are too long: this box has no bash,"
                         " and sh can take at most 128 KiB of each");
    if (r >= 0 && called)
        r = shell_hand_over(c);
    if (r < 0)
        return error_errno(err, -r, "cannot start a shell");

    const int more[] = {wake, s->payload, s->input, s->report};
    spawn.argv = argv + 1;
    spawn.envp = envp;
    spawn.cwd = c->cwd;
    spawn.or_cwd = SESSION_FOLDER;
    spawn.more = more;
    spawn.n_more = ARRAY_SIZE(more);
    spawn.apart = s->wake >= 0 && !s->plain;
    spawn.anchor = s->plain ? 0 : anchor;
    /* What bash prints while it starts (say, that its folder is being removed) is no output of the
     * script: its stderr is /dev/null until the prelude makes it what stdout is. */
    cleanup_close(&spawn.fds[2]);
    spawn.fds[2] = s->plain ? fcntl(spawn.fds[1], F_DUPFD_CLOEXEC, 3) : -1;
    if (s->plain && spawn.fds[2] < 0)
        return error_errno(err, errno, "cannot connect the shell's input and output");
    r = command_spawn(c, &spawn);
    return r < 0 ? error_errno(err, -r, "cannot start a shell") : 0;
}

/* The report as it is now; it is not `taken` if it cannot be read. */
static void shell_read_report(const struct command *c, struct buf *b, struct state_report *ret)
{
    void *at = buf_reserve(b, b->max);
    ssize_t n = at ? pread(c->shell->report, at, b->max, 0) : -1;
    b->len = n < 0 ? 0 : (size_t)n;
    state_parse_report(b->data, b->len, ret);
}

/* Whether the shell reported that it took its script. */
static bool shell_has_taken(const struct command *c)
{
    _cleanup_buf_ struct buf b = BUF_INIT(16);
    struct state_report report;
    shell_read_report(c, &b, &report);
    return report.taken;
}

static void shell_confirm_fire(struct loop_timer *t)
{
    struct shell *s = CONTAINER_OF(t, struct shell, confirm);
    if (shell_has_taken(s->command))
        return;
    if (s->command->guest->freeze.state != FREEZE_OFF) /* it cannot, and neither could another */
        loop_timer_set(&s->command->guest->loop, t, clock_now() + WARM_PATIENCE);
    else
        command_kill(s->command, WIRE_LIMIT_NONE);
}

/* Takes it out of the session's ready shells. */
static void shell_unready(struct command *c)
{
    struct session *s = c->shell->session;
    unsigned kept = 0;
    for (unsigned i = 0; i < s->n_ready; i++)
        if (s->ready[i] != c)
            s->ready[kept++] = s->ready[i];
    s->n_ready = kept;
}

static void shell_leave_session(struct command *c)
{
    struct session *s = c->shell->session;
    if (!s)
        return;
    shell_unready(c);
    s->calls--;
    c->shell->session = NULL;
}

void shell_discard_ready(struct session *s)
{
    while (s->n_ready) {
        struct command *c = s->ready[0];
        shell_leave_session(c);
        command_kill(c, WIRE_LIMIT_NONE);
    }
}

static void shell_free(struct command *c)
{
    struct shell *s = c->shell;
    if (!s)
        return;
    shell_leave_session(c);
    c->shell = NULL;
    c->hooks = NULL;
    loop_timer_set(&c->guest->loop, &s->confirm, 0);
    cleanup_close(&s->wake);
    cleanup_close(&s->payload);
    cleanup_close(&s->input);
    cleanup_close(&s->report);
    shell_call_free(&s->call);
    free(s->gone);
    free(s);
}

static const struct command_hooks SHELL_HOOKS;

/* Starts a shell: a command whose limits the caller sets, but for that on files, which is the
 * session's. It takes over the call; without one it waits for a call, as only bash can. `fresh`:
 * without the session's state. NULL with err set on failure. */
static struct command *shell_start(struct session *session, struct shell_call *call, bool fresh,
                                   bool background, struct error *err)
{
    struct command *c = command_new(session->guest);
    if (!c || !(c->shell = calloc(1, sizeof *c->shell))) {
        command_free(c);
        error_set(err, EAGAIN, "too many commands are running (limit: %d)", GUEST_COMMANDS_MAX);
        return NULL;
    }
    c->hooks = &SHELL_HOOKS;
    *c->shell = (struct shell){.session = session,
                               .command = c,
                               .wake = -1,
                               .payload = -1,
                               .input = -1,
                               .report = -1,
                               .plain = session->plain,
                               .fresh = fresh,
                               .confirm.fire = shell_confirm_fire};
    if (call) {
        c->shell->call = *call;
        *call = (struct shell_call){0};
    }
    session->calls++;
    c->background = background;
    c->limits.files = session->files;
    return shell_spawn(c, call, err) < 0 ? command_free(c) : c;
}

static void shell_exited(struct command *c)
{
    loop_timer_set(&c->guest->loop, &c->shell->confirm, 0);
    if (c->idle) /* it was killed: the next call starts another */
        shell_leave_session(c);
    if (!c->background)
        return;
    relay_close(c);
    shell_free(c);
}

/* Whether there is no such shell in the box. */
static bool shell_is_missing(const struct command *c)
{
    return c->report->error == ENOENT && c->report->step == SPAWN_EXEC;
}

/* A call whose shell did not take the script is tried once more. */
static bool shell_again(struct command *c)
{
    struct shell *s = c->shell;
    bool frozen = c->guest->freeze.state != FREEZE_OFF, missing = shell_is_missing(c);
    if (!c->conn || c->limit || c->signalled || frozen || !s->session || shell_has_taken(c) ||
        (missing ? s->plain : s->fresh))
        return false;
    if (missing)
        s->session->plain = true;
    struct error err = {0};
    struct conn *conn = TAKE_PTR(c->conn);
    struct command *next =
        shell_start(s->session, &s->call, s->fresh || missing || !s->warm, false, &err);
    if (!next) {
        conn_error(conn, err.code, "%s", err.text);
    } else {
        next->limits = c->limits;
        next->started = c->started;
        next->shell->replaced = !c->report->error;
        command_serve(next, conn);
    }
    command_free(c);
    return true;
}

/* Takes over its state, answers, and then starts the next shell. */
static void shell_over(struct command *c)
{
    _cleanup_buf_ struct buf b = BUF_INIT(REPORT_MAX);
    struct shell *s = c->shell;
    struct session *session = c->idle ? NULL : s->session;
    struct state_report report;
    struct state state;
    shell_read_report(c, &b, &report);
    if (session) {
        if (report.gone)
            s->gone = strdup(c->cwd);
        bool exited_by_itself = !c->report->error && !c->limit && WIFEXITED(c->status);
        if (exited_by_itself && state_parse(report.rest, report.rest_len, &state))
            s->saved = session_save(session, &state, s->call.own_cwd) >= 0;
    }
    /* A call that could not begin, since there is no shell or no such folder, is an ERROR. The
     * report then holds the shell's message about the folder, whose last part says why. */
    bool no_folder = s->call.own_cwd && !c->report->error && WIFEXITED(c->status) &&
                     WEXITSTATUS(c->status) == 126 && report.taken && report.rest_len > 0 &&
                     !state_parse(report.rest, report.rest_len, &state);
    if (c->conn && shell_is_missing(c)) {
        conn_error(TAKE_PTR(c->conn), ENOENT,
                   "this box has no shell: neither bash nor sh is in its PATH");
    } else if (c->conn && no_folder) {
        const char *line = report.rest, *end = memchr(line, '\n', report.rest_len);
        const char *colon = end ? memrchr(line, ':', (size_t)(end - line)) : NULL;
        bool says_why = colon && end - colon > 2 && end - colon < 128;
        conn_error(TAKE_PTR(c->conn), ENOENT, "cannot enter the working directory %.300s: %.*s",
                   (const char *)s->call.payload.data, says_why ? (int)(end - colon - 2) : INT_MAX,
                   says_why ? colon + 2 : "No such file or directory");
    } else if (c->conn) {
        command_answer(c);
    }
    command_free(c);
    if (!session)
        return;

    /* The next shells, to be ready: two while calls come so fast that one would not be in time. */
    struct error err = {0};
    unsigned wanted = session->hurried ? SESSION_READY_MAX : 1;
    session->ended = clock_now();
    if (session->n_ready && session->ready[0]->shell->revision != session->revision)
        shell_discard_ready(session);
    if (session->plain || session->guest->freeze.state != FREEZE_OFF)
        wanted = 0;
    while (session->n_ready < wanted && (c = shell_start(session, NULL, false, false, &err))) {
        c->idle = true;
        session->ready[session->n_ready++] = c;
    }
}

static void shell_put_result(struct command *c, struct buf *b)
{
    struct shell *s = c->shell;
    struct session *session = s->session;
    struct state state;
    char text[512];
    if (c->background)
        return;
    wire_put_u64(b, WIRE_K_STATE, s->saved ? WIRE_STATE_SAVED : WIRE_STATE_LOST);
    if (session && state_parse(session->raw.data, session->raw.len, &state))
        wire_put(b, WIRE_K_CWD, state.cwd, state.cwd_len);
    if (s->gone) {
        snprintf(text, sizeof text,
                 "the session's working directory %.300s no longer exists; the command started in "
                 "another one",
                 s->gone);
        wire_put_str(b, WIRE_K_NOTE, text);
    }
    if (s->replaced)
        wire_put_str(b, WIRE_K_NOTE, "the session's shell did not respond and was replaced");
    if ((s->fresh && s->replaced) || (session && session->unloadable))
        wire_put_str(b, WIRE_K_NOTE,
                     "the session's working directory and variables could not be restored; the "
                     "session was reset");
    if (session)
        session->unloadable = false;
    if (!s->saved)
        wire_put_str(b, WIRE_K_NOTE,
                     "the shell ended before it could save its state (it was killed, or the script "
                     "ran exec or set an EXIT trap): working directory, variables and functions "
                     "are as before this command");
}

static const struct command_hooks SHELL_HOOKS = {.exited = shell_exited,
                                                 .again = shell_again,
                                                 .over = shell_over,
                                                 .put_result = shell_put_result,
                                                 .free = shell_free};

static int shell_parse_call(struct shell_call *call, const struct wire_frame *f, struct error *err)
{
    struct wire_field script, cwd = {0}, input;
    bool has_input = wire_find(f, WIRE_K_DATA, &input);
    if (!wire_find(f, WIRE_K_TEXT, &script))
        return error_set(err, EINVAL, "no script given");
    if (memchr(script.data, 0, script.size))
        return error_set(err, EINVAL, "the script holds a NUL byte, which no shell can read");
    if (wire_find(f, WIRE_K_CWD, &cwd) && memchr(cwd.data, 0, cwd.size))
        return error_set(err, EINVAL, "the working directory is not a path");
    call->own_cwd = cwd.size > 0;
    call->payload = BUF_INIT(2 * WIRE_BODY_MAX);
    call->data = BUF_INIT(WIRE_BODY_MAX);
    buf_append(&call->payload, cwd.data, cwd.size);
    buf_append(&call->payload, "", 1);
    buf_append(&call->payload, has_input ? "1" : "", has_input ? 2 : 1);
    buf_append(&call->payload, script.data, script.size);
    buf_append(&call->payload, "", 1);
    if (has_input)
        buf_append(&call->data, input.data, input.size);
    if (call->payload.failed || call->data.failed)
        return error_errno(err, ENOMEM, "cannot keep the script");
    return 0;
}

void shell_request(struct conn *conn, const struct wire_frame *f)
{
    _cleanup_(shell_call_free) struct shell_call call = {0};
    struct command_limits limits;
    struct error err = {0};
    bool background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    command_parse_limits(&limits, f);
    int r = shell_parse_call(&call, f, &err);
    struct session *s = r < 0 ? NULL : session_find(conn->guest, f, &err);
    if (!s) {
        conn_error(conn, err.code, "%s", err.text);
        return;
    }

    /* The ready shell, if there is one that fits. */
    struct command *c = s->n_ready && !background ? s->ready[0] : NULL;
    int64_t now = clock_now();
    if (!background)
        s->hurried = now - s->ended < HURRY;
    if (c && (c->shell->revision != s->revision || c->limits.files != limits.files)) {
        shell_discard_ready(s);
        c = NULL;
    }
    if (c) {
        shell_unready(c);
        c->started = now;
        c->shell->call = call;
        call = (struct shell_call){0};
        if (shell_hand_over(c) < 0) {
            call = c->shell->call;
            c->shell->call = (struct shell_call){0};
            command_kill(c, WIRE_LIMIT_NONE);
            c = NULL;
        }
    }
    s->files = limits.files;
    if (!c)
        c = shell_start(s, &call, false, background, &err);
    if (!c) {
        conn_error(conn, err.code, "%s", err.text);
        return;
    }
    c->limits = limits;
    command_serve(c, conn);
}
