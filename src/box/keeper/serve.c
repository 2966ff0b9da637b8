/*
 * A keeper's side of one connection: one request, entries while it is served, one result.
 *
 * Each kind of request is a row of KEEPER_REQUESTS. Its function puts the fields of the result, or
 * fails with a text, which becomes the answer. A client that has gone is no failure.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper_internal.h"
#include "net_policy.h"
#include "thread.h"
#include "banned.h"

#define ANSWER_MAX (WIRE_HEADER + WIRE_BODY_MAX)
#define PATHS_MAX  4096

/* Everything a request's function needs. */
struct visit {
    struct request *q;
    struct wire_frame frame;   /* what was asked, */
    struct wire_reader reader; /* with which descriptors */
    struct buf entry;          /* a frame before the result */
    struct buf result; /* begun; sent when the function has succeeded, unless it sent it itself */
    int stream;        /* goes with the result; -1: none */
    bool answered;
};

static struct box *visit_box(struct visit *v)
{
    return v->q->instance->box;
}

static int visit_send_entry(struct visit *v, size_t begin)
{
    int r = wire_end_send(v->q->conn, &v->entry, begin);
    v->entry.len = 0;
    return r;
}

static int visit_send_result(struct visit *v)
{
    v->answered = true;
    wire_end(&v->result, 0);
    return wire_send(v->q->conn, &v->result, &v->stream, v->stream >= 0);
}

static int visit_malformed(struct error *err)
{
    return error_set(err, EPROTO, "malformed request");
}

static int visit_lock_owner(struct visit *v, struct error *err)
{
    pthread_mutex_lock(&v->q->held->owner);
    int r = held_enter(v->q, err);
    if (r < 0)
        pthread_mutex_unlock(&v->q->held->owner);
    return r;
}

static void visit_unlock_owner(struct visit *v)
{
    held_leave(v->q);
    pthread_mutex_unlock(&v->q->held->owner);
}

/* Sends the outcome of one path. A client that has gone changes nothing: what was begun is
 * finished. */
static void visit_report(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct visit *v = data;
    size_t begin = wire_begin(&v->entry, WIRE_ENTRY);
    wire_put_str(&v->entry, WIRE_K_PATH, path);
    wire_put_u64(&v->entry, WIRE_K_KIND, outcome);
    if (why)
        wire_put_str(&v->entry, WIRE_K_TEXT, why);
    visit_send_entry(v, begin);
}

static void visit_report_restored(void *data, const char *path, const char *why)
{
    visit_report(data, path, APPLY_DONE, why);
}

/* Runs a command; its client's going away cancels it. */
static int serve_exec(struct visit *v, struct error *err)
{
    _cleanup_(keeper_command_free) struct keeper_command c = {0};
    _cleanup_(box_result_free) struct box_result result = {0};
    if (v->reader.n_fds < 3 || keeper_find_command(&v->frame, &c) < 0)
        return visit_malformed(err);
    c.command.in = v->reader.fds[0];
    c.command.out = c.command.capture ? -1 : v->reader.fds[1];
    c.command.err = c.command.capture ? -1 : v->reader.fds[2];
    c.command.cancel = v->q->conn;

    /* What belongs to the box's owner stops its processes for a moment, and no command can start
     * meanwhile. */
    pthread_mutex_lock(&v->q->held->owner);
    int r = held_enter(v->q, err);
    pthread_mutex_unlock(&v->q->held->owner);
    if (r < 0)
        return r;
    r = box_exec(visit_box(v), &c.command, &result, err);
    held_leave(v->q);
    if (r < 0)
        return r;
    /* Before the client knows that the command has ended, and the user goes on to work on the
     * files. */
    if (visit_lock_owner(v, NULL) == 0) {
        box_note_seen(visit_box(v), NULL);
        visit_unlock_owner(v);
    }

    const struct buf *const kept[] = {[KEEPER_OUT_HEAD] = &result.out.head,
                                      [KEEPER_OUT_TAIL] = &result.out.tail,
                                      [KEEPER_ERR_HEAD] = &result.err.head,
                                      [KEEPER_ERR_TAIL] = &result.err.tail};
    for (size_t stream = KEEPER_OUT_HEAD; stream < ARRAY_SIZE(kept); stream++)
        for (size_t at = 0, n; at < kept[stream]->len; at += n) {
            size_t left = kept[stream]->len - at;
            n = left < WIRE_DATA_MAX ? left : WIRE_DATA_MAX;
            size_t begin = wire_begin(&v->entry, (enum wire_type)KEEPER_KEPT);
            wire_put_u64(&v->entry, WIRE_K_STREAM, stream);
            wire_put(&v->entry, WIRE_K_DATA, kept[stream]->data + at, n);
            if (visit_send_entry(v, begin) < 0)
                return 0; /* the client has gone */
        }
    keeper_put_result(&v->result, &result);
    return 0;
}

