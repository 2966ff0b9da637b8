/* A shell from its call to its end, and the next one that stands ready. */
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
#include "guest.h"
#include "shell/session.h"
#include "shell/start.h"
#include "banned.h"

#define REPORT_MAX (STATE_MAX + 64)

bool shell_is_idle(const struct command *c)
{
    return c->shell && c->shell->idle;
}

/* What is in the report now. */
static int read_report(const struct command *c, struct buf *b, struct state_report *ret)
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

/* Nobody is to find this shell any more. */
static void leave_session(struct command *c)
{
    struct session *s = c->shell->session;
    if (!s)
        return;
    shell_unready(c);
    s->calls--;
    c->shell->session = NULL;
}

void shell_free(struct command *c)
{
    struct shell *s = TAKE_PTR(c->shell);
    if (!s)
        return;
    c->shell = s;
    leave_session(c);
    c->shell = NULL;
    loop_timer_set(&c->guest->loop, &s->confirm, 0);
    cleanup_close(&s->wake);
    cleanup_close(&s->letter);
    cleanup_close(&s->input);
    cleanup_close(&s->report);
    buf_free(&s->call.letter);
    buf_free(&s->call.data);
    free(s->gone);
    free(s);
}

void shell_discard_ready(struct session *s)
{
    while (s->n_ready) {
        struct command *c = s->ready[0];
        leave_session(c);
        command_kill(c, WIRE_LIMIT_NONE);
    }
}

void shell_exited(struct command *c)
{
    loop_timer_set(&c->guest->loop, &c->shell->confirm, 0);
    if (c->shell->idle) /* somebody killed it: the next call starts another */
        leave_session(c);
    if (!c->background)
        return;
    carry_close(&c->carry);
    shell_free(c);
}

/* Whether and how the call is to be tried once more. */
static bool plan_again(struct command *c, struct shell_start *ret)
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

bool shell_again(struct command *c)
{
    struct shell_start again;
    struct error err = {0};
    if (!plan_again(c, &again))
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

static bool exited_by_itself(const struct command *c)
{
    return !c->error && !c->limit && WIFEXITED(c->status);
}

struct session *shell_settle(struct command *c)
{
    _cleanup_buf_ struct buf b = BUF_INIT(REPORT_MAX);
    struct shell *s = c->shell;
    struct state_report report;
    struct state state;
    if (s->idle || !s->session)
        return NULL;
    if (read_report(c, &b, &report) < 0)
        return s->session;
    if (report.gone)
        s->gone = strdup(c->cwd);
    if (exited_by_itself(c) && state_parse(report.rest, report.rest_len, &state))
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
static void describe_cwd(const struct command *c, const struct state_report *report, char *text,
                         size_t size)
{
    char why[128] = "No such file or directory";
    const char *line = report->rest, *end = memchr(line, '\n', report->rest_len);
    const char *colon = end ? memrchr(line, ':', (size_t)(end - line)) : NULL;
    if (colon && end - colon > 2 && end - colon < (ptrdiff_t)sizeof why)
        snprintf(why, sizeof why, "%.*s", (int)(end - colon - 2), colon + 2);
    snprintf(text, size, "cannot enter the working directory %.300s: %s",
             (const char *)c->shell->call.letter.data, why);
}

bool shell_refused(struct command *c, char *text, size_t size)
{
    _cleanup_buf_ struct buf b = BUF_INIT(REPORT_MAX);
    struct state_report report;
    struct state state;
    if (c->error == ENOENT && c->error_step == SPAWN_EXEC) {
        snprintf(text, size, "this box has no shell: neither bash nor sh was found");
        return true;
    }
    if (!c->shell->call.own_cwd || c->error || !WIFEXITED(c->status) ||
        WEXITSTATUS(c->status) != 126 || read_report(c, &b, &report) < 0 || !report.taken ||
        report.rest_len == 0 || state_parse(report.rest, report.rest_len, &state))
        return false;
    describe_cwd(c, &report, text, size);
    return true;
}

static void put_notes(struct command *c, struct buf *b)
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

void shell_put_result(struct command *c, struct buf *b)
{
    struct state state;
    const struct session *session = c->shell->session;
    if (c->background)
        return;
    wire_put_u64(b, WIRE_K_STATE, c->shell->saved ? WIRE_STATE_SAVED : WIRE_STATE_LOST);
    if (session && state_parse(session->raw.data, session->raw.len, &state))
        wire_put(b, WIRE_K_CWD, state.cwd, state.cwd_len);
    put_notes(c, b);
}
