/* Standard output, messages on standard error, the width of the terminal, and signals. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "text.h"
#include "banned.h"

/* The first failure to write. Threads of `ask` and `mcp` write, too. */
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

int output_json(json_t *value, size_t flags)
{
    char *text = value ? json_dumps(value, flags) : NULL;
    json_decref(value);
    output_flush();
    if (!text) {
        output_failed(ENOMEM);
        return -ENOMEM;
    }
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL, so that lines of several threads never mix */
    int r = output_write(text, n + 1);
    free(text);
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
    if (failure == EPIPE) /* end as if by the signal, which may be ignored here */
        return 128 + SIGPIPE;
    say("cannot write to standard output: %s", strerror(failure));
    return EXIT_HUTCH;
}

const char *say_clean(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (const char *at = text; *at;) {
        size_t n = utf8_character((const uint8_t *)at, strlen(at));
        bool plain =
            n > 1 ? !utf8_is_control((const uint8_t *)at, n) : n == 1 && *at >= ' ' && *at != 0x7f;
        if (n == 0)
            n = 1;
        if (used + (plain ? n : 4 * n) + 1 > size)
            break;
        if (plain)
            memcpy(out + used, at, n);
        else
            for (size_t i = 0; i < n; i++)
                snprintf(out + used + 4 * i, 5, "\\x%02x", (unsigned char)at[i]);
        used += plain ? n : 4 * n;
        at += n;
    }
    out[used] = 0;
    return out;
}

void say(const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX], line[4 * ERROR_TEXT_MAX + 16] = "hutch: ";
    size_t prefix = strlen(line);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    say_clean(text, line + prefix, sizeof line - prefix - 1);
    size_t n = strlen(line);
    line[n] = '\n';
    io_write_all(STDERR_FILENO, line, n + 1);
}

void say_lines(const char *text)
{
    char copy[ERROR_TEXT_MAX], *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line)
            say("%s", line);
}

int say_usage(const struct error *err)
{
    say("%s", err->text);
    return EXIT_USAGE;
}

int say_failure(const struct error *err)
{
    say("%s", err->text);
    return EXIT_HUTCH;
}

const char *say_colour(int fd, const char *sequence)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && !(term && strcmp(term, "dumb") == 0) ? sequence : "";
}

#define ROOM_MIN 20 /* in less, breaking lines makes them no easier to read */

unsigned columns_of(int fd)
{
    struct winsize size = {0};
    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* As much of the text as goes into one line: to the last blank that fits, or one long word. */
static size_t columns_next_line(const char *text, unsigned room)
{
    size_t fits = 0;
    for (; text[fits]; fits++)
        if ((text[fits] & 0xc0) != 0x80 && room-- == 0)
            break;
    if (!text[fits])
        return fits;
    size_t n = fits;
    while (n > 0 && text[n] != ' ')
        n--;
    return n > 0 ? n : fits + strcspn(text + fits, " ");
}

void columns_put(const char *text, unsigned at, unsigned otherwise)
{
    unsigned width = columns_of(STDOUT_FILENO);
    if (width == 0)
        width = otherwise;
    size_t n = width < at + ROOM_MIN ? strlen(text) : columns_next_line(text, width - at);
    printf("%.*s\n", (int)n, text);
    for (text += n; *(text += strspn(text, " ")); text += n) {
        n = columns_next_line(text, width - at);
        printf("%*s%.*s\n", (int)at, "", (int)n, text);
    }
}

/* Signals. What a handler needs can only be global. */

static volatile sig_atomic_t signal_number;
static volatile sig_atomic_t raw_fd = -1;
static struct termios cooked;
static int event = -1;
static void (*also_call)(void *data);
static void *also_data;

void interrupt_restore(void)
{
    if (raw_fd >= 0)
        tcsetattr(raw_fd, TCSANOW, &cooked);
    raw_fd = -1;
}

static void interrupt_on_signal(int number)
{
    int saved = errno;
    uint64_t one = 1;
    signal_number = number;
    interrupt_restore();
    if (write(event, &one, sizeof one) < 0) {
        /* Only a full counter makes it fail, and then it is readable anyway. */
    }
    if (also_call)
        also_call(also_data);
    errno = saved;
}

void interrupt_call(void (*call)(void *data), void *data)
{
    also_call = NULL; /* so that the handler never meets one with the other's data */
    also_data = data;
    also_call = call;
}

int interrupt_watch(struct error *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0)
        return error_errno(err, errno, "cannot watch for signals");
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        struct sigaction old,
            action = {.sa_handler = interrupt_on_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        /* What the caller had ignored (nohup) stays ignored. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    /* A reader that went away is an error of a write, not the end of hutch. */
    signal(SIGPIPE, SIG_IGN);
    return event;
}

int interrupt_descriptor(void)
{
    return event;
}

int interrupt_signal(void)
{
    return signal_number;
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
