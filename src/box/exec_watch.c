/*
 * Limits that the host watches over: what only the kernel's counters tell (CPU time and memory of a
 * whole control group), and how much came out. The guest watches wall time, and the rest where
 * there is no control group.
 */
#include <signal.h>
#include <sys/sysinfo.h>

#include "clock.h"
#include "exec.h"
#include "weaken.h"
#include "banned.h"

#define FORK_BOMB_HITS                                                                             \
    1000 /* failed forks after which a command is a fork bomb and not just at its limit            \
          */

uint64_t limit_sockets(const struct box_limits *l)
{
    struct sysinfo info;
    uint64_t most = sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit / 64;
    return l->memory < most ? l->memory : most;
}

void call_kill(struct call *c, enum wire_limit limit)
{
    if (c->killed)
        return;
    c->killed = true;
    c->result->limit = limit;
    _cleanup_buf_ struct buf frame = BUF_INIT(256);
    size_t begin = wire_begin(&frame, WIRE_KILL);
    wire_put_u64(&frame, WIRE_K_SIGNAL, SIGKILL);
    wire_end(&frame, begin);
    wire_send(c->wire.fd, &frame, NULL, 0);
    int64_t latest = clock_now() + 2 * NS_PER_S;
    if (!c->deadline || c->deadline > latest)
        c->deadline = latest;
}

static void watch_counters(struct call *c)
{
    struct usage now;
    c->box->backend->usage(c->box->place, true, &now);
    int64_t cpu = c->command->cpu_time_ns ? c->command->cpu_time_ns : c->box->limits.cpu_time_ns;
    if (cpu > 0 && now.cpu_ns - c->before.cpu_ns > cpu && !weakened("cpu"))
        call_kill(c, WIRE_LIMIT_CPU);
    else if (now.memory > c->box->limits.memory || now.sockets > limit_sockets(&c->box->limits))
        call_kill(c, WIRE_LIMIT_MEMORY);
    else if (now.pids_hits - c->before.pids_hits > FORK_BOMB_HITS)
        call_kill(c, WIRE_LIMIT_PIDS);
}

/* Nothing in the kernel stops a box that writes more to the disk than it may. A box that was over
 * its limit before may still run commands that remove files. */
static void watch_disk(struct call *c)
{
    struct usage now;
    c->box->backend->usage(c->box->place, false, &now);
    bool grows = now.disk_bytes > c->before.disk_bytes || !c->before.disk_full;
    if (now.host_disk_full || (now.disk_full && grows && !now.disk_exact) || now.disk_lost)
        call_kill(c, WIRE_LIMIT_DISK);
}

void call_watch(struct call *c)
{
    if (c->done)
        return;
    uint64_t most = c->box->limits.output_total;
    if (most && c->output > most && !weakened("output"))
        call_kill(c, WIRE_LIMIT_OUTPUT);
    int64_t now = clock_now();
    if (now < c->next_watch)
        return;
    c->next_watch = now + TICK_MS * NS_PER_MS;
    if (c->before.counted)
        watch_counters(c);
    if (c->before.disk_watched)
        watch_disk(c);
    if (c->command->tty)
        call_tty_resize(c);
    if (c->deadline &&
        now > c->deadline) { /* the guest does not do what it was asked: end all of it */
        c->silent = !c->killed;
        c->box->backend->kill(c->box->place);
    }
}

enum wire_limit call_limit(struct call *c)
{
    struct usage now;
    if (c->result->exit_code == 0)
        return WIRE_LIMIT_NONE;
    c->box->backend->usage(c->box->place, false, &now);
    if (now.oom_kills > c->before.oom_kills && c->result->signal == SIGKILL)
        return WIRE_LIMIT_MEMORY;
    if (now.pids_hits > c->before.pids_hits)
        return WIRE_LIMIT_PIDS;
    if (now.disk_full)
        return WIRE_LIMIT_DISK;
    return WIRE_LIMIT_NONE;
}
