#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "keeper_visit.h"
#include "keeper_serve.h"
#include "keeper_wire.h"
#include "banned.h"

int visit_send(struct visit *v, size_t begin)
{
    wire_end(&v->out, begin);
    int r = wire_send(v->q->conn, &v->out, NULL, 0);
    if (r < 0)
        v->out.len = 0;
    return r;
}

int visit_answer(struct visit *v)
{
    return visit_send(v, wire_begin(&v->out, WIRE_RESULT));
}

int visit_lock_owner(struct visit *v, struct error *err)
{
    pthread_mutex_lock(&v->q->held->owner);
    int r = held_enter(v->q, err);
    if (r < 0)
        pthread_mutex_unlock(&v->q->held->owner);
    return r;
}

void visit_unlock_owner(struct visit *v)
{
    held_leave(v->q);
    pthread_mutex_unlock(&v->q->held->owner);
}

static void send_error(int conn, const struct error *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(KEEPER_ANSWER_MAX);
    size_t begin = wire_begin(&out, WIRE_ERROR);
    wire_put_u64(&out, WIRE_K_CODE, (uint64_t)err->code);
    wire_put_str(&out, WIRE_K_TEXT, err->text);
    wire_end(&out, begin);
    wire_send(conn, &out, NULL, 0);
}

static int serve_diff(struct visit *v, struct error *err)
{
    if (v->reader->n_fds < 1)
        return error_set(err, EPROTO, "malformed request");
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_diff(v->q->in->box, wire_find_u64(v->frame, WIRE_K_STAT, 0), v->reader->fds[0], err);
    visit_unlock_owner(v);
    if (r == 0)
        visit_answer(v);
    return r;
}

/* The client talks with the guest itself from here on. */
static int serve_connect(struct visit *v, struct error *err)
{
    if (v->reader->n_fds < 1)
        return error_set(err, EPROTO, "malformed request");
    int r = held_enter(v->q, err);
    if (r < 0)
        return r;
    r = box_give(v->q->in->box, v->reader->fds[0], err);
    held_leave(v->q);
    if (r == 0)
        visit_answer(v);
    return r;
}

static void put_settings(struct buf *out, struct box *b)
{
    struct box_limits limits = box_limits_of(b);
    _cleanup_free_ char *net = box_net_text(b);
    wire_put_str(out, KEEPER_K_NET, net ? net : "");
    wire_put_u64(out, KEEPER_K_MEMORY, limits.memory);
    wire_put_u64(out, KEEPER_K_PIDS, limits.pids);
    wire_put_u64(out, KEEPER_K_MILLICPUS, (uint64_t)(limits.cpus * 1000 + 0.5));
    wire_put_u64(out, KEEPER_K_TIMEOUT_NS, (uint64_t)limits.timeout_ns);
}

/* Copies the texts of one key to a list of at most `max`, all of which point into *ret_memory. */
static int set_strings(const struct wire_frame *f, uint16_t key, const char **list, size_t max,
                       size_t *ret_n, char **ret_memory)
{
    struct wire_field field;
    size_t n = 0, bytes = 1;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key)
            bytes += field.size + 1;
    char *text = *ret_memory = calloc(1, bytes);
    for (size_t at = 0; text && wire_next(f, &at, &field);) {
        if (field.key != key)
            continue;
        if (n == max || memchr(field.data, 0, field.size))
            return -EPROTO;
        list[n++] = memcpy(text, field.data, field.size);
        text += field.size + 1;
    }
    *ret_n = n;
    return text ? 0 : -ENOMEM;
}

