/* The SHELL and INPUT requests, and a shell from its call to its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "conn.h"
#include "error.h"
#include "exec.h"
#include "guest.h"
#include "shell/session.h"
#include "shell/shell.h"
#include "banned.h"

#define DEFAULT_NAME "main"
#define HURRY        (5 * NS_PER_MS)
#define REPORT_MAX   (STATE_MAX + 64)

static bool shell_is_idle(const struct command *c)
{
    return c->shell && c->shell->idle;
}

/* What is in the report now. */
static int shell_read_report(const struct command *c, struct buf *b, struct state_report *ret)
{
    void *at = buf_reserve(b, REPORT_MAX);
    ssize_t n = at ? pread(c->shell->report, at, REPORT_MAX, 0) : -1;
    if (n < 0)
        return -EIO;
    b->len = (size_t)n;
    state_parse_report(b->data, b->len, ret);
    return 0;
}

bool shell_has_taken(const struct command *c)
{
    char text[16] = "";
    struct state_report report;
    ssize_t n = pread(c->shell->report, text, sizeof text, 0);
    state_parse_report(text, n > 0 ? (size_t)n : 0, &report);
    return report.taken;
}

void shell_unready(struct command *c)
{
    struct session *s = c->shell->session;
    unsigned kept = 0;
    for (unsigned i = 0; i < s->n_ready; i++)
        if (s->ready[i] != c)
            s->ready[kept++] = s->ready[i];
    s->n_ready = kept;
}

/* The session does not know this shell any more. */
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
    struct shell *s = TAKE_PTR(c->shell);
    if (!s)
        return;
    c->shell = s;
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
    if (c->shell->idle) /* it was killed: the next call starts another */
        shell_leave_session(c);
    if (!c->background)
        return;
    relay_close(&c->relay);
    shell_free(c);
}

/* Whether and how the call is to be tried once more. */
static bool shell_plan_again(struct command *c, struct shell_start *ret)
{
    struct shell *s = c->shell;
    bool frozen = c->guest->freeze.state != FREEZE_OFF;
    if (!c->conn || c->limit || c->signalled || frozen || !s->session || shell_has_taken(c))
        return false;
    bool missing = c->error == ENOENT && c->error_step == SPAWN_EXEC;
    if ((missing && s->plain) || (!missing && s->fresh))
        return false;
    if (missing)
        s->session->plain = true;
    *ret = (struct shell_start){
        .session = s->session, .call = &s->call, .fresh = s->fresh || missing || !s->warm};
    return true;
}

static bool shell_again(struct command *c)
{
    struct shell_start again;
    struct error err = {0};
    if (!shell_plan_again(c, &again))
        return false;
    bool replaced = !c->error;
    struct conn *conn = TAKE_PTR(c->conn);
    struct command *next = shell_start(c->guest, &again, &err);
    if (!next) {
        conn_error(conn, err.code, "%s", err.text);
    } else {
        next->limits = c->limits;
        next->started = c->started;
        next->shell->replaced = replaced;
        command_arm(next);
        command_serve(next, conn);
    }
    command_free(c);
    return true;
}

static struct session *shell_settle(struct command *c)
{
    _cleanup_buf_ struct buf b = BUF_INIT(REPORT_MAX);
    struct shell *s = c->shell;
    struct state_report report;
    struct state state;
    if (s->idle || !s->session)
        return NULL;
    if (shell_read_report(c, &b, &report) < 0)
        return s->session;
    if (report.gone)
        s->gone = strdup(c->cwd);
    bool exited_by_itself = !c->error && !c->limit && WIFEXITED(c->status);
    if (exited_by_itself && state_parse(report.rest, report.rest_len, &state))
        s->saved = session_save(s->session, &state, s->call.own_cwd) >= 0;
    return s->session;
}

void shell_prepare(struct session *s)
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
        c->shell->idle = true;
        s->ready[s->n_ready++] = c;
    }
}

