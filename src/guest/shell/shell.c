/* The SHELL and INPUT requests, and a shell from its call to its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "shell/shell.h"
#include "thread.h"
#include "banned.h"

#define DEFAULT_NAME "main"
#define HURRY        (5 * NS_PER_MS)
#define REPORT_MAX   (STATE_MAX + 64)

/* The report as it is now; it is not `taken` if it cannot be read. */
static void shell_read_report(const struct command *c, struct buf *b, struct state_report *ret)
{
    void *at = buf_reserve(b, b->max);
    ssize_t n = at ? pread(c->shell->report, at, b->max, 0) : -1;
    b->len = n < 0 ? 0 : (size_t)n;
    state_parse_report(b->data, b->len, ret);
}

bool shell_has_taken(const struct command *c)
{
    _cleanup_buf_ struct buf b = BUF_INIT(16);
    struct state_report report;
    shell_read_report(c, &b, &report);
    return report.taken;
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
    buf_free(&s->call.payload);
    buf_free(&s->call.data);
    free(s->gone);
    free(s);
}

void shell_discard_ready(struct session *s)
{
    while (s->n_ready) {
        struct command *c = s->ready[0];
        shell_leave_session(c);
        command_kill(c, WIRE_LIMIT_NONE);
    }
}

static void shell_exited(struct command *c)
{
    loop_timer_set(&c->guest->loop, &c->shell->confirm, 0);
    if (c->idle) /* it was killed: the next call starts another */
        shell_leave_session(c);
    if (!c->background)
        return;
    relay_close(&c->relay);
    shell_free(c);
}

/* A call whose shell did not take the script is tried once more. */
static bool shell_again(struct command *c)
{
    struct shell *s = c->shell;
    bool frozen = c->guest->freeze.state != FREEZE_OFF;
    bool missing = c->error == ENOENT && c->error_step == SPAWN_EXEC;
    if (!c->conn || c->limit || c->signalled || frozen || !s->session || shell_has_taken(c) ||
        (missing ? s->plain : s->fresh))
        return false;
    if (missing)
        s->session->plain = true;
    struct error err = {0};
    struct conn *conn = TAKE_PTR(c->conn);
    struct command *next = shell_start(
        c->guest,
        &(struct shell_start){
            .session = s->session, .call = &s->call, .fresh = s->fresh || missing || !s->warm},
        &err);
    if (!next) {
        conn_error(conn, err.code, "%s", err.text);
    } else {
        next->limits = c->limits;
        next->started = c->started;
        next->shell->replaced = !c->error;
        command_arm(next);
        command_serve(next, conn);
    }
    command_free(c);
    return true;
}

/* The call could not even begin: true with the text for an ERROR. */
static bool shell_refused(struct command *c, const struct state_report *report, char *text,
                          size_t size)
{
    struct state state;
    if (c->error == ENOENT && c->error_step == SPAWN_EXEC) {
        snprintf(text, size, "this box has no shell: neither bash nor sh was found");
        return true;
    }
    if (!c->shell->call.own_cwd || c->error || !WIFEXITED(c->status) ||
        WEXITSTATUS(c->status) != 126 || !report->taken || report->rest_len == 0 ||
        state_parse(report->rest, report->rest_len, &state))
        return false;
    /* The report holds the shell's message about the folder, whose last part says why. */
    char why[128] = "No such file or directory";
    const char *line = report->rest, *end = memchr(line, '\n', report->rest_len);
    const char *colon = end ? memrchr(line, ':', (size_t)(end - line)) : NULL;
    if (colon && end - colon > 2 && end - colon < (ptrdiff_t)sizeof why)
        snprintf(why, sizeof why, "%.*s", (int)(end - colon - 2), colon + 2);
    snprintf(text, size, "cannot enter the working directory %.300s: %s",
             (const char *)c->shell->call.payload.data, why);
    return true;
}

/* Starts the next shells of a session, to be ready. */
static void shell_prepare(struct session *s)
{
    struct error err = {0};
    s->ended = clock_now();
    if (s->n_ready && s->ready[0]->shell->revision != s->revision)
        shell_discard_ready(s);
    if (s->plain || s->guest->freeze.state != FREEZE_OFF)
        return;
    while (s->n_ready < (s->hurried ? SESSION_READY_MAX : 1)) {
        struct command *c = shell_start(s->guest, &(struct shell_start){.session = s}, &err);
        if (!c)
            return;
        c->idle = true;
        s->ready[s->n_ready++] = c;
    }
}

/* Takes over its state, answers, and then starts the next shell. */
static void shell_over(struct command *c)
{
    _cleanup_buf_ struct buf b = BUF_INIT(REPORT_MAX);
    struct shell *s = c->shell;
    struct session *session = c->idle ? NULL : s->session;
    struct state_report report;
    struct state state;
    char text[512];
    shell_read_report(c, &b, &report);
    if (session) {
        if (report.gone)
            s->gone = strdup(c->cwd);
        bool exited_by_itself = !c->error && !c->limit && WIFEXITED(c->status);
        if (exited_by_itself && state_parse(report.rest, report.rest_len, &state))
            s->saved = session_save(session, &state, s->call.own_cwd) >= 0;
    }
    if (c->conn && shell_refused(c, &report, text, sizeof text))
        conn_error(TAKE_PTR(c->conn), ENOENT, "%s", text);
    else if (c->conn)
        command_answer(c);
    command_free(c);
    if (session)
        shell_prepare(session);
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
                 "the session's folder %.300s is gone; the command began in another one", s->gone);
        wire_put_str(b, WIRE_K_NOTE, text);
    }
    if (s->replaced)
        wire_put_str(b, WIRE_K_NOTE, "the session's shell did not answer and was replaced");
    if ((s->fresh && s->replaced) || (session && session->unloadable))
        wire_put_str(b, WIRE_K_NOTE,
                     "the session's folder and variables could not be restored; it began anew");
    if (session)
        session->unloadable = false;
    if (!s->saved)
        wire_put_str(b, WIRE_K_NOTE,
                     "the shell ended before it could save its state (it was killed, or the script "
                     "ran exec or set an EXIT trap): folder, variables and functions are what they "
                     "were before this command");
}

