/* The SHELL request: its fields, and a shell that takes it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "background.h"
#include "clock.h"
#include "command.h"
#include "conn.h"
#include "error.h"
#include "exec.h"
#include "guest.h"
#include "shell/session.h"
#include "shell/start.h"
#include "banned.h"

#define DEFAULT_NAME "main"
#define HURRY        (5 * NS_PER_MS)

struct request {
    struct session *session;
    struct words env;
    struct shell_call call;
    struct command_limits limits;
    bool background;
};

static void call_free(struct shell_call *call)
{
    buf_free(&call->letter);
    buf_free(&call->data);
}

static void request_free(struct request *q)
{
    words_free(&q->env);
    call_free(&q->call);
}

static int parse_session(struct request *q, struct guest *g, const struct wire_frame *f,
                         struct error *err)
{
    struct wire_field field;
    bool named = wire_find(f, WIRE_K_NAME, &field);
    _cleanup_free_ char *name = named ? wire_find_str(f, WIRE_K_NAME) : strdup(DEFAULT_NAME);
    int r = words_collect(f, WIRE_K_ENV, &q->env);
    if (r < 0)
        return error_errno(err, -r, "cannot read the variables");
    q->session = name ? session_get(g, name) : NULL;
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

/* One piece of the letter. */
static int put_field(struct buf *b, const struct wire_frame *f, uint16_t key)
{
    struct wire_field field = {0};
    if (wire_find(f, key, &field) && memchr(field.data, 0, field.size))
        return -EINVAL;
    buf_append(b, field.data, field.size);
    return buf_append(b, "", 1);
}

static int parse_call(struct shell_call *call, const struct wire_frame *f, struct error *err)
{
    struct wire_field script, field;
    bool input = wire_find(f, WIRE_K_DATA, &field);
    call->letter = BUF_INIT(2 * WIRE_BODY_MAX);
    call->data = BUF_INIT(WIRE_BODY_MAX);
    if (!wire_find(f, WIRE_K_TEXT, &script))
        return error_set(err, EINVAL, "there is no script to run");
    if (input && buf_append(&call->data, field.data, field.size) < 0)
        return error_errno(err, ENOMEM, "cannot keep the script's input");
    call->own_cwd = wire_find(f, WIRE_K_CWD, &field) && field.size > 0;
    if (put_field(&call->letter, f, WIRE_K_CWD) < 0)
        return error_set(err, EINVAL, "the working directory is not a path");
    buf_append(&call->letter, input ? "1" : "", input ? 2 : 1);
    if (put_field(&call->letter, f, WIRE_K_TEXT) < 0)
        return error_set(err, EINVAL, "the script holds a NUL byte, which no shell can read");
    return call->letter.failed ? error_errno(err, ENOMEM, "cannot keep the script") : 0;
}

/* The shell that stands ready, if it fits. */
static struct command *take_ready(struct request *q)
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

static int begin(struct request *q, struct conn *conn, struct error *err)
{
    struct command *c = q->background ? NULL : take_ready(q);
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
    _cleanup_(request_free) struct request q = {0};
    struct error err = {0};
    exec_parse_limits(&q.limits, f);
    q.background = wire_find_u64(f, WIRE_K_BACKGROUND, 0) != 0;
    int r = parse_call(&q.call, f, &err);
    if (r >= 0)
        r = parse_session(&q, conn->guest, f, &err);
    if (r >= 0)
        r = begin(&q, conn, &err);
    if (r < 0)
        conn_error(conn, err.code, "%s", err.text);
    return 0;
}
