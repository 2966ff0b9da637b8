/*
 * From text to a diff: finds the files in it and reads what stands above their hunks.
 *
 * Whatever is no diff is passed over (the text of a mail, of a commit, a fence of Markdown), but
 * not what looks like a part of one that cannot be applied: a hunk without names, a diff in another
 * form.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codex.h"
#include "cursor.h"
#include "hunks.h"
#include "name.h"
#include "banned.h"

static int bad_line(const struct cursor *c, const char *why, struct error *err)
{
    return error_set(err, EINVAL, "line %zu of the diff: %s", c->line, why);
}

static int take_name(const struct cursor *c, size_t skip, char **ret, struct error *err)
{
    char *name = NULL;
    int r = name_parse(slice_behind(cursor_line(c), skip), &name);
    if (r < 0)
        return r == -ENOMEM ? error_errno(err, ENOMEM, "reading the diff")
                            : bad_line(c, "no file name", err);
    free(*ret);
    *ret = name;
    return 0;
}

static int take_mode(const struct cursor *c, size_t skip, mode_t *ret, struct error *err)
{
    struct slice s = slice_trim(slice_behind(cursor_line(c), skip));
    if (slice_is(s, "100644") || slice_is(s, "100664") || slice_is(s, "100600"))
        *ret = 0100644;
    else if (slice_is(s, "100755") || slice_is(s, "100775") || slice_is(s, "100700"))
        *ret = 0100755;
    else if (slice_is(s, "120000"))
        *ret = 0120000;
    else if (slice_is(s, "160000"))
        return bad_line(c, "mode 160000 is a submodule, which cannot be applied to files", err);
    else
        return bad_line(c, "a mode is one of 100644, 100755 and 120000", err);
    return 0;
}

static size_t hex_length(struct slice s)
{
    size_t n = 0;
    while (n < s.size && strchr("0123456789abcdef", s.at[n]) && s.at[n])
        n++;
    return n;
}

/* "index 0123abc..4567def 100644": the names of the contents; they only count for binary patches.
 */
static void take_index(struct slice s, struct diff_file *f)
{
    size_t a = hex_length(s);
    struct slice rest = slice_behind(s, a);
    if (!slice_begins(rest, ".."))
        return;
    rest = slice_behind(rest, 2);
    size_t b = hex_length(rest);
    if (a >= sizeof f->old_id || b >= sizeof f->new_id)
        return;
    memcpy(f->old_id, s.at, a);
    memcpy(f->new_id, rest.at, b);
    f->old_id[a] = f->new_id[b] = 0;
    rest = slice_trim(slice_behind(rest, b));
    if (slice_is(rest, "120000"))
        f->old_mode = f->new_mode = 0120000;
}

struct header {
    const char *text;
    int (*take)(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err);
};

static int old_mode(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    return take_mode(c, skip, &f->old_mode, err);
}

static int new_mode(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    return take_mode(c, skip, &f->new_mode, err);
}

static int new_file(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    f->kind = DIFF_ADD;
    return take_mode(c, skip, &f->new_mode, err);
}

static int deleted_file(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    f->kind = DIFF_DELETE;
    return take_mode(c, skip, &f->old_mode, err);
}

static int rename_from(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    f->kind = DIFF_RENAME;
    return take_name(c, skip, &f->from, err);
}

static int copy_from(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    f->kind = DIFF_COPY;
    return take_name(c, skip, &f->from, err);
}

static int to(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    return take_name(c, skip, &f->to, err);
}

static int index_line(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    take_index(slice_behind(cursor_line(c), skip), f);
    return 0;
}

static int pass(const struct cursor *c, size_t skip, struct diff_file *f, struct error *err)
{
    return 0;
}

static const struct header HEADERS[] = {
    {"old mode ", old_mode},       {"new mode ", new_mode},
    {"new file mode ", new_file},  {"deleted file mode ", deleted_file},
    {"rename from ", rename_from}, {"rename to ", to},
    {"copy from ", copy_from},     {"copy to ", to},
    {"similarity index ", pass},   {"dissimilarity index ", pass},
    {"index ", index_line},
};

