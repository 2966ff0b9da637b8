#include <errno.h>
#include <signal.h>

#include "command.h"
#include "guest.h"
#include "ptree.h"
#include "shell/shell.h"
#include "weaken.h"
#include "worker.h"
#include "banned.h"

#define TAG_FIRST ((rlim_t)1 << 40)

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

/* A command's own process that was forked and has not come to setting its tag yet. */
static const struct command *started_as(struct guest *g, pid_t pid)
{
    const struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->pid == pid)
        return c;
    return NULL;
}

/* One that comes from outside (adopt.h) has no tag on its way; all that commands start has, and
 * cannot raise it. */
static bool somebody_is_coming(struct guest *g)
{
    const struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->arrival.fd >= 0)
        return true;
    return false;
}

/*
 * The tag of a process as it counts here: 0 for one that is gone or is a worker of ours. A stray is
 * killed, and counts as everybody's, since it may have been anybody's.
 */
static rlim_t tag_in_walk(struct guest *g, pid_t pid, rlim_t wanted)
{
    rlim_t tag = ptree_tag_of(pid);
    if (tag == 0 || worker_is(g, pid))
        return 0;
    const struct command *owner = ptree_command(g, tag);
    bool impostor = owner && shell_is_idle(owner) && owner->pid != pid;
    if ((tag == wanted || owner) && !impostor)
        return tag;
    const struct command *fresh = started_as(g, pid);
    if (fresh)
        return fresh->tag;
    if (tag >= g->tags_end && somebody_is_coming(g))
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
        if (tag_in_walk(g, pid, tag) != tag)
            continue;
        if (proc_read_stat(&g->proc, pid, &s) < 0 || proc_stat_is_dead(&s))
            continue;
        if (kill(pid, sig) == 0)
            count++;
    }
    return count;
}

/* Nobody else has processes: one call that forks cannot outrun then replaces the walk. */
static bool is_alone(struct guest *g, const struct command *c)
{
    return !weakened("pid") && g->n_workers == 0 && LIST_FIRST(&g->commands) == c &&
           !LIST_NEXT(c, link);
}

unsigned ptree_kill(struct guest *g, const struct command *c)
{
    if (!g->has_children || weakened("tree-kill"))
        return 0;
    if (is_alone(g, c))
        return kill(-1, SIGKILL) == 0;
    return ptree_signal(g, c->tag, SIGKILL);
}

int ptree_measure(struct guest *g, rlim_t tag, struct ptree_usage *ret)
{
    struct ptree_usage u = {.box_tasks = 1};
    int r = proc_rewind(&g->proc);
    if (r < 0)
        return r;
    for (pid_t pid; (pid = proc_next(&g->proc));) {
        struct proc_stat s;
        rlim_t found = tag_in_walk(g, pid, tag);
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
