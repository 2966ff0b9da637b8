#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "sys.h"
#include "banned.h"

/* A folder of a million names is no reason to fail; memory is. */
#define TEXT_MAX ((size_t)1 << 32)

static int add(struct names *n, const char *name)
{
    if (n->count == n->room) {
        size_t room = n->room ? n->room * 2 : 16;
        size_t *at = realloc(n->at, room * sizeof *at);
        if (!at)
            return -ENOMEM;
        n->at = at;
        n->room = room;
    }
    n->text.max = TEXT_MAX;
    n->at[n->count] = n->text.len;
    int r = buf_append(&n->text, name, strlen(name) + 1);
    if (r < 0)
        return -ENOMEM;
    n->count++;
    return 0;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

int names_read(struct names *n, int dir)
{
    _Alignas(struct dirent64) char space[16384];
    for (;;) {
        ssize_t got = sys_getdents64(dir, space, sizeof space);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(space + at);
            int r = is_dots(entry->d_name) ? 0 : add(n, entry->d_name);
            if (r < 0)
                return r;
            at += entry->d_reclen;
        }
    }
}

static int compare(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

void names_unite(struct names *n)
{
    if (n->count == 0)
        return;
    qsort_r(n->at, n->count, sizeof *n->at, compare, n->text.data);
    size_t kept = 1;
    for (size_t i = 1; i < n->count; i++)
        if (compare(&n->at[i], &n->at[kept - 1], n->text.data) != 0)
            n->at[kept++] = n->at[i];
    n->count = kept;
}

const char *names_get(const struct names *n, size_t i)
{
    return (const char *)n->text.data + n->at[i];
}

void names_free(struct names *n)
{
    buf_free(&n->text);
    free(n->at);
}
