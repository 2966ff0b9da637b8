#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "command.h"
#include "guest.h"
#include "reap.h"
#include "ptree.h"
#include "worker.h"
#include "banned.h"

static struct command *command_of(struct guest *g, pid_t pid)
{
    struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->pid == pid)
        return c;
    return NULL;
}

static void reap_one(struct guest *g, pid_t pid)
{
    struct command *c = command_of(g, pid);
    /* An orphan is told by its tag, which only the dead body still has. */
    struct command *family = c ? c : ptree_command(g, ptree_tag_of(pid));
    struct rusage ru;
    int status;
    if (wait4(pid, &status, WNOHANG, &ru) != pid)
        return;
    if (c)
        command_exited(c, status, &ru);
    else if (!worker_ended(g, pid) && family)
        command_account(family, &ru);
}

void reap_children(struct guest *g)
{
    for (;;) {
        siginfo_t info = {0};
        int r = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            break;
        if (info.si_pid == 0)
            return;
        reap_one(g, info.si_pid);
    }
    g->has_children = false;
    command_none_left(g);
}
