#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "guest.h"
#include "ptree.h"
#include "weaken.h"
#include "worker.h"
#include "banned.h"

#define TAG_FIRST       ((rlim_t)1 << 40)
#define SAMPLES_AT_PIDS 5
#define SOCKET_SIZE     4096 /* about what the kernel needs for the socket itself */

/* Where the limit is already set, tags begin halfway below it, which leaves fewer of them but works
 * the same.
 */
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
    bool impostor = owner && owner->hooks && owner->hooks->is_idle(owner) && owner->pid != pid;
    if ((tag == wanted || owner) && !impostor)
        return tag;
    bool awaits = false;
    const struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    {
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
    /* If no other command and no worker has processes, one call that forks cannot outrun replaces
     * the walk. */
    if (!weakened("pid") && g->n_workers == 0 && LIST_FIRST(&g->commands) == c &&
        !LIST_NEXT(c, link))
        return kill(-1, SIGKILL) == 0;
    return ptree_signal(g, c->tag, SIGKILL);
}

struct ptree_usage {
    uint64_t cpu_us;
    uint64_t memory;
    uint64_t tasks;     /* threads of the tree */
    uint64_t box_tasks; /* threads of the whole box, the guest's own included */
};

static int ptree_measure(struct guest *g, rlim_t tag, struct ptree_usage *ret)
{
    struct ptree_usage u = {.box_tasks = 1};
    int r = proc_rewind(&g->proc);
    if (r < 0)
        return r;
    for (pid_t pid; (pid = proc_next(&g->proc));) {
        struct proc_stat s;
        rlim_t found = ptree_tag_in_walk(g, pid, tag);
        if (proc_read_stat(&g->proc, pid, &s) < 0)
            continue;
        u.box_tasks += s.threads;
        if (found != tag)
            continue;
        u.tasks += s.threads;
        u.cpu_us += s.cpu_us;
        u.memory += proc_own_memory(&g->proc, pid);
    }
    *ret = u;
    return 0;
}

static const char *const LISTS[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6",
                                    "/proc/self/net/udp", "/proc/self/net/udp6"};

/* Pages of all namespaces together, which the kernel has at hand: mostly so few that no list need
 * be read. */
static uint64_t sockets_memory_of_host(void)
{
    _cleanup_fclose_ FILE *f = fopen("/proc/self/net/sockstat", "re");
    char line[256];
    uint64_t pages = 0;
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long mem = 0;
        const char *at = strstr(line, " mem ");
        if (at && sscanf(at, " mem %llu", &mem) == 1)
            pages += mem;
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Lines are "sl local remote state tx_queue:rx_queue …", numbers in hexadecimal. */
static uint64_t sockets_memory_in_list(const char *path, uint64_t enough)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    char line[512];
    uint64_t sum = 0;
    while (sum <= enough && f && fgets(line, sizeof line, f)) {
        unsigned long long sent, received;
        if (sscanf(line, " %*[0-9]: %*s %*s %*s %llx:%llx", &sent, &received) == 2)
            sum += SOCKET_SIZE + sent + received;
    }
    return sum;
}

/* Bytes of all TCP and UDP sockets of the box's network namespace; counting stops above `enough`,
 * and 0 stands for all that is not more than that. */
static uint64_t sockets_memory(uint64_t enough)
{
    uint64_t sum = 0;
    if (sockets_memory_of_host() <= enough)
        return 0;
    for (size_t i = 0; sum <= enough && i < ARRAY_SIZE(LISTS); i++)
        sum += sockets_memory_in_list(LISTS[i], enough);
    return sum;
}

/*
 * The limit on processes is the box's, so all are counted; a command answers for it if it holds a
 * good part of them. Touching the limit for a moment does no harm: only a command that stays there
 * is a fork bomb.
 */
enum wire_limit ptree_exceeds(struct guest *g, struct command *c)
{
    struct ptree_usage u;
    const struct command_limits *l = &c->limits;
    if (ptree_measure(g, c->tag, &u) < 0)
        return WIRE_LIMIT_NONE;
    if (l->cpu_us && c->cpu_us + u.cpu_us > l->cpu_us)
        return WIRE_LIMIT_CPU;
    if (l->memory && u.memory > l->memory)
        return WIRE_LIMIT_MEMORY;
    if (l->sockets && sockets_memory(l->sockets) > l->sockets)
        return WIRE_LIMIT_MEMORY;
    bool at_limit = l->pids && u.box_tasks >= l->pids && u.tasks >= u.box_tasks / 4;
    c->samples_at_pids = at_limit ? c->samples_at_pids + 1 : 0;
    return c->samples_at_pids >= SAMPLES_AT_PIDS ? WIRE_LIMIT_PIDS : WIRE_LIMIT_NONE;
}
