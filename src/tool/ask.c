#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "ask.h"
#include "session.h"
#include "thread.h"
#include "banned.h"

#define REQUEST_MAX           (WIRE_HEADER + WIRE_BODY_MAX)
#define WORKSPACE             "/workspace"
#define GUESTFILE_PATIENCE_MS 10000

void ask_begin_box(struct ask *a, struct box *box, int cancel, enum wire_type type)
{
    *a = (struct ask){.box = box,
                      .cancel = cancel,
                      .fd = -1,
                      .out = BUF_INIT(REQUEST_MAX),
                      .pulse = BOX_PULSE_INIT,
                      .patience_ms = ASK_PATIENCE_MS};
    a->begin = wire_begin(&a->out, type);
}

void ask_begin(struct ask *a, struct tool_call *c, enum wire_type type)
{
    ask_begin_box(a, tool_session_box(c->session), c->cancel, type);
}

void ask_free(struct ask *a)
{
    if (a->fd >= 0)
        wire_reader_free(&a->in);
    buf_free(&a->out);
    box_pulse_end(&a->pulse);
    cleanup_close(&a->fd);
}

void ask_path(struct ask *a, const char *path)
{
    size_t n = strlen(WORKSPACE);
    if (strncmp(path, WORKSPACE, n) == 0 && (!path[n] || path[n] == '/')) {
        path += n;
        path += strspn(path, "/");
    } else if (path[0] == '/') {
        wire_put_str(&a->out, WIRE_K_NAME, "/");
    }
    wire_put_str(&a->out, WIRE_K_PATH, *path ? path : ".");
}

/* Waits until the connection is ready, the call is cancelled, or the guest is not there to
 * answer. */
static int ask_wait(struct ask *a, short events, struct error *err)
{
    int n = 0;
    for (int left = a->patience_ms; left > 0 && n == 0; left -= BOX_PULSE_MS) {
        int r = box_pulse(a->box, &a->pulse, err);
        if (r < 0)
            return r;
        n = cancel_wait(a->fd, events, left < BOX_PULSE_MS ? left : BOX_PULSE_MS, a->cancel);
    }
    if (n == -ECANCELED)
        return error_set(err, ECANCELED, "the call was cancelled");
    if (n < 0)
        return error_errno(err, -n, "cannot wait for the box");
    return n > 0 ? 0
                 : error_set(err, ETIMEDOUT, "the box did not answer within %d seconds",
                             a->patience_ms / 1000);
}

void ask_end(struct ask *a)
{
    if (!a->ended)
        wire_end(&a->out, a->begin);
    a->ended = true;
}

