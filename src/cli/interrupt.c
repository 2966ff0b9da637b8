#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include "interrupt.h"
#include "banned.h"

/* What a handler needs can only be global. */
static volatile sig_atomic_t came;
static volatile sig_atomic_t raw_fd = -1;
static struct termios cooked;
static int event = -1;
static void (*also)(void *data);
static void *also_data;

void interrupt_restore(void)
{
    if (raw_fd >= 0)
        tcsetattr(raw_fd, TCSANOW, &cooked);
    raw_fd = -1;
}

static void on_signal(int number)
{
    int saved = errno;
    uint64_t one = 1;
    came = number;
    interrupt_restore();
    if (write(event, &one, sizeof one) < 0) {
        /* Only a full counter makes it fail, and then it is readable anyway. */
    }
    if (also)
        also(also_data);
    errno = saved;
}

void interrupt_call(void (*call)(void *data), void *data)
{
    also = NULL; /* so that the handler never meets one with the other's data */
    also_data = data;
    also = call;
}

int interrupt_watch(struct error *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0)
        return error_errno(err, errno, "cannot watch for signals");
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        struct sigaction old,
            action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        /* What the caller had ignored (nohup) stays ignored. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    /* A reader that went away is an error of a write, to be told or passed on, not the end of
     * hutch. */
    signal(SIGPIPE, SIG_IGN);
    return event;
}

int interrupt_descriptor(void)
{
    return event;
}

int interrupt_signal(void)
{
    return came;
}

int interrupt_raw(int fd, struct error *err)
{
    if (tcgetattr(fd, &cooked) < 0)
        return errno == ENOTTY || errno == EINVAL
                   ? 0
                   : error_errno(err, errno, "cannot read the terminal's settings");
    struct termios raw = cooked;
    cfmakeraw(&raw);
    raw_fd = fd;
    if (tcsetattr(fd, TCSANOW, &raw) < 0) {
        raw_fd = -1;
        return error_errno(err, errno, "cannot put the terminal into raw mode");
    }
    return 0;
}
