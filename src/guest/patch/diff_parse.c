/*
 * From text to a diff: finds the files in it, reads the headers above their hunks and the hunks.
 *
 * The parser skips text that is no diff (a mail, a commit message, a Markdown fence). What looks
 * like a part of a diff but cannot be applied is an error: a hunk without names, another format.
 *
 * The header of a hunk is believed if its counts agree with the body; then what follows the body
 * does not belong to the hunk. If they do not agree, or there are none, the body reaches as far as
 * its lines look like one, and the counts are made from it.
 */
#include <errno.h>
#include <stdlib.h>

#include "diff.h"
#include "banned.h"

#define LINE_NUMBER_MAX 100000000u

static int diff_add_failed(size_t n, size_t max, const char *what, struct error *err)
{
    if (n < max)
        return error_set(err, ENOMEM, "out of memory while reading the diff");
    return error_set(err, E2BIG, "the diff has more than %zu %s: apply it in parts", max, what);
}

static int diff_add_file(struct diff *d, size_t line, struct diff_file **ret, struct error *err)
{
    if (d->n_files >= DIFF_FILES_MAX || !ARRAY_GROW(d->files, d->n_files, d->files_room))
        return diff_add_failed(d->n_files, DIFF_FILES_MAX, "files", err);
    *ret = &d->files[d->n_files++];
    **ret = (struct diff_file){.line = line, .first_hunk = d->n_hunks};
    return 0;
}

/* A hunk of the last file. */
static int diff_add_hunk(struct diff *d, const struct diff_hunk *h, struct error *err)
{
    if (d->n_hunks >= DIFF_HUNKS_MAX || !ARRAY_GROW(d->hunks, d->n_hunks, d->hunks_room))
        return diff_add_failed(d->n_hunks, DIFF_HUNKS_MAX, "hunks", err);
    struct diff_hunk *added = &d->hunks[d->n_hunks++];
    *added = *h;
    added->first = d->n_lines;
    added->count = added->old_count = added->new_count = 0; /* counted as lines are added */
    d->files[d->n_files - 1].hunks++;
    return 0;
}

/* A line of the last hunk. */
static int diff_add_line(struct diff *d, char kind, struct slice text, struct error *err)
{
    if (d->n_lines >= DIFF_LINES_MAX || !ARRAY_GROW(d->lines, d->n_lines, d->lines_room))
        return diff_add_failed(d->n_lines, DIFF_LINES_MAX, "lines", err);
    d->lines[d->n_lines++] =
        (struct diff_line){(const uint8_t *)text.at, (uint32_t)text.size, kind};
    struct diff_hunk *last = &d->hunks[d->n_hunks - 1];
    last->count++;
    last->old_count += kind != '+';
    last->new_count += kind != '-';
    return 0;
}

void diff_free(struct diff *d)
{
    for (size_t i = 0; i < d->n_files; i++) {
        free(d->files[i].old_name);
        free(d->files[i].new_name);
        free(d->files[i].from);
        free(d->files[i].to);
    }
    free(d->files);
    free(d->hunks);
    free(d->lines);
    free(d->text);
    *d = (struct diff){0};
}

#define SWAP(a, b)                                                                                 \
    do {                                                                                           \
        __typeof__(a) kept_ = (a);                                                                 \
        (a) = (b);                                                                                 \
        (b) = kept_;                                                                               \
    } while (0)

