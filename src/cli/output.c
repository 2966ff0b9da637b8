#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "output.h"
#include "say.h"
#include "banned.h"

/* The first failure. Threads of `ask` and `mcp` write, too. */
static int failure;

/* In musl a write that fails inside of printf() leaves no errno behind. The buffer is larger than
 * what commands print with it, so that the write is output_finish()'s own. */
void output_begin(void)
{
    static char buffer[256 << 10];
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

void output_failed(int code)
{
    int none = 0;
    __atomic_compare_exchange_n(&failure, &none, code, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

int output_write(const void *data, size_t n)
{
    int r = io_write_all(STDOUT_FILENO, data, n);
    if (r < 0)
        output_failed(-r);
    return r;
}

void output_flush(void)
{
    if (fflush(stdout) != 0)
        output_failed(errno);
}

bool output_is_lost(void)
{
    return __atomic_load_n(&failure, __ATOMIC_RELAXED) != 0;
}

int output_finish(int status)
{
    output_flush();
    if (ferror(stdout))
        output_failed(EIO); /* unless the reason is known from elsewhere */
    if (failure == 0)
        return status;
    if (failure ==
        EPIPE) /* the reader has seen enough: end as if by the signal, which may be ignored here */
        return 128 + SIGPIPE;
    say("cannot write to standard output: %s", strerror(failure));
    return EXIT_HUTCH;
}
