#include <signal.h>
#include <stdio.h>

#include "cleanup.h"
#include "signame.h"
#include "banned.h"

#define NAME(s) [s] = #s

static const char *const NAMES[] = {
    NAME(SIGHUP),    NAME(SIGINT),  NAME(SIGQUIT),  NAME(SIGILL),  NAME(SIGTRAP), NAME(SIGABRT),
    NAME(SIGBUS),    NAME(SIGFPE),  NAME(SIGKILL),  NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2),
    NAME(SIGPIPE),   NAME(SIGALRM), NAME(SIGTERM),  NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP),
    NAME(SIGTSTP),   NAME(SIGTTIN), NAME(SIGTTOU),  NAME(SIGURG),  NAME(SIGXCPU), NAME(SIGXFSZ),
    NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH), NAME(SIGIO),   NAME(SIGPWR),  NAME(SIGSYS),
};

void signame_format(int number, char *name, size_t size)
{
    if (number > 0 && number < (int)ARRAY_SIZE(NAMES) && NAMES[number])
        snprintf(name, size, "%s", NAMES[number]);
    else if (number >= SIGRTMIN && number <= SIGRTMAX)
        snprintf(name, size, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(name, size, "%d", number);
}