const struct command_hooks shell_hooks = {.exited = shell_exited,
                                          .again = shell_again,
                                          .over = shell_over,
                                          .put_result = shell_put_result,
                                          .free = shell_free};

static void shell_call_free(struct shell_call *call)
{
    buf_free(&call->payload);
    buf_free(&call->data);
}

static int shell_parse_call(struct shell_call *call, const struct wire_frame *f, struct error *err)
{
    struct wire_field script, cwd = {0}, input;
    bool has_input = wire_find(f, WIRE_K_DATA, &input);
    if (!wire_find(f, WIRE_K_TEXT, &script))
        return error_set(err, EINVAL, "there is no script to run");
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

/* The session that the request names, with the request's variables. NULL with err set. */
static struct session *shell_find_session(struct guest *g, const struct wire_frame *f,
                                          struct error *err)
{
    _cleanup_words_ struct words env = {0};
    struct wire_field field;
    bool named = wire_find(f, WIRE_K_NAME, &field);
    _cleanup_free_ char *name = named ? wire_find_str(f, WIRE_K_NAME) : strdup(DEFAULT_NAME);
    int r = words_collect(f, WIRE_K_ENV, &env);
    if (r < 0) {
        error_errno(err, -r, "cannot read the variables");
        return NULL;
    }
    struct session *session = name ? session_get(g, name) : NULL;
    if (!session) {
        error_set(err, EINVAL,
                  "a session's name has 1 to %d letters, digits, '.', '_' or '-', and no dot at "
                  "its beginning",
                  SESSION_NAME_MAX);
        return NULL;
    }

    /* Too many: forgets the one used the longest ago, of those that no command points to. */
    struct session *s, *oldest = NULL;
    LIST_FOREACH(s, &g->sessions, link)
    if (s->calls == s->n_ready && s != session)
        oldest = s;
    if (g->n_sessions > SESSIONS_MAX && oldest) {
        shell_discard_ready(oldest);
        session_free(oldest);
    }
    if (session_seed(session, &env) < 0) {
        error_set(err, E2BIG, "the session's variables are longer than %u bytes", STATE_MAX);
        return NULL;
    }
    return session;
}

/* The ready shell, after it was given the call; NULL if there is none that fits. */
static struct command *shell_take_ready(struct session *s, struct shell_call *call, uint64_t files)
{
    struct command *c = s->n_ready ? s->ready[0] : NULL;
    int64_t now = clock_now();
    s->hurried = now - s->ended < HURRY;
    if (!c)
        return NULL;
    if (c->shell->revision != s->revision || c->limits.files != files) {
        shell_discard_ready(s);
        return NULL;
    }
    shell_unready(c);
    c->shell->call = *call;
    *call = (struct shell_call){0};
    c->started = now;
    if (shell_hand_over(c) >= 0)
        return c;
    *call = c->shell->call;
    c->shell->call = (struct shell_call){0};
    command_kill(c, WIRE_LIMIT_NONE);
    return NULL;
}

int shell_request(struct conn *conn, const struct wire_frame *f)
{
    _cleanup_(shell_call_free) struct shell_call call = {0};
    struct command_limits limits;
    struct error err = {0};
    struct session *session = NULL;
    struct command *c = NULL;
    bool background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    exec_parse_limits(&limits, f);
    if (shell_parse_call(&call, f, &err) >= 0)
        session = shell_find_session(conn->guest, f, &err);
    if (session && !background)
        c = shell_take_ready(session, &call, limits.files);
    if (session)
        session->files = limits.files;
    if (session && !c)
        c = shell_start(
            conn->guest,
            &(struct shell_start){.session = session, .call = &call, .background = background},
            &err);
    if (!c) {
        conn_error(conn, err.code, "%s", err.text);
        return 0;
    }
    c->limits = limits;
    command_arm(c);
    if (background)
        background_answer(c, conn);
    else
        command_serve(c, conn);
    return 0;
}

int shell_input_request(struct conn *conn, const struct wire_frame *f)
{
    struct wire_field data = {0};
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    wire_find(f, WIRE_K_DATA, &data);
    int r = relay_feed(&c->relay, data.data, data.size, wire_find_u64(f, WIRE_K_EOF, 0) != 0);
    if (r == -ENOBUFS) {
        conn_error(conn, EAGAIN,
                   "the command has not read its input yet: %zu bytes wait, more than %u may not",
                   c->relay.backlog.len, RELAY_INPUT_MAX);
        return 0;
    }
    if (r < 0) {
        conn_error(conn, -r, "the command takes no input any more");
        return 0;
    }
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    wire_put_u64(&conn->out, WIRE_K_COUNT, c->relay.backlog.len);
    wire_end(&conn->out, at);
    conn_finish(conn);
    return 0;
}