int ask_send(struct ask *a, struct error *err)
{
    ask_end(a);
    if (a->out.failed)
        return error_set(err, E2BIG, "the request is longer than %u bytes", WIRE_BODY_MAX);
    int r = box_connect(a->box, &a->out, &a->fd, err);
    if (r < 0)
        return r;
    const struct timeval patience = {.tv_sec = a->patience_ms / 1000};
    setsockopt(a->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    a->in = WIRE_READER_INIT(a->fd);
    return 0;
}

int ask_flush(struct ask *a, struct error *err)
{
    int r = ask_wait(a, POLLOUT, err);
    if (r < 0)
        return r;
    r = wire_send(a->fd, &a->out, NULL, 0);
    if (r == -EPIPE || r == -ECONNRESET) /* it answered already: the answer says why */
        return 1;
    return r < 0 ? error_errno(err, -r, "cannot send to the box") : 0;
}

int ask_data(struct ask *a, const void *data, size_t n, bool last, struct error *err)
{
    const uint8_t *at = data;
    do {
        size_t piece = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;
        size_t begin = wire_begin(&a->out, WIRE_DATA);
        if (piece)
            wire_put(&a->out, WIRE_K_DATA, at, piece);
        if (last && piece == n)
            wire_put_u64(&a->out, WIRE_K_EOF, 1);
        wire_end(&a->out, begin);
        int r = ask_flush(a, err);
        if (r != 0)
            return r < 0 ? r : 0;
        at += piece;
        n -= piece;
    } while (n > 0);
    return 0;
}

int ask_next(struct ask *a, struct wire_frame *ret, struct error *err)
{
    int r;
    while ((r = wire_take(&a->in, ret)) == 0) {
        r = ask_wait(a, POLLIN, err);
        if (r < 0)
            return r;
        ssize_t n = wire_fill(&a->in);
        if (n > 0 || n == -EAGAIN)
            continue;
        /* The stream ended without an answer. If the box ended, another request says why. */
        _cleanup_buf_ struct buf ping = BUF_INIT(64);
        _cleanup_fd_ int fd = -1;
        wire_end(&ping, wire_begin(&ping, WIRE_PING));
        r = box_connect(a->box, &ping, &fd, err);
        return r < 0 ? r : error_set(err, EPIPE, "the box ended the call without an answer");
    }
    if (r < 0)
        return error_set(err, EPROTO, "the box sent a malformed answer");
    if (ret->type != WIRE_ERROR)
        return ret->type == WIRE_RESULT ? 0 : 1;

    /* What an ERROR frame says, in a form that is safe to show. */
    struct wire_field field = {0};
    _cleanup_buf_ struct buf text = BUF_INIT(4 * ERROR_TEXT_MAX);
    uint64_t code = wire_find_u64(ret, WIRE_K_CODE, EIO);
    if (wire_find(ret, WIRE_K_TEXT, &field))
        text_append(&text, field.data, field.size < ERROR_TEXT_MAX ? field.size : ERROR_TEXT_MAX);
    const char *said = text.len ? buf_cstr(&text) : NULL;
    return error_set(err, code > 0 && code < 4096 ? (int)code : EIO, "%s",
                     said ? said : "the box failed");
}

int ask_each(struct ask *a, int (*take)(void *data, const struct wire_frame *f), void *data,
             struct wire_frame *ret, struct error *err)
{
    int r = ask_send(a, err);
    while (r >= 0 && (r = ask_next(a, ret, err)) > 0) {
        int taken = take(data, ret);
        if (taken < 0)
            return error_set(err, -taken,
                             taken == -ENOMEM ? "no memory" : "the box sent a malformed answer");
    }
    return r;
}

int ask_collect(struct ask *a, struct buf *content, struct wire_frame *ret, struct error *err)
{
    int r = a->fd < 0 ? ask_send(a, err) : 0;
    while (r >= 0 && (r = ask_next(a, ret, err)) > 0) {
        struct wire_field data;
        if (ret->type != WIRE_DATA || !wire_find(ret, WIRE_K_DATA, &data))
            continue;
        if (data.size > content->max - content->len)
            return error_set(err, EFBIG, "the box sent more than %zu bytes", content->max);
        if (buf_append(content, data.data, data.size) < 0)
            return error_set(err, ENOMEM, "no memory");
    }
    return r;
}

int ask_result(struct ask *a, struct wire_frame *ret, struct error *err)
{
    int r = a->fd < 0 ? ask_send(a, err) : 0;
    while (r >= 0 && (r = ask_next(a, ret, err)) > 0)
        ;
    return r;
}

/* Files of the box for the host's own needs, in no call. */

static void guestfile_begin(struct ask *a, struct tool_session *s, enum wire_type type,
                            const char *path)
{
    ask_begin_box(a, tool_session_box(s), -1, type);
    a->patience_ms = GUESTFILE_PATIENCE_MS;
    ask_path(a, path);
}

int guestfile_read(struct tool_session *s, const char *path, struct buf *b, unsigned *ret_mode,
                   struct error *err)
{
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    guestfile_begin(&a, s, WIRE_READ, path);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, b->max + 1);
    int r = ask_collect(&a, b, &f, err);
    if (r == -EFBIG)
        return error_set(err, EFBIG, "%s is larger than %zu bytes", path, b->max);
    if (r == 0 && ret_mode)
        *ret_mode = (unsigned)wire_find_u64(&f, WIRE_K_MODE, 0);
    return r;
}

int guestfile_mode(struct tool_session *s, const char *path, unsigned *ret_mode, struct error *err)
{
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    guestfile_begin(&a, s, WIRE_READ, path); /* STAT would not follow a link */
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, 0);
    int r = ask_result(&a, &f, err);
    if (r == 0)
        *ret_mode = (unsigned)wire_find_u64(&f, WIRE_K_MODE, 0);
    return r;
}

int guestfile_list(struct tool_session *s, const char *path,
                   void (*each)(void *data, const char *name), void *data, struct error *err)
{
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    guestfile_begin(&a, s, WIRE_LIST, path);
    int r = ask_send(&a, err);
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0) {
        _cleanup_free_ char *name = f.type == WIRE_ENTRY ? wire_find_str(&f, WIRE_K_NAME) : NULL;
        if (name)
            each(data, name);
    }
    return r;
}

int guestfile_write(struct tool_call *c, const char *path, unsigned mode, const void *data,
                    size_t n, struct error *err)
{
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    ask_begin(&a, c, WIRE_WRITE);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_MODE, mode);
    int r = ask_send(&a, err);
    if (r == 0)
        r = ask_data(&a, data, n, true, err);
    return r < 0 ? r : ask_result(&a, &f, err);
}
