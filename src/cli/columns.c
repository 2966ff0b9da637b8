#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "columns.h"
#include "banned.h"

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
static size_t next_line(const char *text, unsigned room)
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
    size_t n = width < at + ROOM_MIN ? strlen(text) : next_line(text, width - at);
    printf("%.*s\n", (int)n, text);
    for (text += n; *(text += strspn(text, " ")); text += n) {
        n = next_line(text, width - at);
        printf("%*s%.*s\n", (int)at, "", (int)n, text);
    }
}