static int serve_set(struct visit *v, struct error *err)
{
    const struct wire_frame *f = v->frame;
    _cleanup_free_ char *allow = NULL, *hosts = NULL, *env = NULL;
    struct box_options o = {
        .net = (enum box_net)wire_find_u64(f, KEEPER_K_NET, BOX_NET_OFF),
        .limits = {.memory = wire_find_u64(f, KEEPER_K_MEMORY, 0),
                   .pids = wire_find_u64(f, KEEPER_K_PIDS, 0),
                   .cpus = (double)wire_find_u64(f, KEEPER_K_MILLICPUS, 0) / 1000,
                   .timeout_ns = (int64_t)wire_find_u64(f, KEEPER_K_TIMEOUT_NS, 0)}};
    if (o.net > BOX_NET_ALLOW ||
        set_strings(f, KEEPER_K_ALLOW, o.allow, ARRAY_SIZE(o.allow), &o.n_allow, &allow) < 0 ||
        set_strings(f, KEEPER_K_HOST, o.hosts, ARRAY_SIZE(o.hosts), &o.n_hosts, &hosts) < 0 ||
        set_strings(f, KEEPER_K_NET_ENV, o.net_env, ARRAY_SIZE(o.net_env), &o.n_net_env, &env) < 0)
        return error_set(err, EPROTO, "malformed request");
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_adjust(v->q->in->box, &o, (unsigned)wire_find_u64(f, KEEPER_K_FIELDS, 0), err);
    visit_unlock_owner(v);
    if (r == 0)
        visit_answer(v);
    return r;
}

static int serve_info(struct visit *v, struct error *err)
{
    const struct held *h = v->q->held;
    uint64_t commands = 0;
    int r = held_enter(v->q, err);
    if (r < 0)
        return r;
    int64_t now = clock_now();
    pthread_mutex_lock(&v->q->keeper->lock);
    int64_t until = held_until(h);
    pthread_mutex_unlock(&v->q->keeper->lock);
    const char *workspace = box_workspace(v->q->in->box);
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    wire_put_u64(&v->out, KEEPER_K_PID, (uint64_t)getpid());
    wire_put_u64(&v->out, KEEPER_K_BOX_MODE, box_mode_of(v->q->in->box));
    wire_put_u64(&v->out, KEEPER_K_AGE_NS, (uint64_t)(now - h->born));
    wire_put_u64(&v->out, KEEPER_K_LEFT_NS,
                 !until        ? UINT64_MAX
                 : until > now ? (uint64_t)(until - now)
                               : 0);
    if (workspace && *workspace)
        wire_put_str(&v->out, WIRE_K_PATH, workspace);
    pthread_mutex_lock(&v->q->keeper->lock);
    for (const struct request *q = v->q->in->requests; q; q = q->next)
        commands += q != v->q;
    wire_put_u64(&v->out, KEEPER_K_SNAPSHOTS, h->n_snapshots);
    pthread_mutex_unlock(&v->q->keeper->lock);
    wire_put_u64(&v->out, WIRE_K_COUNT, commands);
    put_settings(&v->out, v->q->in->box);
    held_leave(v->q);
    visit_send(v, begin);
    return 0;
}

static int dispatch(struct visit *v, struct error *err)
{
    switch ((enum keeper_type)v->frame->type) {
    case KEEPER_EXEC:
        return serve_exec(v, err);
    case KEEPER_FORK:
        return serve_fork(v, err);
    case KEEPER_SNAPSHOT:
        return serve_snapshot(v, err);
    case KEEPER_RESTORE:
        return serve_restore(v, err);
    case KEEPER_DIFF:
        return serve_diff(v, err);
    case KEEPER_APPLY:
        return serve_apply(v, err);
    case KEEPER_REMOVE:
        return serve_remove(v, err);
    case KEEPER_INFO:
        return serve_info(v, err);
    case KEEPER_CONNECT:
        return serve_connect(v, err);
    case KEEPER_CHANGES:
        return serve_changes(v, err);
    case KEEPER_SYNC:
        return serve_sync(v, err);
    case KEEPER_NOTE:
        return serve_note(v, err);
    case KEEPER_SET:
        return serve_set(v, err);
    case KEEPER_KEPT:
        break;
    }
    return error_set(err, EPROTO, "the keeper of this box does not support this request");
}

static bool is_owner(int conn)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return false;
    return peer.uid == geteuid() || peer.uid == 0;
}

void keeper_serve(struct request *q)
{
    struct error err = {0};
    struct wire_frame frame;
    struct wire_reader reader = WIRE_READER_INIT(q->conn);
    struct visit visit = {
        .q = q, .frame = &frame, .reader = &reader, .out = BUF_INIT(KEEPER_ANSWER_MAX)};
    int r = -EPERM;
    if (is_owner(q->conn))
        r = wire_read(&reader, &frame);
    if (r > 0 && dispatch(&visit, &err) < 0)
        send_error(q->conn, &err);
    buf_free(&visit.out);
    wire_reader_free(&reader);
    close(q->conn);
}