int diff_reverse(struct diff *d, struct error *err)
{
    _cleanup_free_ struct diff_line *space = calloc(d->n_lines + 1, sizeof *space);
    if (!space)
        return error_set(err, ENOMEM, "out of memory while reading the diff");
    for (size_t i = 0; i < d->n_files; i++) {
        struct diff_file *f = &d->files[i];
        char id[sizeof f->old_id];
        if (f->kind == DIFF_COPY)
            return error_set(err, EINVAL,
                             "%.400s: a copy cannot be reversed; delete the file instead", f->to);
        if (f->binary && f->back.form == DIFF_BINARY_NONE)
            return error_set(err, EINVAL,
                             "line %zu: a binary patch without its second half cannot be reversed",
                             f->line);
        if (f->kind == DIFF_ADD || f->kind == DIFF_DELETE)
            f->kind = f->kind == DIFF_ADD ? DIFF_DELETE : DIFF_ADD;
        SWAP(f->old_name, f->new_name);
        SWAP(f->from, f->to);
        SWAP(f->old_mode, f->new_mode);
        SWAP(f->forward, f->back);
        memcpy(id, f->old_id, sizeof id);
        memcpy(f->old_id, f->new_id, sizeof id);
        memcpy(f->new_id, id, sizeof id);
    }
    for (size_t i = 0; i < d->n_files / 2; i++)
        SWAP(d->files[i], d->files[d->n_files - 1 - i]);

    for (size_t n = 0; n < d->n_hunks; n++) {
        struct diff_hunk *h = &d->hunks[n];
        struct diff_line *lines = d->lines + h->first;
        SWAP(h->old_line, h->new_line);
        SWAP(h->old_count, h->new_count);
        for (size_t i = 0, run = 0; i <= h->count; i++) {
            if (i < h->count && lines[i].kind != ' ') {
                lines[i].kind = lines[i].kind == '+' ? '-' : '+';
                continue;
            }
            /* Within a run of changed lines, removed ones precede added ones. */
            size_t used = 0;
            for (const char *kind = "-+"; *kind; kind++)
                for (size_t k = run; k < i; k++)
                    if (lines[k].kind == *kind)
                        space[used++] = lines[k];
            memcpy(lines + run, space, used * sizeof *lines);
            run = i + 1;
        }
    }
    return 0;
}

static struct slice cursor_line_after(const struct cursor *c)
{
    struct cursor next = *c;
    cursor_next(&next);
    return cursor_line(&next);
}

/* Do a --- and a +++ line begin here? */
static bool cursor_at_names(const struct cursor *c)
{
    return slice_begins(cursor_line(c), "--- ") && slice_begins(cursor_line_after(c), "+++ ");
}

static void cursor_skip_blank(struct cursor *c)
{
    while (!cursor_done(c) && slice_trim(cursor_line(c)).size == 0)
        cursor_next(c);
}

/* The kind of a line of a body: ' ', '-', '+', '\\'; 0 if it is none. An empty line is context that
 * has lost its blank. */
static char hunk_line_kind(struct slice s)
{
    if (s.size == 0)
        return ' ';
    return strchr(" -+\\", s.at[0]) && s.at[0] ? s.at[0] : 0;
}

/* How many lines the body has if its header's counts are right; -EINVAL if they are not: it is
 * shorter, or the next line would continue it. */
static ssize_t hunk_counted_length(struct cursor c, uint32_t old, uint32_t new)
{
    ssize_t n = 0;
    for (; old || new || (!cursor_done(&c) && *c.at == '\\'); n++) {
        char kind = cursor_done(&c) ? 0 : hunk_line_kind(cursor_line(&c));
        if (kind == 0 || (kind != '+' && kind != '\\' && old == 0) || (kind == '+' && new == 0) ||
            (kind == ' ' && new == 0))
            return -EINVAL;
        old -= kind == ' ' || kind == '-';
        new -= kind == ' ' || kind == '+';
        cursor_next(&c);
    }
    struct slice s = cursor_line(&c);
    char kind = cursor_done(&c) ? 0 : hunk_line_kind(s);
    /* "-- " and the version of git end a mail. */
    if (kind == 0 || cursor_at_names(&c) || slice_is(s, "-- ") || slice_is(s, "--") ||
        slice_is(s, "---"))
        return n;
    return kind == '+' || kind == '-' || slice_trim(s).size > 0 ? -EINVAL : n;
}

/* How many lines the body has by their look; `counts` is the header if it has counts, or NULL.
 * Empty lines at the end are text between hunks, unless the header counted them. */
