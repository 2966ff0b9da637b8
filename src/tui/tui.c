#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "chat_run.h"
#include "banned.h"

static bool has_screen(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
           strcmp(term, "dumb") != 0;
}

int tui_run(const struct tui_options *o, struct error *err)
{
    /* Widths of characters are those of UTF-8, also where nobody set a locale. */
    setlocale(LC_CTYPE, "");
    if (!strstr(setlocale(LC_CTYPE, NULL), "UTF-8") && !strstr(setlocale(LC_CTYPE, NULL), "utf8"))
        setlocale(LC_CTYPE, "C.UTF-8");
    return o->plain || !has_screen() ? plain_run(o, err) : chat_run(o, err);
}
