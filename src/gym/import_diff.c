/* Diffs: one made of two texts, and the files that one names. */
#include <errno.h>
#include <string.h>

#include "import_private.h"
#include "linediff.h"
#include "relpath.h"
#include "banned.h"

static int append(void *data, const void *bytes, size_t n)
{
    return buf_append(data, bytes, n);
}

int diff_make(const char *path, const void *a, size_t n_a, const void *b, size_t n_b,
              struct buf *ret)
{
    struct linediff d;
    int r = linediff_make(a, n_a, b, n_b, &d);
    if (r < 0)
        return r;
    buf_printf(ret, "--- a/%s\n+++ b/%s\n", path, path);
    r = linediff_print(&d, append, ret);
    if (r == 0 && d.count == 0)
        r = -ENODATA;
    linediff_free(&d);
    return r < 0 ? r : ret->failed ? -ENOMEM : 0;
}

/* Where a reader stands in a diff: how many lines of the hunk are still to come. */
struct place {
    unsigned long old_left, new_left;
    size_t hunks;
};

static unsigned long hunk_count(const char *at, const char **ret_rest)
{
    char *end;
    strtoul(at, &end, 10);
    unsigned long n = *end == ',' ? strtoul(end + 1, &end, 10) : 1;
    *ret_rest = end;
    return n;
}

/* Takes a line of a hunk, or the beginning of one. False: it is a line between hunks. */
static bool in_hunk(struct place *p, const char *line)
{
    if (p->old_left || p->new_left) {
        p->old_left -= p->old_left && (*line == '-' || *line == ' ' || *line == '\n' || !*line);
        p->new_left -= p->new_left && (*line == '+' || *line == ' ' || *line == '\n' || !*line);
        return true;
    }
    if (strncmp(line, "@@ -", 4) != 0)
        return *line == '\\';
    const char *rest;
    p->old_left = hunk_count(line + 4, &rest);
    p->new_left = strncmp(rest, " +", 2) == 0 ? hunk_count(rest + 2, &rest) : 0;
    p->hunks++;
    return true;
}

static int add_path(struct task_list *l, const char *at, size_t n, struct error *err)
{
    char path[4096];
    if (n > 0 && at[0] == '"')
        return error_set(err, EINVAL, "the diff has a quoted file name: %.*s",
                         (int)(n < 200 ? n : 200), at);
    if (n >= sizeof path || !relpath_is_valid(at, n))
        return error_set(err, EINVAL, "the diff names a file outside: %.*s",
                         (int)(n < 200 ? n : 200), at);
    memcpy(path, at, n);
    path[n] = 0;
    if (relpath_touches_git(path))
        return error_set(err, EINVAL, "the diff names a file of git's: %.200s", path);
    if (task_list_has(l, path))
        return 0;
    return task_list_add(l, path) < 0 ? task_no_memory(err) : 0;
}

/* `diff --git a/PATH b/PATH`, which is all that a file has that is binary, or empty, or only gets
 * another mode. A name with another one, or in quotes, is told by the lines that follow. */
static int take_git(struct task_list *l, const char *at, size_t n, struct error *err)
{
    size_t half = n / 2;
    bool same = n % 2 == 1 && n > 5 && at[half] == ' ' && memcmp(at, "a/", 2) == 0 &&
                memcmp(at + half + 1, "b/", 2) == 0 && memcmp(at + 2, at + half + 3, half - 2) == 0;
    return same ? add_path(l, at + 2, half - 2, err) : 0;
}

/* `--- a/PATH`, `+++ b/PATH`, `rename from PATH`, …; a tab ends a name in the first two. */
static int take_line(struct task_list *l, const char *line, size_t n, struct error *err)
{
    static const struct {
        const char *head;
        size_t strip; /* of "a/" */
    } HEADS[] = {{"--- ", 2},       {"+++ ", 2},       {"rename from ", 0},
                 {"rename to ", 0}, {"copy from ", 0}, {"copy to ", 0}};
    if (n > 11 && strncmp(line, "diff --git ", 11) == 0)
        return take_git(l, line + 11, n - 11, err);
    for (size_t i = 0; i < ARRAY_SIZE(HEADS); i++) {
        size_t head = strlen(HEADS[i].head);
        if (n < head || strncmp(line, HEADS[i].head, head) != 0)
            continue;
        const char *at = line + head;
        size_t left = n - head;
        const char *tab = HEADS[i].strip ? memchr(at, '\t', left) : NULL;
        left = tab ? (size_t)(tab - at) : left;
        if (left == 9 && strncmp(at, "/dev/null", 9) == 0)
            return 0;
        if (HEADS[i].strip && *at != '"' && (left < 3 || at[1] != '/'))
            return error_set(err, EINVAL, "the diff names %.*s, which has no a/ or b/ before it",
                             (int)(left < 200 ? left : 200), at);
        return add_path(l, at + (*at == '"' ? 0 : HEADS[i].strip),
                        left - (*at == '"' ? 0 : HEADS[i].strip), err);
    }
    return 0;
}

int diff_paths(const char *diff, struct task_list *ret, struct error *err)
{
    struct place p = {0};
    struct task_list l = {0};
    int r = 0;
    for (const char *at = diff; *at && r == 0;) {
        size_t n = strcspn(at, "\n");
        size_t plain = n > 0 && at[n - 1] == '\r' ? n - 1 : n;
        if (!in_hunk(&p, at))
            r = take_line(&l, at, plain, err);
        at += n;
        at += *at == '\n';
    }
    if (r == 0 && l.count == 0)
        r = error_set(err, EINVAL, "is no diff that names files");
    if (r < 0) {
        task_list_free(&l);
        return r;
    }
    *ret = l;
    return 0;
}

/* The length of one file's part, from `diff --git` to the next. */
static size_t part_length(const char *part, bool *ret_binary)
{
    struct place p = {0};
    const char *at = part;
    *ret_binary = false;
    do {
        size_t n = strcspn(at, "\n");
        if (!in_hunk(&p, at) && strncmp(at, "Binary files ", 13) == 0)
            *ret_binary = true;
        at += n;
        at += *at == '\n';
    } while (*at && (p.old_left || p.new_left || strncmp(at, "diff --git ", 11) != 0));
    return (size_t)(at - part);
}

size_t diff_drop_binary(const char *diff, struct buf *ret)
{
    size_t dropped = 0;
    buf_append_str(ret, "");
    while (*diff) {
        bool binary;
        size_t n = part_length(diff, &binary);
        if (!binary)
            buf_append(ret, diff, n);
        dropped += binary;
        diff += n;
    }
    return dropped;
}
