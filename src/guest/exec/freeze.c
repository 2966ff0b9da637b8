/*
 * The FREEZE request: stops every process but this one until the connection closes, so that a copy
 * of the box's files is consistent. Freezes nest; the processes continue when the last one closes.
 * A process that its owner had stopped before stays stopped. Nothing starts during a freeze.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "command.h"
#include "file.h"
#include "proc.h"
#include "thread.h"
#include "banned.h"

#define LOOK_EACH    (1 * NS_PER_MS)
#define BORROW_GRACE (20 * NS_PER_MS)
#define GIVE_UP      (2 * NS_PER_S)
#define PIDS_BYTES   (1u << 20)
#define WAITING_MAX  64

static void freeze_end(struct guest *g)
{
    struct freeze *z = &g->freeze;
    loop_timer_set(&g->loop, &z->timer, 0);
    /* The youngest first: a shell that went on before its child would see the child stopped, and
     * take it for a job that its user stopped. */
    _cleanup_buf_ struct buf pids = BUF_INIT(PIDS_BYTES);
    if (g->has_children && proc_rewind(&g->proc) == 0)
        for (pid_t pid; (pid = proc_next(&g->proc));) {
            bool was_stopped = false;
            for (size_t at = 0; !was_stopped && at < z->stopped_before.len; at += sizeof pid)
                was_stopped = memcmp(z->stopped_before.data + at, &pid, sizeof pid) == 0;
            if (!was_stopped)
                buf_append(&pids, &pid, sizeof pid);
        }
    for (size_t at = pids.len; at > 0; at -= sizeof(pid_t)) {
        pid_t pid;
        memcpy(&pid, pids.data + at - sizeof pid, sizeof pid);
        kill(pid, SIGCONT);
    }
    buf_free(&z->stopped_before);
    z->state = FREEZE_OFF;
    z->count = 0;
    background_thaw(g);
    worker_kill_stopped(g);
}

/* Whether no process moves any more; counts those that live. */
static bool freeze_all_stopped(struct guest *g)
{
    struct proc_stat s;
    pid_t waiting[WAITING_MAX]; /* they sleep without taking signals */
    size_t n_waiting = 0;
    unsigned moving = 0;
    if (proc_rewind(&g->proc) < 0)
        return false;
    g->freeze.count = 0;
    for (pid_t pid; (pid = proc_next(&g->proc));) {
        if (proc_read_stat(&g->proc, pid, &s) < 0 || proc_stat_is_dead(&s))
            continue;
        g->freeze.count++;
        if (proc_is_stopped(&g->proc, pid, &s))
            continue;
        if (s.state == 'D' && s.threads == 1 && n_waiting < WAITING_MAX)
            waiting[n_waiting++] = pid;
        else
            moving++;
    }
    if (moving || !n_waiting)
        return moving == 0;

    /* The caller of vfork takes no signal until its child executes or ends, and that child has
     * stopped: neither moves. So one that waits like that and has a stopped child counts as
     * stopped, after a grace for those that wait for a disk. */
    if (clock_now() - g->freeze.began <= BORROW_GRACE || proc_rewind(&g->proc) < 0)
        return false;
    size_t left = n_waiting;
    for (pid_t pid; left && (pid = proc_next(&g->proc));) {
        if (proc_read_stat(&g->proc, pid, &s) < 0 || s.state != 'T')
            continue;
        for (size_t i = 0; i < n_waiting; i++)
            if (waiting[i] == s.parent) {
                waiting[i] = 0;
                left--;
                break;
            }
    }
    return left == 0;
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

static void freeze_timer_fire(struct loop_timer *t)
{
    struct guest *g = CONTAINER_OF(t, struct guest, freeze.timer);
    struct freeze *z = &g->freeze;
    int64_t now = clock_now();
    if (notify_is_busy(&g->notify)) /* a folder is being moved, which has its own time limit */
        z->began = now;
    if ((!g->has_children || freeze_all_stopped(g)) && !notify_is_busy(&g->notify)) {
        z->state = FREEZE_ON;
        /* Writes to a mapped file may leave no trace in its times (diff/copy.c). */
        z->mapped = g->has_children && proc_rewind(&g->proc) < 0;
        if (g->has_children && !z->mapped)
            for (pid_t pid; !z->mapped && (pid = proc_next(&g->proc));)
                z->mapped = proc_maps_files(&g->proc, pid);
        for (size_t i = 0; i < z->n_holders; i++)
            if (!z->answered[i])
                freeze_answer(g, i);
    } else if (now - z->began > GIVE_UP) {
        freeze_end(g);
        while (z->n_holders)
            conn_error(z->holders[--z->n_holders], ETIMEDOUT,
                       "the box's processes could not all be stopped");
    } else {
        kill(-1, SIGSTOP);
        loop_timer_set(&g->loop, t, now + LOOK_EACH);
    }
}

void freeze_init(struct guest *g)
{
    g->freeze =
        (struct freeze){.stopped_before = BUF_INIT(PIDS_BYTES), .timer.fire = freeze_timer_fire};
}

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

int freeze_request(struct conn *conn, const struct wire_frame *f)
{
    static const struct conn_user user = {.closed = freeze_closed};
    struct guest *g = conn->guest;
    struct freeze *z = &g->freeze;
    if (z->n_holders == FREEZE_HOLDERS_MAX) {
        conn_error(conn, EAGAIN, "the box is frozen too many times at once");
        return 0;
    }
    conn->user = &user;
    z->holders[z->n_holders] = conn;
    z->answered[z->n_holders++] = false;
    if (z->state == FREEZE_ON) {
        freeze_answer(g, z->n_holders - 1);
        return 0;
    }
    if (z->state == FREEZE_STOPPING)
        return 0;
    z->state = FREEZE_STOPPING;
    z->began = clock_now();
    if (g->has_children) {
        struct proc_stat s;
        if (proc_rewind(&g->proc) == 0)
            for (pid_t pid; (pid = proc_next(&g->proc));)
                if (proc_read_stat(&g->proc, pid, &s) >= 0 && s.state == 'T')
                    buf_append(&z->stopped_before, &pid, sizeof pid);
        kill(-1, SIGSTOP);
    }
    freeze_timer_fire(&z->timer);
    return 0;
}
