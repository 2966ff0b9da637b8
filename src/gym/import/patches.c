/*
 * Diffs of imported tasks, and the candidate patches of QuixBugs.
 *
 * A wrong program and its right version also differ in comments, blank lines and the text after the
 * code. A patch that changed those, too, would show by its size which one is the solution: only the
 * rest of the difference is the bug.
 */
#include <errno.h>
#include <string.h>

#include "importer.h"
#include "linediff.h"
#include "relpath.h"
#include "banned.h"

#define QUOTES "\"\"\""

size_t quotes_count(const char *at, size_t n)
{
    size_t count = 0;
    for (const char *end = at + n; (at = memmem(at, (size_t)(end - at), QUOTES, 3)); at += 3)
        count++;
    return count;
}

static bool is_blank(const char *at, size_t n)
{
    while (n > 0 && strchr(" \t\r\n\f", at[n - 1]))
        n--;
    return n == 0;
}

/* The length of a program without the text that stands alone after its code. */
static size_t program_code_length(const struct buf *b)
{
    const char *begin = (const char *)b->data, *end = begin + b->len;
    size_t code = 0; /* to the end of the last line that is neither blank nor in such a text */
    bool open = false, alone = false;
    for (const char *at = begin; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) + 1 : (size_t)(end - at);
        if (!open)
            alone = n >= 3 && memcmp(at, QUOTES, 3) == 0;
        if (!alone && (open || !is_blank(at, n)))
            code = (size_t)(at - begin) + n;
        open ^= quotes_count(at, n) % 2 == 1;
        at += n;
    }
    return code;
}

/* Are all of these lines blank or comments? */
static bool lines_are_idle(const struct lineset *l, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        const char *at = (const char *)l->data + l->at[i];
        size_t len = l->at[i + 1] - l->at[i];
        while (len > 0 && (*at == ' ' || *at == '\t'))
            at++, len--;
        if (!is_blank(at, len) && *at != '#')
            return false;
    }
    return true;
}

/* The code of the wrong program with every change but those between comments and blank lines. */
static int bug_apply_changes(const struct linediff *d, const uint8_t *code, size_t n,
                             struct buf *ret)
{
    size_t at = 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct linediff_change *c = &d->changes[i];
        const uint8_t *from = d->a.data + d->a.at[c->a_line],
                      *to = d->a.data + d->a.at[c->a_line + c->a_count];
        if (lines_are_idle(&d->a, c->a_line, c->a_count) &&
            lines_are_idle(&d->b, c->b_line, c->b_count))
            continue;
        buf_append(ret, code + at, (size_t)(from - code) - at);
        buf_append(ret, d->b.data + d->b.at[c->b_line],
                   d->b.at[c->b_line + c->b_count] - d->b.at[c->b_line]);
        at = (size_t)(to - code);
    }
    buf_append(ret, code + at, n - at);
    return ret->failed ? -ENOMEM : 0;
}

int bug_repair(const struct buf *wrong, const struct buf *right, struct buf *ret)
{
    struct linediff d;
    _cleanup_buf_ struct buf code = BUF_INIT(right->len + 1);
    size_t n = program_code_length(wrong), n_right = program_code_length(right);
    buf_append(&code, right->data, n_right);
    if (n_right > 0 && right->data[n_right - 1] != '\n')
        buf_append_str(&code, "\n");
    int r = code.failed ? -ENOMEM : 0;
    if (r == 0)
        r = linediff_make(wrong->data, n, code.data, code.len, &d);
    if (r < 0)
        return r;
    r = bug_apply_changes(&d, wrong->data, n, ret);
    linediff_free(&d);
    buf_append(ret, wrong->data + n, wrong->len - n);
    return ret->failed ? -ENOMEM : r;
}

/* Diffs: one made of two texts, and the files that one names. */

static int buf_sink(void *data, const void *bytes, size_t n)
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
    r = linediff_print(&d, buf_sink, ret);
    if (r == 0 && d.count == 0)
        r = -ENODATA;
    linediff_free(&d);
    return r < 0 ? r : ret->failed ? -ENOMEM : 0;
}