static int hunk_visible_length(struct cursor c, const struct diff_hunk *counts, size_t *ret,
                               struct error *err)
{
    /* What may follow a body without being a broken line of it. */
    static const char *const BOUNDARIES[] = {
        "@@",  "diff ", "```", "~~~",      "*** ",  "Index: ", "index ",
        "-- ", "--- ",  "===", "Only in ", "From ", "commit ", "</"};
    size_t n = 0, empty = 0, began = c.line;
    uint32_t old = 0, new = 0;
    for (; !cursor_done(&c) && !cursor_at_names(&c); n++, cursor_next(&c)) {
        struct slice s = cursor_line(&c);
        char kind = hunk_line_kind(s);
        if (kind == 0 || slice_is(s, "-- "))
            break;
        empty = s.size == 0 ? empty + 1 : 0;
        old += kind == ' ' || kind == '-';
        new += kind == ' ' || kind == '+';
    }
    *ret = n - empty;
    if (!counts)
        return 0;
    bool boundary = cursor_done(&c);
    for (size_t i = 0; i < ARRAY_SIZE(BOUNDARIES); i++)
        boundary |= slice_begins(cursor_line(&c), BOUNDARIES[i]);
    if ((counts->old_count > old || counts->new_count > new) && empty == 0 && !boundary)
        return error_set(
            err, EINVAL,
            "line %zu of the diff begins with none of ' ', '+' and '-', but the hunk of line %zu "
            "says that it goes on (its header has -%u +%u lines, its body -%u +%u)",
            c.line, began - 1, counts->old_count, counts->new_count, old, new);
    if (counts->old_count <= old && counts->old_count >= old - (uint32_t)empty &&
        old - counts->old_count == new - counts->new_count)
        *ret = n - (old - counts->old_count);
    return 0;
}

static int hunk_add_lines(struct diff *d, struct cursor *c, size_t n, struct error *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r >= 0; i++) {
        struct slice s = cursor_line(c), whole = cursor_whole(c);
        char kind = hunk_line_kind(s);
        cursor_next(c);
        if (kind == '\\')
            continue;
        if (s.size > 0)
            whole = slice_skip(whole, 1);
        if (!cursor_done(c) && *c->at == '\\') /* No newline at end of file */
            whole.size--;
        r = diff_add_line(d, kind, whole, err);
    }
    return r;
}

/* "-12,3" or "-12". */
static bool hunk_parse_range(struct slice *s, char sign, uint32_t *line, uint32_t *count)
{
    struct slice at = slice_trim(*s);
    uint32_t numbers[2] = {0, 1};
    for (size_t i = 0; i < 2; i++) {
        size_t n = 1;
        uint32_t v = 0;
        if (at.size == 0 || at.at[0] != (i ? ',' : sign))
            return false;
        for (; n < at.size && at.at[n] >= '0' && at.at[n] <= '9' && v <= LINE_NUMBER_MAX; n++)
            v = v * 10 + (uint32_t)(at.at[n] - '0');
        if (n == 1 || v > LINE_NUMBER_MAX)
            return false;
        numbers[i] = v;
        at = slice_skip(at, n);
        if (at.size == 0 || at.at[0] != ',')
            break;
    }
    *line = numbers[0];
    *count = numbers[1];
    *s = at;
    return true;
}

static int hunk_parse(struct diff *d, struct cursor *c, struct error *err)
{
    struct slice s = cursor_line(c), whole = cursor_whole(c), rest = slice_skip(s, 2);
    struct diff_hunk h = {.header = s};
    size_t began = c->line, length = 0;
    if (slice_begins(s, "@@@"))
        return error_set(err, EINVAL,
                         "line %zu: this is the diff of a merge (@@@); give a diff of two versions",
                         began);
    h.numbered = hunk_parse_range(&rest, '-', &h.old_line, &h.old_count);
    bool counts = h.numbered && hunk_parse_range(&rest, '+', &h.new_line, &h.new_count);
    if (h.numbered && !counts)
        h.new_line = h.old_line;
    if (!h.numbered) {
        /* The text between or behind the @@, unless it only says "somewhere". */
        h.anchor = slice_trim(slice_skip(s, 2));
        const char *end = memmem(h.anchor.at, h.anchor.size, "@@", 2);
        if (end) {
            rest = slice_trim(slice_skip(h.anchor, (size_t)(end + 2 - h.anchor.at)));
            h.anchor.size = (size_t)(end - h.anchor.at);
            h.anchor = rest.size ? rest : slice_trim(h.anchor);
        }
        if (slice_is(h.anchor, "...") || slice_is(h.anchor, "\u2026"))
            h.anchor.size = 0;
    }
    d->crlf |= whole.size >= 2 && whole.at[whole.size - 2] == '\r';
    cursor_next(c);
    ssize_t n = counts ? hunk_counted_length(*c, h.old_count, h.new_count) : -EINVAL;
    h.recounted = h.numbered && n < 0;
    int r = 0;
    if (n >= 0)
        length = (size_t)n;
    else
        r = hunk_visible_length(*c, counts ? &h : NULL, &length, err);
    if (r >= 0)
        r = diff_add_hunk(d, &h, err);
    if (r >= 0)
        r = hunk_add_lines(d, c, length, err);
    if (r >= 0 && d->hunks[d->n_hunks - 1].count == 0)
        return error_set(err, EINVAL,
                         "line %zu of the diff: no line with ' ', '+' or '-' follows this @@ line",
                         began);
    return r;
}

