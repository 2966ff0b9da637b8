#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "say.h"
#include "utf8.h"
#include "banned.h"

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