/* The last part of a message of the shell's, which says why. */
static void shell_describe_cwd(const struct command *c, const struct state_report *report,
                               char *text, size_t size)
{
    char why[128] = "No such file or directory";
    const char *line = report->rest, *end = memchr(line, '\n', report->rest_len);
    const char *colon = end ? memrchr(line, ':', (size_t)(end - line)) : NULL;
    if (colon && end - colon > 2 && end - colon < (ptrdiff_t)sizeof why)
        snprintf(why, sizeof why, "%.*s", (int)(end - colon - 2), colon + 2);
    snprintf(text, size, "cannot enter the working directory %.300s: %s",
             (const char *)c->shell->call.payload.data, why);
}

static bool shell_refused(struct command *c, char *text, size_t size)
{
    _cleanup_buf_ struct buf b = BUF_INIT(REPORT_MAX);
    struct state_report report;
    struct state state;
    if (c->error == ENOENT && c->error_step == SPAWN_EXEC) {
        snprintf(text, size, "this box has no shell: neither bash nor sh was found");
        return true;
    }
    if (!c->shell->call.own_cwd || c->error || !WIFEXITED(c->status) ||
        WEXITSTATUS(c->status) != 126 || shell_read_report(c, &b, &report) < 0 || !report.taken ||
        report.rest_len == 0 || state_parse(report.rest, report.rest_len, &state))
        return false;
    shell_describe_cwd(c, &report, text, size);
    return true;
}

static void shell_put_notes(struct command *c, struct buf *b)
{
    struct shell *s = c->shell;
    char text[512];
    if (s->gone) {
        snprintf(text, sizeof text,
                 "the session's folder %.300s is gone; the command began in another one", s->gone);
        wire_put_str(b, WIRE_K_NOTE, text);
    }
    if (s->replaced)
        wire_put_str(b, WIRE_K_NOTE, "the session's shell did not answer and was replaced");
    if ((s->fresh && s->replaced) || (s->session && s->session->unloadable))
        wire_put_str(b, WIRE_K_NOTE,
                     "the session's folder and variables could not be restored; it began anew");
    if (s->session)
        s->session->unloadable = false;
    if (!s->saved)
        wire_put_str(b, WIRE_K_NOTE,
                     "the shell ended before it could save its state (it was killed, or the script "
                     "ran exec or set"
                     " an EXIT trap): folder, variables and functions are what they were before "
                     "this command");
}

static void shell_put_result(struct command *c, struct buf *b)
{
    struct state state;
    const struct session *session = c->shell->session;
    if (c->background)
        return;
    wire_put_u64(b, WIRE_K_STATE, c->shell->saved ? WIRE_STATE_SAVED : WIRE_STATE_LOST);
    if (session && state_parse(session->raw.data, session->raw.len, &state))
        wire_put(b, WIRE_K_CWD, state.cwd, state.cwd_len);
    shell_put_notes(c, b);
}

const struct command_hooks shell_hooks = {.exited = shell_exited,
                                          .again = shell_again,
                                          .settle = shell_settle,
                                          .prepare = shell_prepare,
                                          .refused = shell_refused,
                                          .put_result = shell_put_result,
                                          .is_idle = shell_is_idle,
                                          .free = shell_free};

struct shell_request {
    struct session *session;
    struct words env;
    struct shell_call call;
    struct command_limits limits;
    bool background;
};

static void shell_request_free(struct shell_request *q)
{
    words_free(&q->env);
    buf_free(&q->call.payload);
    buf_free(&q->call.data);
}

/* Forgets the session that was used the longest ago, of those that no command points to. */
static void sessions_trim(struct guest *g)
{
    struct session *s, *oldest = NULL;
    LIST_FOREACH(s, &g->sessions, link)
    if (s->calls == s->n_ready)
        oldest = s;
    if (g->n_sessions <= SESSIONS_MAX || !oldest || oldest == LIST_FIRST(&g->sessions))
        return;
    shell_discard_ready(oldest);
    session_free(oldest);
}