/* The next frame is a request to the guest. The client gets the stream on which the guest
 * answers. */
static int serve_connect(struct visit *v, struct error *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(ANSWER_MAX);
    struct wire_frame frame;
    if (wire_read(&v->reader, &frame) <= 0)
        return visit_malformed(err);
    size_t begin = wire_begin(&request, frame.type);
    buf_append(&request, frame.body, frame.size);
    wire_end(&request, begin);
    int r = held_enter(v->q, err);
    if (r == 0)
        r = box_connect(visit_box(v), &request, &v->stream, err);
    held_leave(v->q);
    return r;
}

static int serve_terminal(struct visit *v, struct error *err)
{
    _cleanup_(keeper_command_free) struct keeper_command c = {0};
    if (keeper_find_command(&v->frame, &c) < 0 || !c.argv[0])
        return visit_malformed(err);
    int r = held_enter(v->q, err);
    if (r == 0)
        r = box_terminal(visit_box(v), &c.command,
                         (unsigned)wire_find_u64(&v->frame, WIRE_K_ROWS, 24),
                         (unsigned)wire_find_u64(&v->frame, WIRE_K_COLS, 80), &v->stream, err);
    held_leave(v->q);
    return r;
}

static int serve_changes(struct visit *v, struct error *err)
{
    _cleanup_(box_changes_free) struct box_changes changes = {0};
    _cleanup_box_info_ struct box_info info = {0};
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_info(visit_box(v), &info, err);
    if (r == 0 && info.mode == BOX_COW)
        r = box_changes(visit_box(v), &changes, err);
    visit_unlock_owner(v);
    for (size_t i = 0; r == 0 && i < changes.count; i++) {
        const struct box_change *change = &changes.items[i];
        size_t begin = wire_begin(&v->entry, WIRE_ENTRY);
        wire_put_str(&v->entry, WIRE_K_PATH, change->path);
        wire_put_u64(&v->entry, WIRE_K_KIND, change->kind);
        wire_put_u64(&v->entry, WIRE_K_MODE, change->mode);
        wire_put_u64(&v->entry, WIRE_K_SIZE, change->size);
        if (visit_send_entry(v, begin) < 0)
            break; /* the client has gone */
    }
    return r;
}

static int serve_diff(struct visit *v, struct error *err)
{
    if (v->reader.n_fds < 1)
        return visit_malformed(err);
    return box_diff(visit_box(v), wire_find_u64(&v->frame, WIRE_K_STAT, 0), v->reader.fds[0], err);
}

/* Apply and sync. */
static int serve_apply(struct visit *v, struct error *err)
{
    const struct wire_frame *f = &v->frame;
    const struct apply_report report = {.say = visit_report, .data = v};
    struct apply_options o = {
        .on_conflict = (enum apply_choice)wire_find_u64(f, KEEPER_K_ON_CONFLICT, APPLY_REPORT),
        .allow_git_dirs = wire_find_u64(f, KEEPER_K_ALLOW_GIT_DIRS, 0),
        .replaced_folder = wire_find_u64(f, KEEPER_K_REPLACED_FOLDER, 0),
    };
    _cleanup_free_ char **paths = keeper_find_strings(f, WIRE_K_PATH, &o.n_paths);
    if (!paths)
        return visit_malformed(err);
    if (o.n_paths >= PATHS_MAX)
        return error_set(err, E2BIG, "more than %d paths", PATHS_MAX - 1);
    o.paths = (const char *const *)paths;
    bool apply = (enum keeper_type)f->type == KEEPER_APPLY;
    int r = (apply ? box_apply : box_sync)(visit_box(v), &o, &report, err);
    if (r >= 0)
        wire_put_u64(&v->result, WIRE_K_COUNT, (uint64_t)r);
    return r < 0 ? r : 0;
}

static int serve_note(struct visit *v, struct error *err)
{
    return box_note_seen(visit_box(v), err);
}

/* The owner lock is held. */
static int held_find_snapshot(const struct held *h, const char *name, struct snapshot **ret,
                              struct error *err)
{
    for (size_t i = 0; i < h->n_snapshots; i++)
        if (strcmp(h->snapshots[i].name, name) == 0) {
            *ret = h->snapshots[i].snapshot;
            return 0;
        }
    if (h->last_snapshot == 0)
        return error_set(err, ENOENT, "the box '%s' has no snapshot '%s': it has no snapshots",
                         h->id.text, name);
    return error_set(err, ENOENT, "the box '%s' has no snapshot '%s'; the last is s%u", h->id.text,
                     name, h->last_snapshot);
}

