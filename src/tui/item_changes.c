/* The end of a turn: which files the box has changed, as lines `M path  +1 −2` under their sum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "item.h"
#include "agent_changes.h"
#include "banned.h"

#define CHANGES_SHOWN 12

static void change_line(struct item *it, const struct agent_change *c, int width)
{
    char line[64];
    _cleanup_free_ char *path = clean_string(c->path, strlen(c->path), 4096);
    char kind = c->kind && *c->kind == 'a' ? 'A' : c->kind && *c->kind == 'd' ? 'D' : 'M';
    int pad = path ? width - clean_width(path, strlen(path)) : 0;
    if (c->binary)
        snprintf(line, sizeof line, "binary");
    else if (c->deleted == 0)
        snprintf(line, sizeof line, "+%llu", (unsigned long long)c->added);
    else
        snprintf(line, sizeof line, "+%llu −%llu", (unsigned long long)c->added,
                 (unsigned long long)c->deleted);
    buf_printf(&it->text, "%c %s%*s  %s\n", kind, path ? path : "", pad > 0 ? pad : 0, "", line);
}

void item_changes(struct item *it, const struct agent_changes *c)
{
    size_t shown = c->count < CHANGES_SHOWN ? c->count : CHANGES_SHOWN;
    int width = 0;
    buf_printf(&it->text, "%zu file%s changed  +%llu −%llu\n", c->count, c->count == 1 ? "" : "s",
               (unsigned long long)c->added, (unsigned long long)c->deleted);
    for (size_t i = 0; i < shown; i++) {
        _cleanup_free_ char *path = clean_string(c->items[i].path, strlen(c->items[i].path), 4096);
        int w = path ? clean_width(path, strlen(path)) : 0;
        width = w > width && w <= 60 ? w : width;
    }
    for (size_t i = 0; i < shown; i++)
        change_line(it, &c->items[i], width);
    if (c->count > shown)
        buf_printf(&it->text, "… %zu more\n", c->count - shown);
    it->stale = true;
}