static int hunk_compare(const void *a, const void *b)
{
    const struct diff_hunk *x = a, *y = b;
    return x->old_line != y->old_line ? (x->old_line > y->old_line) - (x->old_line < y->old_line)
                                      : (x->first > y->first) - (x->first < y->first);
}

/* Reads the hunks of the file that was added last, as long as there are any. If all have numbers,
 * they are put in their order: models, and git for diffs without context, mix it up. */
static int hunks_parse(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_file *f = &d->files[d->n_files - 1];
    bool numbered = true;
    while (!cursor_done(c) && slice_begins(cursor_line(c), "@@")) {
        int r = hunk_parse(d, c, err);
        if (r < 0)
            return r;
        /* Empty lines between hunks, which models like to write. */
        struct cursor ahead = *c;
        cursor_skip_blank(&ahead);
        if (slice_begins(cursor_line(&ahead), "@@"))
            *c = ahead;
        numbered &= d->hunks[d->n_hunks - 1].numbered;
    }
    if (f->hunks > 1 && numbered)
        qsort(&d->hunks[f->first_hunk], f->hunks, sizeof *d->hunks, hunk_compare);
    return 0;
}

static int parse_error(const struct cursor *c, const char *why, struct error *err)
{
    return error_set(err, EINVAL, "line %zu of the diff: %s", c->line, why);
}

static int parse_name(const struct cursor *c, struct slice s, char **ret, struct error *err)
{
    char *name = NULL;
    int r = name_parse(s, &name);
    if (r < 0)
        return r == -ENOMEM ? error_errno(err, ENOMEM, "reading the diff")
                            : parse_error(c, "no file name", err);
    free(*ret);
    *ret = name;
    return 0;
}

static int parse_mode(const struct cursor *c, struct slice s, mode_t *ret, struct error *err)
{
    static const struct {
        const char *text;
        mode_t mode;
    } MODES[] = {{"100644", 0100644}, {"100664", 0100644}, {"100600", 0100644}, {"100755", 0100755},
                 {"100775", 0100755}, {"100700", 0100755}, {"120000", 0120000}};
    s = slice_trim(s);
    for (size_t i = 0; i < ARRAY_SIZE(MODES); i++)
        if (slice_is(s, MODES[i].text)) {
            *ret = MODES[i].mode;
            return 0;
        }
    return parse_error(c,
                       slice_is(s, "160000")
                           ? "mode 160000 is a submodule, which cannot be applied to files"
                           : "the mode must be 100644, 100755 or 120000",
                       err);
}

/* "0123abc..4567def 100644": the ids of both contents, which only binary patches need. */
static void parse_index(struct slice s, struct diff_file *f)
{
    size_t a = 0, b = 0;
    while (a < s.size && s.at[a] && strchr("0123456789abcdef", s.at[a]))
        a++;
    struct slice rest = slice_skip(s, a);
    if (!slice_begins(rest, ".."))
        return;
    rest = slice_skip(rest, 2);
    while (b < rest.size && rest.at[b] && strchr("0123456789abcdef", rest.at[b]))
        b++;
    if (a >= sizeof f->old_id || b >= sizeof f->new_id)
        return;
    memcpy(f->old_id, s.at, a);
    memcpy(f->new_id, rest.at, b);
    f->old_id[a] = f->new_id[b] = 0;
    if (slice_is(slice_trim(slice_skip(rest, b)), "120000"))
        f->old_mode = f->new_mode = 0120000;
}

static bool header_value(struct slice line, const char *name, struct slice *ret)
{
    if (!slice_begins(line, name))
        return false;
    *ret = slice_skip(line, strlen(name));
    return true;
}