/* All forks or none: also if their names do not reach the client. */
static int serve_fork(struct visit *v, struct error *err)
{
    struct request *q = v->q;
    struct held *forks[KEEPER_FORKS_MAX];
    const struct restore_report report = {.say = visit_report_restored, .data = v};
    struct snapshot *fresh = NULL, *from = NULL;
    uint64_t n = wire_find_u64(&v->frame, WIRE_K_COUNT, 1), made = 0;
    _cleanup_free_ char *name = wire_find_str(&v->frame, WIRE_K_NAME);
    if (n == 0 || n > KEEPER_FORKS_MAX)
        return error_set(err, EINVAL, "the number of forks must be between 1 and %d",
                         KEEPER_FORKS_MAX);
    int r = name ? held_find_snapshot(q->held, name, &from, err)
                 : box_snapshot(visit_box(v), &fresh, err);
    while (r == 0 && made < n) {
        struct box *b = NULL;
        r = box_fork_at(name ? from : fresh, visit_box(v), made ? NULL : &report, &b, err);
        if (r == 0)
            r = held_add(q->keeper, b, &q->held->life, q->held, &forks[made], err);
        if (r == 0)
            wire_put_str(&v->result, WIRE_K_NAME, forks[made++]->id.text);
    }
    snapshot_free(fresh);
    bool named = r == 0 && visit_send_result(v) == 0;
    for (size_t i = 0; i < made; i++) {
        if (!named)
            held_remove(q->keeper, forks[i]);
        held_unref(q->keeper, forks[i]);
    }
    return r;
}

static int serve_snapshot(struct visit *v, struct error *err)
{
    struct held *h = v->q->held;
    struct snapshot *s = NULL;
    int r = box_snapshot(visit_box(v), &s, err);
    if (r < 0)
        return r;
    struct kept_snapshot *more = h->last_snapshot < KEEPER_SNAPSHOTS_MAX
                                     ? reallocarray(h->snapshots, h->n_snapshots + 1, sizeof *more)
                                     : NULL;
    if (!more) {
        snapshot_free(s);
        return error_set(err, ENOSPC, "a box can have at most %d snapshots", KEEPER_SNAPSHOTS_MAX);
    }
    h->snapshots = more;
    more += h->n_snapshots++;
    more->snapshot = s;
    snprintf(more->name, sizeof more->name, "s%u", h->last_snapshot + 1);
    pthread_mutex_lock(&v->q->keeper->lock);
    h->last_snapshot++;
    pthread_mutex_unlock(&v->q->keeper->lock);
    wire_put_str(&v->result, WIRE_K_NAME, more->name);
    return 0;
}

/* Does not enter the instance, which it replaces. */
static int serve_restore(struct visit *v, struct error *err)
{
    struct held *h = v->q->held;
    const struct restore_report report = {.say = visit_report_restored, .data = v};
    struct snapshot *s = NULL;
    struct box *fresh = NULL;
    _cleanup_free_ char *name = wire_find_str(&v->frame, WIRE_K_NAME);
    if (!name)
        return visit_malformed(err);
    pthread_mutex_lock(&h->owner);
    int r = held_find_snapshot(h, name, &s, err);
    if (r == 0 && !h->instance)
        r = error_set(err, ENOENT, "the box '%s' has been removed", h->id.text);
    if (r == 0)
        r = box_fork_at(s, h->instance->box, &report, &fresh, err);
    if (r == 0)
        r = held_replace(v->q->keeper, h, fresh, err);
    pthread_mutex_unlock(&h->owner);
    return r;
}

static int serve_remove(struct visit *v, struct error *err)
{
    if (held_remove(v->q->keeper, v->q->held))
        return 0;
    return error_set(err, ENOENT, "the box '%s' has been removed", v->q->held->id.text);
}

static int serve_set(struct visit *v, struct error *err)
{
    const struct wire_frame *f = &v->frame;
    _cleanup_free_ char *net = wire_find_str(f, KEEPER_K_NET);
    struct box_options o = {.net = net ? net_policy_find(net, strlen(net)) : NULL,
                            .limits = keeper_find_limits(f)};
    _cleanup_free_ char **allow = keeper_find_strings(f, KEEPER_K_ALLOW, &o.n_allow);
    _cleanup_free_ char **hosts = keeper_find_strings(f, KEEPER_K_HOST, &o.n_hosts);
    _cleanup_free_ char **env = keeper_find_strings(f, KEEPER_K_NET_ENV, &o.n_net_env);
    if (!o.net || !allow || !hosts || !env || o.n_allow > ARRAY_SIZE(o.allow) ||
        o.n_hosts > ARRAY_SIZE(o.hosts) || o.n_net_env > ARRAY_SIZE(o.net_env))
        return visit_malformed(err);
    memcpy(o.allow, allow, o.n_allow * sizeof *allow);
    memcpy(o.hosts, hosts, o.n_hosts * sizeof *hosts);
    memcpy(o.net_env, env, o.n_net_env * sizeof *env);
    return box_adjust(visit_box(v), &o, (unsigned)wire_find_u64(f, KEEPER_K_FIELDS, 0), err);
}