/* How many lines of the current hunk are still to come. */
struct hunk_reader {
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
static bool hunk_take_line(struct hunk_reader *p, const char *line)
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

static int diff_add_path(struct task_list *l, const char *at, size_t n, struct error *err)
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
static int diff_take_git(struct task_list *l, const char *at, size_t n, struct error *err)
{
    size_t half = n / 2;
    bool same = n % 2 == 1 && n > 5 && at[half] == ' ' && memcmp(at, "a/", 2) == 0 &&
                memcmp(at + half + 1, "b/", 2) == 0 && memcmp(at + 2, at + half + 3, half - 2) == 0;
    return same ? diff_add_path(l, at + 2, half - 2, err) : 0;
}

/* `--- a/PATH`, `+++ b/PATH`, `rename from PATH`, …; a tab ends a name in the first two. */
static int diff_take_line(struct task_list *l, const char *line, size_t n, struct error *err)
{
    static const struct {
        const char *head;
        size_t strip; /* of "a/" */
    } HEADS[] = {{"--- ", 2},       {"+++ ", 2},       {"rename from ", 0},
                 {"rename to ", 0}, {"copy from ", 0}, {"copy to ", 0}};
    if (n > 11 && strncmp(line, "diff --git ", 11) == 0)
        return diff_take_git(l, line + 11, n - 11, err);
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
        return diff_add_path(l, at + (*at == '"' ? 0 : HEADS[i].strip),
                             left - (*at == '"' ? 0 : HEADS[i].strip), err);
    }
    return 0;
}

int diff_paths(const char *diff, struct task_list *ret, struct error *err)
{
    struct hunk_reader p = {0};
    struct task_list l = {0};
    int r = 0;
    for (const char *at = diff; *at && r == 0;) {
        size_t n = strcspn(at, "\n");
        size_t plain = n > 0 && at[n - 1] == '\r' ? n - 1 : n;
        if (!hunk_take_line(&p, at))
            r = diff_take_line(&l, at, plain, err);
        at += n;
        at += *at == '\n';
    }
    if (r == 0 && l.count == 0)
        r = error_set(err, EINVAL, "is not a diff: it names no files");
    if (r < 0) {
        task_list_free(&l);
        return r;
    }
    *ret = l;
    return 0;
}

/* The length of one file's part, from `diff --git` to the next. */
static size_t diff_part_length(const char *part, bool *ret_binary)
{
    struct hunk_reader p = {0};
    const char *at = part;
    *ret_binary = false;
    do {
        size_t n = strcspn(at, "\n");
        if (!hunk_take_line(&p, at) && strncmp(at, "Binary files ", 13) == 0)
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
        size_t n = diff_part_length(diff, &binary);
        if (!binary)
            buf_append(ret, diff, n);
        dropped += binary;
        diff += n;
    }
    return dropped;
}

#define LINES_MAX 20000u
#define DIFF_MAX  (2u << 20)

struct variant_rule {
    const char *from, *to;
};

/* The first that a line has is made; spaces around keep them from matching within longer
 * operators. */
static const struct variant_rule CHANGES[] = {
    {" <= ", " < "},        {" >= ", " > "},      {" < ", " <= "},
    {" > ", " >= "},        {" == ", " != "},     {" != ", " == "},
    {" + 1", ""},           {" - 1", ""},         {" and ", " or "},
    {" or ", " and "},      {" + ", " - "},       {" - ", " + "},
    {"(0, ", "(1, "},       {" not in ", " in "}, {" = 0", " = 1"},
    {" = 1", " = 0"},       {"True", "False"},    {"False", "True"},
    {" // 2", " // 3"},     {" += ", " -= "},     {" -= ", " += "},
    {"[1:]", "[2:]"},       {"[0]", "[-1]"},      {"if not ", "if "},
    {" % ", " // "},        {" / ", " * "},       {" * ", " / "},
    {"min(", "max("},       {"max(", "min("},     {" return [", " return [None, "},
    {" = [", " = [None, "},
};

struct line {
    const char *at;
    size_t n;
    bool text;    /* not code */
    bool touched; /* by the solution */
};

struct program {
    struct line lines[LINES_MAX];
    size_t count;
};

/* All lines; those of a text in three quotes are no code. */
static void program_split(struct program *p, const struct buf *b)
{
    const char *at = (const char *)b->data, *end = at + b->len;
    bool text = false;
    while (at < end && p->count < LINES_MAX) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) + 1 : (size_t)(end - at),
               quotes = quotes_count(at, n);
        p->lines[p->count++] = (struct line){.at = at, .n = n, .text = text || quotes > 0};
        text ^= quotes % 2 == 1;
        at += n;
    }
}

/* Marks what the solution changes, and the lines beside it: a second mistake there may make up for
 * the first. Returns the first line that it changes. */