/* Reads one line between `diff --git` and the content. 1, or 0 if it is no such line. */
static int parse_header(const struct cursor *c, struct diff_file *f, struct error *err)
{
    struct slice s = cursor_line(c), v;
    int r = 0;
    if (header_value(s, "old mode ", &v)) {
        r = parse_mode(c, v, &f->old_mode, err);
    } else if (header_value(s, "new mode ", &v)) {
        r = parse_mode(c, v, &f->new_mode, err);
    } else if (header_value(s, "new file mode ", &v)) {
        f->kind = DIFF_ADD;
        r = parse_mode(c, v, &f->new_mode, err);
    } else if (header_value(s, "deleted file mode ", &v)) {
        f->kind = DIFF_DELETE;
        r = parse_mode(c, v, &f->old_mode, err);
    } else if (header_value(s, "rename from ", &v)) {
        f->kind = DIFF_RENAME;
        r = parse_name(c, v, &f->from, err);
    } else if (header_value(s, "copy from ", &v)) {
        f->kind = DIFF_COPY;
        r = parse_name(c, v, &f->from, err);
    } else if (header_value(s, "rename to ", &v) || header_value(s, "copy to ", &v)) {
        r = parse_name(c, v, &f->to, err);
    } else if (header_value(s, "index ", &v)) {
        parse_index(v, f);
    } else if (!slice_begins(s, "similarity index ") && !slice_begins(s, "dissimilarity index ")) {
        return 0;
    }
    return r < 0 ? r : 1;
}

/* The --- and +++ lines. */
static int parse_sides(struct diff_file *f, struct cursor *c, struct error *err)
{
    char **names[] = {&f->old_name, &f->new_name};
    bool nothing[2];
    size_t began = c->line;
    for (size_t i = 0; i < 2; i++, cursor_next(c)) {
        struct slice s = slice_skip(cursor_line(c), 4);
        nothing[i] = name_is_nothing(s);
        if (nothing[i] && slice_begins(s, "/dev/null"))
            continue;
        int r = parse_name(c, s, names[i], err);
        if (r < 0)
            return r;
    }
    if (nothing[0] && nothing[1])
        return error_set(err, EINVAL, "line %zu of the diff: both sides are /dev/null", began);
    if (f->kind == DIFF_MODIFY && (nothing[0] || nothing[1]))
        f->kind = nothing[0] ? DIFF_ADD : DIFF_DELETE;
    return 0;
}

/* "literal 123" or "delta 123" and its lines, up to an empty one. 1, or 0 if there is none here. */
static int parse_binary(struct cursor *c, struct diff_binary *ret, struct error *err)
{
    struct slice s = cursor_line(c);
    bool literal = slice_begins(s, "literal ");
    struct diff_binary b = {.form = literal ? DIFF_BINARY_LITERAL : DIFF_BINARY_DELTA};
    if (cursor_done(c) || (!literal && !slice_begins(s, "delta ")))
        return 0;
    s = slice_skip(s, strlen(literal ? "literal " : "delta "));
    for (size_t i = 0; i < s.size; i++) {
        if (s.at[i] < '0' || s.at[i] > '9' || b.size > UINT32_MAX)
            return parse_error(c, "the size of a binary patch is a number", err);
        b.size = b.size * 10 + (uint64_t)(s.at[i] - '0');
    }
    cursor_next(c);
    b.text.at = c->at;
    while (!cursor_done(c) && cursor_line(c).size > 0)
        cursor_next(c);
    b.text.size = (size_t)(c->at - b.text.at);
    if (!cursor_done(c))
        cursor_next(c);
    *ret = b;
    return 1;
}

/* "Binary files a and b differ": there is nothing to apply. */
static bool is_binary_notice(struct slice s)
{
    static const char END[] = " differ";
    return (slice_begins(s, "Binary files ") || slice_begins(s, "Files ")) && s.size > sizeof END &&
           memcmp(s.at + s.size - (sizeof END - 1), END, sizeof END - 1) == 0;
}

