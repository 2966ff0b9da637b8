/*
 * From text to a diff: finds the files in it and reads the headers above their hunks.
 *
 * The parser skips text that is no diff (a mail, a commit message, a Markdown fence). What looks
 * like a part of a diff but cannot be applied is an error: a hunk without names, another format.
 */
#include <errno.h>
#include <stdlib.h>

#include "diff.h"
#include "banned.h"

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

/* Are the names of the --- and +++ lines at the cursor among those of the file's first line? */
static bool sides_name_file(const struct cursor *c, const struct diff_file *f)
{
    const struct slice sides[] = {cursor_line(c), cursor_line_after(c)};
    for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
        struct slice name = slice_skip(sides[i], 4);
        const char *tab = memchr(name.at, '\t', name.size);
        name.size = tab ? (size_t)(tab - name.at) : name.size;
        if (name.size && memmem(f->git_names.at, f->git_names.size, name.at, name.size))
            return true;
    }
    return false;
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
        bool complete = f->kind != DIFF_MODIFY || f->old_mode != f->new_mode;
        if (complete && !sides_name_file(c, f))
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
static int parse_codex_hunk(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_hunk h = {.header = {c->at, 0}, .anchor = {c->at, 0}};
    struct cursor began = *c;
    /* The last of several such lines is the nearest. */
    for (; slice_begins(cursor_line(c), "@@"); cursor_next(c)) {
        h.header = cursor_line(c);
        h.anchor = slice_trim(slice_skip(h.header, 2));
    }
    int r = diff_add_hunk(d, &h, err);
    if (r >= 0)
        r = hunk_parse_body(d, c, err);
    if (r < 0)
        return r;
    if (diff_last_hunk(d)->count == 0)
        return parse_error(&began, "expected lines with ' ', '+' or '-'", err);
    if (slice_is(cursor_line(c), "*** End of File")) {
        diff_last_hunk(d)->at_end = true;
        cursor_next(c);
    }
    cursor_skip_blank(c);
    return 0;
}

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
    while (r >= 0 && !cursor_done(c) && !slice_begins(cursor_line(c), "*** "))
        r = parse_codex_hunk(d, c, err);
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
