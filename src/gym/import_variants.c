#include <errno.h>
#include <string.h>

#include "import_private.h"
#include "import_variants.h"
#include "linediff.h"
#include "banned.h"

#define LINES_MAX 20000u
#define DIFF_MAX  (2u << 20)

struct change {
    const char *from, *to;
};

/* The first that a line has is made; spaces around keep them from matching within longer operators.
 */
static const struct change CHANGES[] = {
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
static void split(struct program *p, const struct buf *b)
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
static int mark(struct program *p, const struct buf *wrong, const struct buf *right,
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
static bool vary(const struct line *l, struct buf *ret)
{
    const char *code = l->at;
    while (code < l->at + l->n && (*code == ' ' || *code == '\t'))
        code++;
    if (code == l->at + l->n || *code == '#' || *code == '\n' || l->text || l->touched)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(CHANGES); i++) {
        const struct change *c = &CHANGES[i];
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

static int add_patch(struct task *t, size_t line, const char *path, const struct buf *a,
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
static int add_variant(struct task *t, const struct program *p, size_t i, const char *path,
                       const struct buf *wrong, struct error *err)
{
    const struct line *l = &p->lines[i];
    const char *begin = (const char *)wrong->data;
    size_t before = (size_t)(l->at - begin), after = wrong->len - before - l->n;
    _cleanup_buf_ struct buf text = BUF_INIT(DIFF_MAX);
    buf_append(&text, begin, before);
    vary(l, &text);
    buf_append(&text, l->at + l->n, after);
    return text.failed ? task_no_memory(err) : add_patch(t, i + 1, path, wrong, &text, err);
}

/* Of the lines that can be varied, some that lie apart. */
static size_t choose(const struct program *p, size_t ret[VARIANTS_MAX])
{
    _cleanup_buf_ struct buf text = BUF_INIT(DIFF_MAX);
    size_t all[LINES_MAX / 8], n = 0, chosen = 0;
    for (size_t i = 0; i < p->count && n < ARRAY_SIZE(all); i++) {
        text.len = 0;
        if (vary(&p->lines[i], &text))
            all[n++] = i;
    }
    size_t want = n < VARIANTS_MAX ? n : VARIANTS_MAX;
    for (; chosen < want; chosen++)
        ret[chosen] = all[chosen * n / want];
    return chosen;
}

static int add_all(struct task *t, struct program *p, const char *path, const struct buf *wrong,
                   const struct buf *right, struct error *err)
{
    size_t variants[VARIANTS_MAX], first;
    char name[32];
    split(p, wrong);
    if (mark(p, wrong, right, &first) < 0)
        return task_no_memory(err);
    size_t n = choose(p, variants), i = 0;
    int r = 0;
    for (; i < n && variants[i] + 1 < first && r == 0; i++)
        r = add_variant(t, p, variants[i], path, wrong, err);
    if (r == 0)
        r = add_patch(t, first, path, wrong, right, err);
    for (; i < n && r == 0; i++)
        r = add_variant(t, p, variants[i], path, wrong, err);
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
    r = r < 0 ? task_no_memory(err) : add_all(t, p, path, wrong, &repaired, err);
    free(p);
    return r;
}
