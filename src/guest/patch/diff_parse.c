/*
 * From text to a diff: finds the files in it and reads what stands above their hunks.
 *
 * Text that is no diff is skipped (a mail, a commit message, a Markdown fence). What looks like a
 * part of a diff but cannot be applied is an error: a hunk without names, a diff in another format.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "diff_text.h"
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
    s = slice_trim(s);
    if (slice_is(s, "100644") || slice_is(s, "100664") || slice_is(s, "100600"))
        *ret = 0100644;
    else if (slice_is(s, "100755") || slice_is(s, "100775") || slice_is(s, "100700"))
        *ret = 0100755;
    else if (slice_is(s, "120000"))
        *ret = 0120000;
    else if (slice_is(s, "160000"))
        return parse_error(c, "mode 160000 is a submodule, which cannot be applied to files", err);
    else
        return parse_error(c, "the mode must be 100644, 100755 or 120000", err);
    return 0;
}

static size_t hex_length(struct slice s)
{
    size_t n = 0;
    while (n < s.size && strchr("0123456789abcdef", s.at[n]) && s.at[n])
        n++;
    return n;
}

/* "0123abc..4567def 100644": the names of both contents, which only binary patches need. */
static void parse_index(struct slice s, struct diff_file *f)
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
    if (slice_is(slice_trim(slice_behind(rest, b)), "120000"))
        f->old_mode = f->new_mode = 0120000;
}

enum header {
    HEADER_OLD_MODE,
    HEADER_NEW_MODE,
    HEADER_NEW_FILE,
    HEADER_DELETED_FILE,
    HEADER_RENAME_FROM,
    HEADER_COPY_FROM,
    HEADER_TO,
    HEADER_INDEX,
    HEADER_SIMILARITY,
};

static const struct {
    const char *text;
    enum header header;
} HEADERS[] = {
    {"old mode ", HEADER_OLD_MODE},
    {"new mode ", HEADER_NEW_MODE},
    {"new file mode ", HEADER_NEW_FILE},
    {"deleted file mode ", HEADER_DELETED_FILE},
    {"rename from ", HEADER_RENAME_FROM},
    {"rename to ", HEADER_TO},
    {"copy from ", HEADER_COPY_FROM},
    {"copy to ", HEADER_TO},
    {"index ", HEADER_INDEX},
    {"similarity index ", HEADER_SIMILARITY},
    {"dissimilarity index ", HEADER_SIMILARITY},
};

/* Reads one line between `diff --git` and the content. 1, or 0 if it is no such line. */
static int parse_header(const struct cursor *c, struct diff_file *f, struct error *err)
{
    struct slice s = cursor_line(c);
    size_t i = 0;
    int r = 0;
    while (i < ARRAY_SIZE(HEADERS) && !slice_begins(s, HEADERS[i].text))
        i++;
    if (i == ARRAY_SIZE(HEADERS))
        return 0;
    s = slice_behind(s, strlen(HEADERS[i].text));
    switch (HEADERS[i].header) {
    case HEADER_NEW_FILE:
        f->kind = DIFF_ADD;
        r = parse_mode(c, s, &f->new_mode, err);
        break;
    case HEADER_NEW_MODE:
        r = parse_mode(c, s, &f->new_mode, err);
        break;
    case HEADER_DELETED_FILE:
        f->kind = DIFF_DELETE;
        r = parse_mode(c, s, &f->old_mode, err);
        break;
    case HEADER_OLD_MODE:
        r = parse_mode(c, s, &f->old_mode, err);
        break;
    case HEADER_RENAME_FROM:
    case HEADER_COPY_FROM:
        f->kind = HEADERS[i].header == HEADER_COPY_FROM ? DIFF_COPY : DIFF_RENAME;
        r = parse_name(c, s, &f->from, err);
        break;
    case HEADER_TO:
        r = parse_name(c, s, &f->to, err);
        break;
    case HEADER_INDEX:
        parse_index(s, f);
        break;
    case HEADER_SIMILARITY:
        break;
    }
    return r < 0 ? r : 1;
}

/* One of the --- and +++ lines; *ret_nothing if that side of the file does not exist. */
static int parse_side(struct cursor *c, char **ret, bool *ret_nothing, struct error *err)
{
    struct slice s = slice_behind(cursor_line(c), 4);
    *ret_nothing = name_is_nothing(s);
    int r = *ret_nothing && slice_begins(s, "/dev/null") ? 0 : parse_name(c, s, ret, err);
    if (r >= 0)
        cursor_next(c);
    return r;
}

