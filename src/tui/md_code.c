#include <string.h>

#include "clean.h"
#include "md_render.h"
#include "wrap.h"
#include "banned.h"

#define TAB 4 /* columns: code is indented with them more often than aligned */

static int room(const struct margin *m, int width)
{
    return width - clean_width(m->first, strlen(m->first));
}

bool md_code_label(const char *info, size_t n, const struct margin *margin, int width,
                   struct lines *out)
{
    _cleanup_flow_ struct flow f = FLOW_INIT;
    size_t length = 0;
    while (length < n && info[length] != ' ' && info[length] != '\t')
        length++;
    if (length == 0)
        return false;
    flow_add(&f, ROLE_MUTED | STYLE_ITALIC, info, length);
    wrap_one(&f, margin, room(margin, width), TAB, out);
    return true;
}

void md_code_line(struct lexer *l, const char *line, size_t n, const struct margin *margin,
                  int width, struct lines *out)
{
    _cleanup_flow_ struct flow f = FLOW_INIT;
    lexer_line(l, line, n, &f);
    wrap_exact(&f, margin, room(margin, width), TAB, out);
}
