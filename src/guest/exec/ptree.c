#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "command.h"
#include "file.h"
#include "proc.h"
#include "weaken.h"
#include "banned.h"

#define TAG_FIRST       ((rlim_t)1 << 40)
#define SAMPLES_AT_PIDS 5
#define SOCKET_SIZE     4096 /* about what the kernel needs for the socket itself */

/* Where the limit is already set, tags begin halfway below it: fewer, but they work the same. */
void ptree_init(struct guest *g)
{
    struct rlimit limit;
    g->next_tag = TAG_FIRST;
    g->tags_end = RLIM_INFINITY;
    if (getrlimit(RLIMIT_RTTIME, &limit) < 0)
        return;
    g->tags_end = limit.rlim_max;
    if (limit.rlim_max < 2 * TAG_FIRST)
        g->next_tag = limit.rlim_max / 2 + 1;
}

rlim_t ptree_tag_of(pid_t pid)
{
    struct rlimit limit;
    return prlimit(pid, RLIMIT_RTTIME, NULL, &limit) < 0 ? 0 : limit.rlim_max;
}

struct command *ptree_command(struct guest *g, rlim_t tag)
{
    struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->tag == tag)
        return c;
    return NULL;
}

/*
 * The tag of a process as it counts here: 0 for one that is gone or is a worker of ours. A stray is
 * killed, and counts as part of every tree, since it may have come from any.
 */
static rlim_t ptree_tag_in_walk(struct guest *g, pid_t pid, rlim_t wanted)
{
    rlim_t tag = ptree_tag_of(pid);
    if (tag == 0 || worker_is(g, pid))
        return 0;
    const struct command *owner = ptree_command(g, tag);
    bool impostor = owner && owner->idle && owner->pid != pid;
    if ((tag == wanted || owner) && !impostor)
        return tag;
    bool awaits = false;
    for (const struct command *c = LIST_FIRST(&g->commands); c; c = LIST_NEXT(c, link)) {
        if (c->pid == pid) /* forked, but it has not set its tag yet */
            return c->tag;
        awaits |= c->arrival.fd >= 0;
    }
    /* A process that enters from outside (ADOPT) has no tag on its way; all that commands start
     * has, and cannot raise it. */
    if (tag >= g->tags_end && awaits)
        return 0;
    if (weakened("pid"))
        return 0;
    kill(pid, SIGKILL);
    return wanted;
}

unsigned ptree_signal(struct guest *g, rlim_t tag, int sig)
{
    unsigned count = 0;
    if (proc_rewind(&g->proc) < 0)
        return 0;
    for (pid_t pid; (pid = proc_next(&g->proc));) {
        struct proc_stat s;
        if (ptree_tag_in_walk(g, pid, tag) != tag)
            continue;
        if (proc_read_stat(&g->proc, pid, &s) < 0 || proc_stat_is_dead(&s))
            continue;
        if (kill(pid, sig) == 0)
            count++;
    }
    return count;
}

unsigned ptree_kill(struct guest *g, const struct command *c)
{
    if (!g->has_children || weakened("tree-kill"))
        return 0;
    /* If no other command and no worker has processes, one system call, which no fork escapes,
     * replaces the walk. */
    if (!weakened("pid") && g->n_workers == 0 && LIST_FIRST(&g->commands) == c &&
        !LIST_NEXT(c, link))
        return kill(-1, SIGKILL) == 0;
    return ptree_signal(g, c->tag, SIGKILL);
}

/* Bytes of all TCP and UDP sockets of the box's network namespace. Counting stops above `enough`; 0
 * if they are not more than that. */
static uint64_t sockets_memory(uint64_t enough)
{
    static const char *const lists[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6",
                                        "/proc/self/net/udp", "/proc/self/net/udp6"};
    char line[512];
    unsigned long long sent, received, pages;
    uint64_t sum = 0;

    /* The kernel keeps the sum over all namespaces. It is mostly so small that no list need be
     * read. */
    _cleanup_fclose_ FILE *all = fopen("/proc/self/net/sockstat", "re");
    while (all && fgets(line, sizeof line, all)) {
        const char *at = strstr(line, " mem ");
        if (at && sscanf(at, " mem %llu", &pages) == 1)
            sum += pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    if (sum <= enough)
        return 0;

    /* Lines are "sl local remote state tx_queue:rx_queue …", numbers in hexadecimal. */
    sum = 0;
    for (size_t i = 0; sum <= enough && i < ARRAY_SIZE(lists); i++) {
        _cleanup_fclose_ FILE *f = fopen(lists[i], "re");
        while (sum <= enough && f && fgets(line, sizeof line, f))
            if (sscanf(line, " %*[0-9]: %*s %*s %*s %llx:%llx", &sent, &received) == 2)
                sum += SOCKET_SIZE + sent + received;
    }
    return sum;
}

enum wire_limit ptree_exceeds(struct guest *g, struct command *c)
{
    const struct command_limits *l = &c->limits;
    uint64_t cpu_us = c->cpu_us, memory = 0, tasks = 0, box_tasks = 1; /* threads; one is ours */
    if (proc_rewind(&g->proc) < 0)
        return WIRE_LIMIT_NONE;
    for (pid_t pid; (pid = proc_next(&g->proc));) {
        struct proc_stat s;
        rlim_t tag = ptree_tag_in_walk(g, pid, c->tag);
        if (proc_read_stat(&g->proc, pid, &s) < 0)
            continue;
        box_tasks += s.threads;
        if (tag != c->tag)
            continue;
        tasks += s.threads;
        cpu_us += s.cpu_us;
        memory += proc_own_memory(&g->proc, pid);
    }
    if (l->cpu_us && cpu_us > l->cpu_us)
        return WIRE_LIMIT_CPU;
    if (l->memory && memory > l->memory)
        return WIRE_LIMIT_MEMORY;
    if (l->sockets && sockets_memory(l->sockets) > l->sockets)
        return WIRE_LIMIT_MEMORY;
    /* The limit on processes is the box's, so all are counted; a command answers for it if it holds
     * a good part of them. Only one that stays at the limit is a fork bomb. */
    bool at_limit = l->pids && box_tasks >= l->pids && tasks >= box_tasks / 4;
    c->samples_at_pids = at_limit ? c->samples_at_pids + 1 : 0;
    return c->samples_at_pids >= SAMPLES_AT_PIDS ? WIRE_LIMIT_PIDS : WIRE_LIMIT_NONE;
}