static int program_mark(struct program *p, const struct buf *wrong, const struct buf *right,
                        size_t *ret_first)
{
    struct linediff d;
    int r = linediff_make(wrong->data, wrong->len, right->data, right->len, &d);
    if (r < 0)
        return r;
    *ret_first = 0;
    for (size_t i = 0; i < d.count; i++) {
        size_t first = d.skipped + d.changes[i].a_line, n = d.changes[i].a_count;
        if (i == 0)
            *ret_first = first + 1;
        for (size_t k = first > 0 ? first - 1 : 0; k <= first + n && k < p->count; k++)
            p->lines[k].touched = true;
    }
    linediff_free(&d);
    return 0;
}

/* The line with one change, if there is one to be made. */
static bool line_vary(const struct line *l, struct buf *ret)
{
    const char *code = l->at;
    while (code < l->at + l->n && (*code == ' ' || *code == '\t'))
        code++;
    if (code == l->at + l->n || *code == '#' || *code == '\n' || l->text || l->touched)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(CHANGES); i++) {
        const struct variant_rule *c = &CHANGES[i];
        const char *at = memmem(l->at, l->n, c->from, strlen(c->from));
        if (!at)
            continue;
        const char *rest = at + strlen(c->from);
        buf_append(ret, l->at, (size_t)(at - l->at));
        buf_append_str(ret, c->to);
        buf_append(ret, rest, (size_t)(l->at + l->n - rest));
        return true;
    }
    return false;
}

static int variant_add_patch(struct task *t, size_t line, const char *path, const struct buf *a,
                             const struct buf *b, struct error *err)
{
    char name[32];
    _cleanup_buf_ struct buf diff = BUF_INIT(DIFF_MAX);
    snprintf(name, sizeof name, "line-%zu", line);
    int r = diff_make(path, a->data, a->len, b->data, b->len, &diff);
    if (r == -ENODATA)
        return error_set(err, EINVAL, "%s: is the same as the correct program", path);
    const char *text = r == 0 ? buf_cstr(&diff) : NULL;
    if (!text || task_patch_add(t, name, text) < 0)
        return task_no_memory(err);
    return 0;
}

/* The whole program with one line in another form. */
static int variant_add(struct task *t, const struct program *p, size_t i, const char *path,
                       const struct buf *wrong, struct error *err)
{
    const struct line *l = &p->lines[i];
    const char *begin = (const char *)wrong->data;
    size_t before = (size_t)(l->at - begin), after = wrong->len - before - l->n;
    _cleanup_buf_ struct buf text = BUF_INIT(DIFF_MAX);
    buf_append(&text, begin, before);
    line_vary(l, &text);
    buf_append(&text, l->at + l->n, after);
    return text.failed ? task_no_memory(err) : variant_add_patch(t, i + 1, path, wrong, &text, err);
}

/* Of the lines that can be varied, some that lie apart. */
static size_t variants_choose(const struct program *p, size_t ret[VARIANTS_MAX])
{
    _cleanup_buf_ struct buf text = BUF_INIT(DIFF_MAX);
    size_t all[LINES_MAX / 8], n = 0, chosen = 0;
    for (size_t i = 0; i < p->count && n < ARRAY_SIZE(all); i++) {
        text.len = 0;
        if (line_vary(&p->lines[i], &text))
            all[n++] = i;
    }
    size_t want = n < VARIANTS_MAX ? n : VARIANTS_MAX;
    for (; chosen < want; chosen++)
        ret[chosen] = all[chosen * n / want];
    return chosen;
}

static int variants_add_all(struct task *t, struct program *p, const char *path,
                            const struct buf *wrong, const struct buf *right, struct error *err)
{
    size_t variants[VARIANTS_MAX], first;
    char name[32];
    program_split(p, wrong);
    if (program_mark(p, wrong, right, &first) < 0)
        return task_no_memory(err);
    size_t n = variants_choose(p, variants), i = 0;
    int r = 0;
    for (; i < n && variants[i] + 1 < first && r == 0; i++)
        r = variant_add(t, p, variants[i], path, wrong, err);
    if (r == 0)
        r = variant_add_patch(t, first, path, wrong, right, err);
    for (; i < n && r == 0; i++)
        r = variant_add(t, p, variants[i], path, wrong, err);
    snprintf(name, sizeof name, "line-%zu", first);
    if (r == 0 && task_list_add(&t->solution, name) < 0)
        r = task_no_memory(err);
    return r;
}

int variants_add(struct task *t, const char *path, const struct buf *wrong, const struct buf *right,
                 struct error *err)
{
    struct program *p = calloc(1, sizeof *p);
    _cleanup_buf_ struct buf repaired = BUF_INIT(wrong->len + right->len + 1);
    int r = p ? bug_repair(wrong, right, &repaired) : -ENOMEM;
    r = r < 0 ? task_no_memory(err) : variants_add_all(t, p, path, wrong, &repaired, err);
    free(p);
    return r;
}
