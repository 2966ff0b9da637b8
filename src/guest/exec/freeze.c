#include <errno.h>
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "command.h"
#include "freeze.h"
#include "worker.h"
#include "banned.h"

#define LOOK_EACH    (1 * NS_PER_MS)
#define BORROW_GRACE (20 * NS_PER_MS)
#define GIVE_UP      (2 * NS_PER_S)
#define PIDS_BYTES   (1u << 20)
#define WAITING_MAX  64

static void freeze_step(struct guest *g);

static void freeze_timer_fire(struct loop_timer *t)
{
    freeze_step(CONTAINER_OF(t, struct guest, freeze.timer));
}

void freeze_init(struct guest *g)
{
    g->freeze =
        (struct freeze){.stopped_before = BUF_INIT(PIDS_BYTES), .timer.fire = freeze_timer_fire};
}

static bool freeze_pids_have(const struct buf *b, pid_t pid)
{
    for (size_t at = 0; at < b->len; at += sizeof pid)
        if (memcmp(b->data + at, &pid, sizeof pid) == 0)
            return true;
    return false;
}

static void freeze_remember_stopped(struct guest *g)
{
    struct proc_stat s;
    if (proc_rewind(&g->proc) < 0)
        return;
    for (pid_t pid; (pid = proc_next(&g->proc));)
        if (proc_read_stat(&g->proc, pid, &s) >= 0 && s.state == 'T')
            buf_append(&g->freeze.stopped_before, &pid, sizeof pid);
}

/*
 * Lets processes go on, the youngest first: a shell that went on before its child would see the
 * child stopped, and take it for a job that its user stopped.
 */
static void freeze_continue_all(struct guest *g)
{
    _cleanup_buf_ struct buf pids = BUF_INIT(PIDS_BYTES);
    if (proc_rewind(&g->proc) < 0)
        return;
    for (pid_t pid; (pid = proc_next(&g->proc));)
        if (!freeze_pids_have(&g->freeze.stopped_before, pid))
            buf_append(&pids, &pid, sizeof pid);
    for (size_t at = pids.len; at > 0; at -= sizeof(pid_t)) {
        pid_t pid;
        memcpy(&pid, pids.data + at - sizeof pid, sizeof pid);
        kill(pid, SIGCONT);
    }
}

static void freeze_end(struct guest *g)
{
    loop_timer_set(&g->loop, &g->freeze.timer, 0);
    if (g->has_children)
        freeze_continue_all(g);
    buf_free(&g->freeze.stopped_before);
    g->freeze.state = FREEZE_OFF;
    g->freeze.count = 0;
    background_thaw(g);
    worker_kill_stopped(g);
}

/* Processes that have not stopped: how many, and the first of those that sleep without taking
 * signals. */
struct freeze_census {
    unsigned alive;
    unsigned moving;
    pid_t waiting[WAITING_MAX];
    size_t n_waiting;
};

static void freeze_count(struct guest *g, struct freeze_census *ret)
{
    struct proc_stat s;
    *ret = (struct freeze_census){0};
    if (proc_rewind(&g->proc) < 0)
        return;
    for (pid_t pid; (pid = proc_next(&g->proc));) {
        if (proc_read_stat(&g->proc, pid, &s) < 0 || proc_stat_is_dead(&s))
            continue;
        ret->alive++;
        if (proc_is_stopped(&g->proc, pid, &s))
            continue;
        if (s.state == 'D' && s.threads == 1 && ret->n_waiting < WAITING_MAX)
            ret->waiting[ret->n_waiting++] = pid;
        else
            ret->moving++;
    }
}

/*
 * Who called vfork takes no signal until its child executes or ends, and that child has stopped:
 * neither moves. So one that waits like that and has a stopped child counts as stopped, after a
 * grace for those that wait for a disk.
 */