/* 1 if the line was one of the headers, 0 if not. */
static int take_header(const struct cursor *c, struct diff_file *f, struct error *err)
{
    struct slice s = cursor_line(c);
    for (size_t i = 0; i < ARRAY_SIZE(HEADERS); i++)
        if (slice_begins(s, HEADERS[i].text)) {
            int r = HEADERS[i].take(c, strlen(HEADERS[i].text), f, err);
            return r < 0 ? r : 1;
        }
    return 0;
}

/* The --- and +++ lines. */
static int take_sides(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_file *f = diff_last_file(d);
    bool no_old = name_is_nothing(slice_behind(cursor_line(c), 4));
    int r = no_old && slice_begins(cursor_line(c), "--- /dev/null")
                ? 0
                : take_name(c, 4, &f->old_name, err);
    if (r < 0)
        return r;
    cursor_next(c);
    bool no_new = name_is_nothing(slice_behind(cursor_line(c), 4));
    r = no_new && slice_begins(cursor_line(c), "+++ /dev/null")
            ? 0
            : take_name(c, 4, &f->new_name, err);
    if (r < 0)
        return r;
    if (no_old && no_new)
        return bad_line(c, "both sides are /dev/null", err);
    if (f->kind == DIFF_MODIFY && (no_old || no_new))
        f->kind = no_old ? DIFF_ADD : DIFF_DELETE;
    cursor_next(c);
    return 0;
}