/* A file that begins with `diff --git`: its headers, then its content. */
static int parse_git_file(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_file *f;
    int r = diff_add_file(d, c->line, &f, err);
    if (r < 0)
        return r;
    f->git = true;
    f->git_names = slice_skip(cursor_line(c), strlen("diff --git "));
    do {
        cursor_next(c);
        r = cursor_done(c) ? 0 : parse_header(c, f, err);
    } while (r > 0);
    if (r < 0)
        return r;
    if ((f->kind == DIFF_RENAME || f->kind == DIFF_COPY) && (!f->from || !f->to))
        return parse_error(c, "a rename or copy has two lines, from and to", err);
    struct slice s = cursor_line(c);
    if (cursor_at_names(c)) {
        /* A rename, mode or empty file needs no content: these may be the names of another file. */
        bool complete = f->kind != DIFF_MODIFY || f->old_mode != f->new_mode, named = false;
        const struct slice sides[] = {cursor_line(c), cursor_line_after(c)};
        for (size_t i = 0; i < ARRAY_SIZE(sides) && !named; i++) {
            struct slice name = slice_skip(sides[i], 4);
            const char *tab = memchr(name.at, '\t', name.size);
            name.size = tab ? (size_t)(tab - name.at) : name.size;
            named = name.size && memmem(f->git_names.at, f->git_names.size, name.at, name.size);
        }
        if (complete && !named)
            return 0;
        r = parse_sides(f, c, err);
        return r < 0 ? r : hunks_parse(d, c, err);
    }
    if (slice_begins(s, "@@"))
        return hunks_parse(d, c, err);
    if (slice_is(s, "GIT binary patch")) {
        f->binary = true;
        cursor_next(c);
        r = parse_binary(c, &f->forward, err);
        if (r == 0)
            return parse_error(c, "a binary patch begins with \"literal\" or \"delta\" and a size",
                               err);
        return r < 0 ? r : parse_binary(c, &f->back, err);
    }
    if (is_binary_notice(s)) {
        f->only_differs = true;
        cursor_next(c);
    }
    return 0;
}

/* A file that begins with --- and +++. */
static int parse_plain_file(struct diff *d, struct cursor *c, struct error *err)
{
    struct cursor began = *c;
    struct diff_file *f;
    int r = diff_add_file(d, c->line, &f, err);
    if (r >= 0)
        r = parse_sides(f, c, err);
    if (r < 0)
        return r;
    cursor_skip_blank(c);
    r = hunks_parse(d, c, err);
    if (r >= 0 && f->hunks == 0)
        return parse_error(
            &began, "no hunk (a line that begins with @@) follows the names of the file", err);
    return r;
}

/*
 * The other format that models write:
 *
 *     *** Begin Patch
 *     *** Update File: src/a.c
 *     *** Move to: src/b.c
 *     @@ int main(void)
 *      context
 *     -old
 *     +new
 *     *** End of File
 *     *** Add File: new.txt
 *     +its lines
 *     *** Delete File: old.txt
 *     *** End Patch
 *
 * Its hunks have no numbers: their lines are searched, behind the line that @@ names.
 */
static int parse_codex_file(struct diff *d, struct cursor *c, enum diff_kind kind,
                            struct slice name, struct error *err)
{
    static const char MOVE[] = "*** Move to: ";
    struct diff_file *f;
    int r = diff_add_file(d, c->line, &f, err);
    if (r < 0)
        return r;
    f->codex = true;
    f->kind = kind;
    r = parse_name(c, slice_trim(name), &f->old_name, err);
    if (r >= 0)
        r = parse_name(c, slice_trim(name), &f->new_name, err);
    cursor_next(c);
    if (r < 0 || kind == DIFF_DELETE)
        return r;
    if (kind == DIFF_ADD) {
        if (!cursor_done(c) && *c->at == '+')
            r = diff_add_hunk(d, &(struct diff_hunk){.numbered = true, .new_line = 1}, err);
        for (; r >= 0 && !cursor_done(c) && *c->at == '+'; cursor_next(c))
            r = diff_add_line(d, '+', slice_skip(cursor_whole(c), 1), err);
        return r;
    }
    if (slice_begins(cursor_line(c), MOVE)) {
        struct slice to = slice_skip(cursor_line(c), sizeof MOVE - 1);
        f->kind = DIFF_RENAME;
        r = parse_name(c, slice_trim(name), &f->from, err);
        if (r >= 0)
            r = parse_name(c, slice_trim(to), &f->to, err);
        cursor_next(c);
    }
    while (r >= 0 && !cursor_done(c) && !slice_begins(cursor_line(c), "*** ")) {
        struct diff_hunk h = {.header = {c->at, 0}, .anchor = {c->at, 0}};
        struct cursor began = *c;
        size_t n = 0;
        /* The last of several such lines is the nearest. */
        for (; slice_begins(cursor_line(c), "@@"); cursor_next(c)) {
            h.header = cursor_line(c);
            h.anchor = slice_trim(slice_skip(h.header, 2));
        }
        r = diff_add_hunk(d, &h, err);
        if (r >= 0)
            r = hunk_visible_length(*c, NULL, &n, err);
        if (r >= 0)
            r = hunk_add_lines(d, c, n, err);
        if (r < 0)
            return r;
        struct diff_hunk *added = &d->hunks[d->n_hunks - 1];
        if (added->count == 0)
            return parse_error(&began, "expected lines with ' ', '+' or '-'", err);
        added->at_end = slice_is(cursor_line(c), "*** End of File");
        if (added->at_end)
            cursor_next(c);
        cursor_skip_blank(c);
    }
    return r;
}