static bool freeze_all_wait_for_children(struct guest *g, struct freeze_census *c)
{
    struct proc_stat s;
    size_t left = c->n_waiting;
    if (proc_rewind(&g->proc) < 0)
        return false;
    for (pid_t pid; left && (pid = proc_next(&g->proc));) {
        if (proc_read_stat(&g->proc, pid, &s) < 0 || s.state != 'T')
            continue;
        for (size_t i = 0; i < c->n_waiting; i++)
            if (c->waiting[i] == s.parent) {
                c->waiting[i] = 0;
                left--;
                break;
            }
    }
    return left == 0;
}

static bool freeze_all_stopped(struct guest *g)
{
    struct freeze_census c;
    freeze_count(g, &c);
    g->freeze.count = c.alive;
    if (c.moving || !c.n_waiting)
        return c.moving == 0;
    return clock_now() - g->freeze.began > BORROW_GRACE && freeze_all_wait_for_children(g, &c);
}

static void freeze_answer(struct guest *g, size_t i)
{
    struct conn *conn = g->freeze.holders[i];
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    wire_put_u64(&conn->out, WIRE_K_COUNT, g->freeze.count);
    wire_put_u64(&conn->out, WIRE_K_MAPPED, g->freeze.mapped);
    wire_end(&conn->out, at);
    g->freeze.answered[i] = true;
    conn_push(conn);
}

/* Writes to a mapped file may leave no trace in its times (diff/copy.c). */
static bool freeze_any_maps_files(struct guest *g)
{
    if (!g->has_children || proc_rewind(&g->proc) < 0)
        return g->has_children;
    for (pid_t pid; (pid = proc_next(&g->proc));)
        if (proc_maps_files(&g->proc, pid))
            return true;
    return false;
}

static void freeze_step(struct guest *g)
{
    int64_t now = clock_now();
    if (notify_is_busy(&g->notify)) /* a folder is being moved, which has its own time limit */
        g->freeze.began = now;
    if ((!g->has_children || freeze_all_stopped(g)) && !notify_is_busy(&g->notify)) {
        g->freeze.state = FREEZE_ON;
        g->freeze.mapped = freeze_any_maps_files(g);
        for (size_t i = 0; i < g->freeze.n_holders; i++)
            if (!g->freeze.answered[i])
                freeze_answer(g, i);
    } else if (now - g->freeze.began > GIVE_UP) {
        freeze_end(g);
        while (g->freeze.n_holders)
            conn_error(g->freeze.holders[--g->freeze.n_holders], ETIMEDOUT,
                       "the box's processes could not all be stopped");
    } else {
        kill(-1, SIGSTOP);
        loop_timer_set(&g->loop, &g->freeze.timer, now + LOOK_EACH);
    }
}

static void freeze_begin(struct guest *g)
{
    g->freeze.state = FREEZE_STOPPING;
    g->freeze.began = clock_now();
    if (g->has_children) {
        freeze_remember_stopped(g);
        kill(-1, SIGSTOP);
    }
    freeze_step(g);
}

static int freeze_frame(struct conn *conn, const struct wire_frame *f)
{
    return -EPROTO;
}

static void freeze_room(struct conn *conn) {}

static void freeze_closed(struct conn *conn)
{
    struct freeze *z = &conn->guest->freeze;
    for (size_t i = 0; i < z->n_holders; i++)
        if (z->holders[i] == conn) {
            z->n_holders--;
            z->holders[i] = z->holders[z->n_holders];
            z->answered[i] = z->answered[z->n_holders];
            break;
        }
    if (z->n_holders == 0)
        freeze_end(conn->guest);
}

static const struct conn_user freeze_user = {
    .frame = freeze_frame, .room = freeze_room, .closed = freeze_closed};

int freeze_request(struct conn *conn, const struct wire_frame *f)
{
    struct guest *g = conn->guest;
    struct freeze *z = &g->freeze;
    if (z->n_holders == FREEZE_HOLDERS_MAX) {
        conn_error(conn, EAGAIN, "the box is frozen too many times at once");
        return 0;
    }
    conn->user = &freeze_user;
    z->holders[z->n_holders] = conn;
    z->answered[z->n_holders++] = false;
    if (z->state == FREEZE_OFF)
        freeze_begin(g);
    else if (z->state == FREEZE_ON)
        freeze_answer(g, z->n_holders - 1);
    return 0;
}
