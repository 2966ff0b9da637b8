#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "signals.h"
#include "banned.h"

static const int CAUGHT[] = {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGTSTP};

/* A handler has no other way to know where to write. */
static int ends[2] = {-1, -1};
static struct sigaction before[ARRAY_SIZE(CAUGHT)];

static void on_signal(int number)
{
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    if (write(ends[1], &byte, 1) < 0) {
        /* full: something is there to be read already */
    }
    errno = saved;
}

int signals_begin(int *ret_fd, struct error *err)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &action, &before[i]);
    *ret_fd = ends[0];
    return 0;
}

void signals_end(void)
{
    if (ends[0] < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(CAUGHT); i++)
        sigaction(CAUGHT[i], &before[i], NULL);
    close(ends[0]);
    close(ends[1]);
    ends[0] = ends[1] = -1;
}