static int shell_request_session(struct shell_request *q, struct guest *g,
                                 const struct wire_frame *f, struct error *err)
{
    struct wire_field field;
    bool named = wire_find(f, WIRE_K_NAME, &field);
    _cleanup_free_ char *name = named ? wire_find_str(f, WIRE_K_NAME) : strdup(DEFAULT_NAME);
    int r = words_collect(f, WIRE_K_ENV, &q->env);
    if (r < 0)
        return error_errno(err, -r, "cannot read the variables");
    q->session = name ? session_get(g, name) : NULL;
    sessions_trim(g);
    if (!q->session) {
        error_set(err, EINVAL,
                  "a session's name has 1 to %d letters, digits, '.', '_' or '-', and no dot at "
                  "its beginning",
                  SESSION_NAME_MAX);
        return -EINVAL;
    }
    r = session_seed(q->session, &q->env);
    return r < 0 ? error_set(err, E2BIG, "the session's variables are longer than %u bytes",
                             STATE_MAX)
                 : 0;
}

/* One part of the payload. */
static int put_field(struct buf *b, const struct wire_frame *f, uint16_t key)
{
    struct wire_field field = {0};
    if (wire_find(f, key, &field) && memchr(field.data, 0, field.size))
        return -EINVAL;
    buf_append(b, field.data, field.size);
    return buf_append(b, "", 1);
}

static int shell_request_call(struct shell_call *call, const struct wire_frame *f,
                              struct error *err)
{
    struct wire_field script, field;
    bool input = wire_find(f, WIRE_K_DATA, &field);
    call->payload = BUF_INIT(2 * WIRE_BODY_MAX);
    call->data = BUF_INIT(WIRE_BODY_MAX);
    if (!wire_find(f, WIRE_K_TEXT, &script))
        return error_set(err, EINVAL, "there is no script to run");
    if (input && buf_append(&call->data, field.data, field.size) < 0)
        return error_errno(err, ENOMEM, "cannot keep the script's input");
    call->own_cwd = wire_find(f, WIRE_K_CWD, &field) && field.size > 0;
    if (put_field(&call->payload, f, WIRE_K_CWD) < 0)
        return error_set(err, EINVAL, "the working directory is not a path");
    buf_append(&call->payload, input ? "1" : "", input ? 2 : 1);
    if (put_field(&call->payload, f, WIRE_K_TEXT) < 0)
        return error_set(err, EINVAL, "the script holds a NUL byte, which no shell can read");
    return call->payload.failed ? error_errno(err, ENOMEM, "cannot keep the script") : 0;
}

/* The ready shell, if it fits. */
static struct command *shell_take_ready(struct shell_request *q)
{
    struct session *s = q->session;
    struct command *c = s->n_ready ? s->ready[0] : NULL;
    int64_t now = clock_now();
    s->hurried = now - s->ended < HURRY;
    if (!c)
        return NULL;
    if (c->shell->revision != s->revision || c->limits.files != q->limits.files) {
        shell_discard_ready(s);
        return NULL;
    }
    shell_unready(c);
    c->shell->call = q->call;
    q->call = (struct shell_call){0};
    c->started = now;
    if (shell_hand_over(c) >= 0)
        return c;
    q->call = c->shell->call;
    c->shell->call = (struct shell_call){0};
    command_kill(c, WIRE_LIMIT_NONE);
    return NULL;
}

static int shell_request_begin(struct shell_request *q, struct conn *conn, struct error *err)
{
    struct command *c = q->background ? NULL : shell_take_ready(q);
    q->session->files = q->limits.files;
    if (!c)
        c = shell_start(conn->guest,
                        &(struct shell_start){
                            .session = q->session, .call = &q->call, .background = q->background},
                        err);
    if (!c)
        return -err->code;
    c->limits = q->limits;
    command_arm(c);
    if (c->background)
        background_answer(c, conn);
    else
        command_serve(c, conn);
    return 0;
}

int shell_request(struct conn *conn, const struct wire_frame *f)
{
    _cleanup_(shell_request_free) struct shell_request q = {0};
    struct error err = {0};
    exec_parse_limits(&q.limits, f);
    q.background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    int r = shell_request_call(&q.call, f, &err);
    if (r >= 0)
        r = shell_request_session(&q, conn->guest, f, &err);
    if (r >= 0)
        r = shell_request_begin(&q, conn, &err);
    if (r < 0)
        conn_error(conn, err.code, "%s", err.text);
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