/* Does not wait for the owner's lock: a list of boxes does not hang on one that is busy. */
static int serve_info(struct visit *v, struct error *err)
{
    const struct held *h = v->q->held;
    struct buf *out = &v->result;
    uint64_t commands = 0;
    _cleanup_box_info_ struct box_info info = {0};
    int r = held_enter(v->q, err);
    if (r < 0)
        return r;
    r = box_info(visit_box(v), &info, err);
    int64_t now = clock_now();
    pthread_mutex_lock(&v->q->keeper->lock);
    int64_t until = held_until(h);
    uint64_t snapshots = h->last_snapshot;
    for (const struct request *q = v->q->instance->requests; q; q = q->next)
        commands += q != v->q;
    pthread_mutex_unlock(&v->q->keeper->lock);
    held_leave(v->q);
    if (r < 0)
        return r;

    wire_put_u64(out, KEEPER_K_PID, (uint64_t)getpid());
    wire_put_u64(out, KEEPER_K_BOX_MODE, info.mode);
    wire_put_u64(out, KEEPER_K_AGE_NS, (uint64_t)(now - h->born));
    wire_put_u64(out, KEEPER_K_LEFT_NS,
                 !until        ? UINT64_MAX
                 : until > now ? (uint64_t)(until - now)
                               : 0);
    if (info.workspace)
        wire_put_str(out, WIRE_K_PATH, info.workspace);
    wire_put_u64(out, KEEPER_K_SNAPSHOTS, snapshots);
    wire_put_u64(out, WIRE_K_COUNT, commands);
    wire_put_str(out, KEEPER_K_NET, info.net);
    keeper_put_limits(out, &info.limits);
    return 0;
}

/* Requests that belong to the box's owner are served with its lock held, and in its instance. */
static const struct {
    enum keeper_type type;
    bool owner;
    int (*serve)(struct visit *v, struct error *err);
} KEEPER_REQUESTS[] = {
    {KEEPER_EXEC, false, serve_exec},       {KEEPER_CONNECT, false, serve_connect},
    {KEEPER_INFO, false, serve_info},       {KEEPER_SET, true, serve_set},
    {KEEPER_CHANGES, false, serve_changes}, {KEEPER_DIFF, true, serve_diff},
    {KEEPER_APPLY, true, serve_apply},      {KEEPER_SYNC, true, serve_apply},
    {KEEPER_NOTE, true, serve_note},        {KEEPER_SNAPSHOT, true, serve_snapshot},
    {KEEPER_FORK, true, serve_fork},        {KEEPER_RESTORE, false, serve_restore},
    {KEEPER_REMOVE, false, serve_remove},   {KEEPER_TERMINAL, false, serve_terminal},
};

void keeper_serve(struct request *q)
{
    struct error err = {0};
    struct ucred peer;
    socklen_t size = sizeof peer;
    struct visit v = {.q = q,
                      .reader = WIRE_READER_INIT(q->conn),
                      .entry = BUF_INIT(ANSWER_MAX),
                      .result = BUF_INIT(ANSWER_MAX),
                      .stream = -1};
    wire_begin(&v.result, WIRE_RESULT);
    bool is_owner = getsockopt(q->conn, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                    (peer.uid == geteuid() || peer.uid == 0);
    if (is_owner && wire_read(&v.reader, &v.frame) > 0) {
        size_t i = 0;
        while (i < ARRAY_SIZE(KEEPER_REQUESTS) &&
               KEEPER_REQUESTS[i].type != (enum keeper_type)v.frame.type)
            i++;
        bool known = i < ARRAY_SIZE(KEEPER_REQUESTS), owner = known && KEEPER_REQUESTS[i].owner;
        int r =
            known ? 0
                  : error_set(&err, EPROTO, "the keeper of this box does not support this request");
        if (r == 0 && owner)
            r = visit_lock_owner(&v, &err);
        if (r == 0) {
            r = KEEPER_REQUESTS[i].serve(&v, &err);
            if (owner)
                visit_unlock_owner(&v);
        }
        if (r < 0) {
            size_t begin = wire_begin(&v.entry, WIRE_ERROR);
            wire_put_u64(&v.entry, WIRE_K_CODE, (uint64_t)err.code);
            wire_put_str(&v.entry, WIRE_K_TEXT, err.text);
            visit_send_entry(&v, begin);
        } else if (!v.answered) {
            visit_send_result(&v);
        }
    }
    cleanup_close(&v.stream);
    buf_free(&v.entry);
    buf_free(&v.result);
    wire_reader_free(&v.reader);
    close(q->conn);
}