static int parse_sides(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_file *f = diff_last_file(d);
    bool no_old, no_new;
    struct cursor began = *c;
    int r = parse_side(c, &f->old_name, &no_old, err);
    if (r >= 0)
        r = parse_side(c, &f->new_name, &no_new, err);
    if (r < 0)
        return r;
    if (no_old && no_new)
        return parse_error(&began, "both sides are /dev/null", err);
    if (f->kind == DIFF_MODIFY && (no_old || no_new))
        f->kind = no_old ? DIFF_ADD : DIFF_DELETE;
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
    s = slice_behind(s, strlen(literal ? "literal " : "delta "));
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
        struct slice name = slice_behind(sides[i], 4);
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
    int r = diff_add_file(d, err);
    if (r < 0)
        return r;
    struct diff_file *f = diff_last_file(d);
    f->git = true;
    f->line = c->line;
    f->git_names = slice_behind(cursor_line(c), strlen("diff --git "));
    for (r = 1; r > 0;) {
        cursor_next(c);
        r = cursor_done(c) ? 0 : parse_header(c, f, err);
    }
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
        r = parse_sides(d, c, err);
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
    int r = diff_add_file(d, err);
    if (r < 0)
        return r;
    diff_last_file(d)->line = c->line;
    r = parse_sides(d, c, err);
    while (r >= 0 && !cursor_done(c) && slice_trim(cursor_line(c)).size == 0)
        cursor_next(c);
    if (r >= 0)
        r = hunks_parse(d, c, err);
    if (r >= 0 && diff_last_file(d)->hunks == 0)
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
 * Its hunks have no numbers: they are found by their lines, behind the line that @@ names.
 */
static int parse_codex_added(struct diff *d, struct cursor *c, struct error *err)
{
    if (cursor_done(c) || *c->at != '+')
        return 0;
    int r = diff_add_hunk(d, err);
    if (r < 0)
        return r;
    diff_last_hunk(d)->numbered = true;
    diff_last_hunk(d)->new_line = 1;
    for (; r >= 0 && !cursor_done(c) && *c->at == '+'; cursor_next(c)) {
        struct slice s = slice_behind(cursor_whole(c), 1);
        r = diff_add_line(d, '+', s.at, s.size, err);
    }
    return r;
}

static int parse_codex_hunk(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_hunk h = {.first = d->n_lines, .header = {c->at, 0}, .anchor = {c->at, 0}};
    struct cursor began = *c;
    /* The last of several such lines is the nearest. */
    for (; slice_begins(cursor_line(c), "@@"); cursor_next(c)) {
        h.header = cursor_line(c);
        h.anchor = slice_trim(slice_behind(h.header, 2));
    }
    int r = diff_add_hunk(d, err);
    if (r < 0)
        return r;
    *diff_last_hunk(d) = h;
    r = hunk_parse_body(d, c, err);
    if (r < 0)
        return r;
    if (diff_last_hunk(d)->count == 0)
        return parse_error(&began, "expected lines with ' ', '+' or '-'", err);
    if (slice_is(cursor_line(c), "*** End of File")) {
        diff_last_hunk(d)->at_end = true;
        cursor_next(c);
    }
    while (!cursor_done(c) && slice_trim(cursor_line(c)).size == 0)
        cursor_next(c);
    return 0;
}

static int parse_codex_file(struct diff *d, struct cursor *c, enum diff_kind kind,
                            struct slice name, struct error *err)
{
    static const char MOVE[] = "*** Move to: ";
    int r = diff_add_file(d, err);
    if (r < 0)
        return r;
    struct diff_file *f = diff_last_file(d);
    f->codex = true;
    f->kind = kind;
    f->line = c->line;
    r = parse_name(c, slice_trim(name), &f->old_name, err);
    if (r < 0)
        return r;
    f->new_name = strdup(f->old_name);
    if (!f->new_name)
        return error_errno(err, ENOMEM, "reading the diff");
    cursor_next(c);
    if (kind == DIFF_ADD)
        return parse_codex_added(d, c, err);
    if (kind == DIFF_DELETE)
        return 0;
    if (slice_begins(cursor_line(c), MOVE)) {
        f->kind = DIFF_RENAME;
        f->from = strdup(f->old_name);
        if (!f->from)
            return error_errno(err, ENOMEM, "reading the diff");
        struct slice to = slice_behind(cursor_line(c), sizeof MOVE - 1);
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
            s = slice_behind(s, strlen(FILES[i].text));
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

/* One file or one line that is no part of a diff. */
static int parse_part(struct diff *d, struct cursor *c, struct error *err)
{
    struct slice s = cursor_line(c);
    if (slice_begins(s, "diff --git "))
        return parse_git_file(d, c, err);
    if (cursor_at_names(c))
        return parse_plain_file(d, c, err);
    if (slice_is(slice_trim(s), "*** Begin Patch"))
        return parse_codex(d, c, err);
    if (slice_is(s, "***************"))
        return parse_error(c, "this is a context diff; give a unified diff (diff -u)", err);
    if (slice_begins(s, "diff --cc ") || slice_begins(s, "diff --combined "))
        return parse_error(c, "this is the diff of a merge; give a diff of two versions", err);
    if (slice_begins(s, "@@"))
        return parse_error(c,
                           "a hunk without the name of its file: \"--- a/NAME\" and \"+++ b/NAME\" "
                           "must stand above it",
                           err);
    if (is_binary_notice(s))
        return parse_error(c, "binary files differ, but not how: make the diff with --binary", err);
    cursor_next(c);
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
    while (!cursor_done(&c)) {
        int r = parse_part(&d, &c, err);
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
