#include <string.h>

#include "cleanup.h"
#include "diff_style.h"
#include "line.h"
#include "banned.h"

unsigned diff_style(const char *line, size_t n)
{
    static const struct {
        const char *start;
        unsigned style;
    } STYLES[] = {
        {"diff --git ", ROLE_TEXT | STYLE_BOLD},
        {"+++ ", ROLE_MUTED},
        {"--- ", ROLE_MUTED},
        {"index ", ROLE_MUTED},
        {"@@", ROLE_HUNK},
        {"+", ROLE_ADDED},
        {"-", ROLE_DELETED},
        {"new file", ROLE_MUTED},
        {"deleted file", ROLE_MUTED},
        {"rename ", ROLE_MUTED},
        {"similarity ", ROLE_MUTED},
        {"\\ ", ROLE_MUTED},
    };
    for (size_t i = 0; i < ARRAY_SIZE(STYLES); i++) {
        size_t length = strlen(STYLES[i].start);
        if (n >= length && memcmp(line, STYLES[i].start, length) == 0)
            return STYLES[i].style;
    }
    return ROLE_TEXT;
}