/* "literal 123" or "delta 123" and its lines, up to an empty one. 1, or 0 if there is none here. */
static int take_binary(struct cursor *c, struct diff_binary *ret, struct error *err)
{
    struct slice s = cursor_line(c);
    struct diff_binary b = {.form = slice_begins(s, "literal ") ? DIFF_BINARY_LITERAL
                                                                : DIFF_BINARY_DELTA};
    if (cursor_done(c) || (!slice_begins(s, "literal ") && !slice_begins(s, "delta ")))
        return 0;
    s = slice_behind(s, b.form == DIFF_BINARY_LITERAL ? 8 : 6);
    for (size_t i = 0; i < s.size; i++) {
        if (s.at[i] < '0' || s.at[i] > '9' || b.size > UINT32_MAX)
            return bad_line(c, "the size of a binary patch is a number", err);
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

static int take_binary_patch(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_file *f = diff_last_file(d);
    f->binary = true;
    cursor_next(c);
    int r = take_binary(c, &f->forward, err);
    if (r == 0)
        return bad_line(c, "a binary patch begins with \"literal\" or \"delta\" and a size", err);
    if (r > 0)
        r = take_binary(c, &f->back, err);
    return r < 0 ? r : 0;
}

static bool is_untold(struct slice s)
{
    static const char END[] = " differ";
    return (slice_begins(s, "Binary files ") || slice_begins(s, "Files ")) && s.size > sizeof END &&
           memcmp(s.at + s.size - (sizeof END - 1), END, sizeof END - 1) == 0;
}

/* Is all said about a file without any content: a rename, a mode, an empty file? */
static bool is_whole(const struct diff_file *f)
{
    return f->kind != DIFF_MODIFY || f->old_mode != f->new_mode;
}

/* Are the names of the --- and +++ lines at the cursor among those of the file's first line? */
static bool names_it(const struct cursor *c, const struct diff_file *f)
{
    const struct slice sides[] = {cursor_line(c), cursor_line_after(c)};
    for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
        struct slice name = slice_behind(sides[i], 4);
        const char *tab = memchr(name.at, '\t', name.size);
        name.size = tab ? (size_t)(tab - name.at) : name.size;
        if (name.size && memmem(f->git_names.at, f->git_names.size, name.at, name.size))
            return true;
    }
    return false;
}

/* What follows the headers of a file: its content. */
static int take_content(struct diff *d, struct cursor *c, struct error *err)
{
    struct slice s = cursor_line(c);
    if (hunks_at_names(c) && is_whole(diff_last_file(d)) && !names_it(c, diff_last_file(d)))
        return 0; /* those of another file */
    if (hunks_at_names(c)) {
        int r = take_sides(d, c, err);
        return r < 0 ? r : hunks_parse(d, c, err);
    }
    if (slice_begins(s, "@@"))
        return hunks_parse(d, c, err);
    if (slice_is(s, "GIT binary patch"))
        return take_binary_patch(d, c, err);
    if (is_untold(s)) {
        diff_last_file(d)->untold = true;
        cursor_next(c);
    }
    return 0;
}

static int parse_git(struct diff *d, struct cursor *c, struct error *err)
{
    int r = diff_add_file(d, err);
    if (r < 0)
        return r;
    struct diff_file *f = diff_last_file(d);
    f->git = true;
    f->line = c->line;
    f->git_names = slice_behind(cursor_line(c), strlen("diff --git "));
    for (r = 1; r > 0;) {
        cursor_next(c);
        r = cursor_done(c) ? 0 : take_header(c, f, err);
    }
    if (r >= 0 && (f->kind == DIFF_RENAME || f->kind == DIFF_COPY) && (!f->from || !f->to))
        r = bad_line(c, "a rename or copy has two lines, from and to", err);
    return r < 0 ? r : take_content(d, c, err);
}

static int parse_plain(struct diff *d, struct cursor *c, struct error *err)
{
    struct cursor began = *c;
    int r = diff_add_file(d, err);
    if (r < 0)
        return r;
    diff_last_file(d)->line = c->line;
    r = take_sides(d, c, err);
    while (r >= 0 && !cursor_done(c) && slice_trim(cursor_line(c)).size == 0)
        cursor_next(c);
    if (r >= 0)
        r = hunks_parse(d, c, err);
    if (r >= 0 && diff_last_file(d)->hunks == 0)
        return bad_line(&began,
                        "no hunk (a line that begins with @@) follows the names of the file", err);
    return r;
}

static int parse_part(struct diff *d, struct cursor *c, struct error *err)
{
    struct slice s = cursor_line(c);
    if (slice_begins(s, "diff --git "))
        return parse_git(d, c, err);
    if (hunks_at_names(c))
        return parse_plain(d, c, err);
    if (slice_is(slice_trim(s), "*** Begin Patch"))
        return codex_parse(d, c, err);
    if (slice_is(s, "***************"))
        return bad_line(c, "this is a context diff; give a unified diff (diff -u)", err);
    if (slice_begins(s, "diff --cc ") || slice_begins(s, "diff --combined "))
        return bad_line(c, "this is the diff of a merge; give a diff of two versions", err);
    if (slice_begins(s, "@@"))
        return bad_line(c,
                        "a hunk without the name of its file: \"--- a/NAME\" and \"+++ b/NAME\" "
                        "must stand above it",
                        err);
    if (is_untold(s))
        return bad_line(c, "binary files that differ, but not how: make the diff with --binary",
                        err);
    cursor_next(c);
    return 0;
}

/* A copy that ends in a newline. */
static int keep_text(struct diff *d, const char *text, size_t size, bool strip_cr)
{
    d->text = malloc(size + 2);
    if (!d->text)
        return -ENOMEM;
    for (size_t i = 0; i < size; i++)
        if (!strip_cr || text[i] != '\r' || (i + 1 < size && text[i + 1] != '\n'))
            d->text[d->size++] = text[i];
    if (d->size && d->text[d->size - 1] != '\n')
        d->text[d->size++] = '\n';
    return 0;
}

int diff_parse(const void *text, size_t size, bool strip_cr, struct diff *ret, struct error *err)
{
    _cleanup_diff_ struct diff d = {0};
    if (size > DIFF_SIZE_MAX)
        return error_set(err, E2BIG, "the diff is larger than %u MiB: apply it in parts",
                         DIFF_SIZE_MAX >> 20);
    if (keep_text(&d, text, size, strip_cr) < 0)
        return error_errno(err, ENOMEM, "reading the diff");
    struct cursor c = {d.text, d.text + d.size, 1};
    while (!cursor_done(&c)) {
        int r = parse_part(&d, &c, err);
        if (r < 0)
            return r;
    }
    if (d.n_files == 0)
        return error_set(err, EINVAL,
                         "no diff found: expected a unified diff with \"--- a/NAME\", \"+++ "
                         "b/NAME\" and \"@@\" lines, "
                         "or a git diff");
    *ret = d;
    d = (struct diff){0};
    return 0;
}