static int parse_codex(struct diff *d, struct cursor *c, struct error *err)
{
    static const struct {
        const char *text;
        enum diff_kind kind;
    } FILES[] = {{"*** Add File: ", DIFF_ADD},
                 {"*** Update File: ", DIFF_MODIFY},
                 {"*** Delete File: ", DIFF_DELETE}};
    cursor_next(c);
    while (!cursor_done(c)) {
        struct slice s = cursor_line(c);
        size_t i = 0;
        while (i < ARRAY_SIZE(FILES) && !slice_begins(s, FILES[i].text))
            i++;
        if (i < ARRAY_SIZE(FILES)) {
            s = slice_skip(s, strlen(FILES[i].text));
            int r = parse_codex_file(d, c, FILES[i].kind, s, err);
            if (r < 0)
                return r;
            continue;
        }
        bool end = slice_is(slice_trim(s), "*** End Patch");
        if (!end && slice_trim(s).size > 0)
            return parse_error(c,
                               "expected *** Add File: NAME, *** Update File: NAME, *** Delete "
                               "File: NAME or *** End Patch",
                               err);
        cursor_next(c);
        if (end)
            break;
    }
    return 0;
}

int diff_parse(const void *text, size_t size, bool strip_cr, struct diff *ret, struct error *err)
{
    _cleanup_diff_ struct diff d = {0};
    const char *from = text;
    if (size > DIFF_SIZE_MAX)
        return error_set(err, E2BIG, "the diff is larger than %u MiB: apply it in parts",
                         DIFF_SIZE_MAX >> 20);
    d.text = malloc(size + 2);
    if (!d.text)
        return error_errno(err, ENOMEM, "reading the diff");
    for (size_t i = 0; i < size; i++)
        if (!strip_cr || from[i] != '\r' || (i + 1 < size && from[i + 1] != '\n'))
            d.text[d.size++] = from[i];
    if (d.size && d.text[d.size - 1] != '\n')
        d.text[d.size++] = '\n';
    struct cursor c = {d.text, d.text + d.size, 1};
    for (int r = 0; !cursor_done(&c);) {
        struct slice s = cursor_line(&c);
        if (slice_begins(s, "diff --git "))
            r = parse_git_file(&d, &c, err);
        else if (cursor_at_names(&c))
            r = parse_plain_file(&d, &c, err);
        else if (slice_is(slice_trim(s), "*** Begin Patch"))
            r = parse_codex(&d, &c, err);
        else if (slice_is(s, "***************"))
            r = parse_error(&c, "this is a context diff; give a unified diff (diff -u)", err);
        else if (slice_begins(s, "diff --cc ") || slice_begins(s, "diff --combined "))
            r = parse_error(&c, "this is the diff of a merge; give a diff of two versions", err);
        else if (slice_begins(s, "@@"))
            r = parse_error(&c,
                            "a hunk without the name of its file: \"--- a/NAME\" and \"+++ "
                            "b/NAME\" must precede it",
                            err);
        else if (is_binary_notice(s))
            r = parse_error(&c, "binary files differ, but not how: make the diff with --binary",
                            err);
        else /* text around the diff */
            cursor_next(&c);
        if (r < 0)
            return r;
    }
    if (d.n_files == 0)
        return error_set(err, EINVAL,
                         "no diff found: expected a unified diff with \"--- a/NAME\", \"+++ "
                         "b/NAME\" and \"@@\" lines, or a git diff");
    *ret = d;
    d = (struct diff){0};
    return 0;
}
