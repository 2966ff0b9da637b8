#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "io.h"
#include "output.h"
#include "text.h"
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
    if (failure ==
        EPIPE) /* the reader has seen enough: end as if by the signal, which may be ignored here */
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

bool say_colours(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

#define ROOM_MIN 20 /* in less, breaking lines makes them no easier to read */

unsigned columns_of(int fd)
{
    struct winsize size = {0};
    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

size_t columns_fit(const char *text, unsigned columns)
{
    size_t n = 0;
    for (; text[n]; n++)
        if ((text[n] & 0xc0) != 0x80 && columns-- == 0)
            break;
    return n;
}

/* As much of the text as goes into one line: to the last blank that fits, or one long word. */
static size_t columns_next_line(const char *text, unsigned room)
{
    size_t fits = columns_fit(text, room), n = fits;
    if (!text[fits])
        return fits;
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
