#include <errno.h>
#include <string.h>

#include "codex.h"
#include "hunks.h"
#include "name.h"
#include "banned.h"

static int bad_line(const struct cursor *c, const char *why, struct error *err)
{
    return error_set(err, EINVAL, "line %zu of the diff: %s", c->line, why);
}

static int take_path(const struct cursor *c, const char *before, char **ret, struct error *err)
{
    int r = name_parse(slice_trim(slice_behind(cursor_line(c), strlen(before))), ret);
    return r < 0 ? bad_line(c, "no file name", err) : 0;
}

static int take_added(struct diff *d, struct cursor *c, struct error *err)
{
    diff_last_file(d)->kind = DIFF_ADD;
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

static bool ends_file(const struct cursor *c)
{
    return cursor_done(c) || slice_begins(cursor_line(c), "*** ");
}

static int take_hunk(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_hunk h = {.first = d->n_lines, .header = {c->at, 0}, .anchor = {c->at, 0}};
    size_t began = c->line;
    /* The last of several such lines is the nearest. */
    for (; slice_begins(cursor_line(c), "@@"); cursor_next(c)) {
        h.header = cursor_line(c);
        h.anchor = slice_trim(slice_behind(h.header, 2));
    }
    int r = diff_add_hunk(d, err);
    if (r < 0)
        return r;
    *diff_last_hunk(d) = h;
    r = hunks_parse_body(d, c, err);
    if (r < 0)
        return r;
    if (diff_last_hunk(d)->count == 0)
        return error_set(err, EINVAL, "line %zu of the diff: expected lines with ' ', '+' or '-'",
                         began);
    if (slice_is(cursor_line(c), "*** End of File")) {
        diff_last_hunk(d)->at_end = true;
        cursor_next(c);
    }
    while (!cursor_done(c) && slice_trim(cursor_line(c)).size == 0)
        cursor_next(c);
    return 0;
}

static int take_updated(struct diff *d, struct cursor *c, struct error *err)
{
    int r = 0;
    if (slice_begins(cursor_line(c), "*** Move to: ")) {
        struct diff_file *f = diff_last_file(d);
        f->kind = DIFF_RENAME;
        f->from = strdup(f->old_name);
        r = f->from ? take_path(c, "*** Move to: ", &f->to, err) : -ENOMEM;
        cursor_next(c);
    }
    while (r >= 0 && !ends_file(c))
        r = take_hunk(d, c, err);
    return r;
}

static int take_file(struct diff *d, struct cursor *c, const char *before,
                     int (*take)(struct diff *, struct cursor *, struct error *), struct error *err)
{
    int r = diff_add_file(d, err);
    if (r < 0)
        return r;
    struct diff_file *f = diff_last_file(d);
    f->plain = true;
    f->line = c->line;
    r = take_path(c, before, &f->old_name, err);
    if (r < 0)
        return r;
    f->new_name = strdup(f->old_name);
    if (!f->new_name)
        return error_errno(err, ENOMEM, "reading the diff");
    cursor_next(c);
    return take(d, c, err);
}

static int take_deleted(struct diff *d, struct cursor *c, struct error *err)
{
    diff_last_file(d)->kind = DIFF_DELETE;
    return 0;
}

static const struct {
    const char *text;
    int (*take)(struct diff *, struct cursor *, struct error *);
} FORMS[] = {
    {"*** Add File: ", take_added},
    {"*** Update File: ", take_updated},
    {"*** Delete File: ", take_deleted},
};

static int take_part(struct diff *d, struct cursor *c, struct error *err)
{
    struct slice s = cursor_line(c);
    for (size_t i = 0; i < ARRAY_SIZE(FORMS); i++)
        if (slice_begins(s, FORMS[i].text))
            return take_file(d, c, FORMS[i].text, FORMS[i].take, err);
    if (slice_trim(s).size > 0)
        return bad_line(c,
                        "expected *** Add File: NAME, *** Update File: NAME, *** Delete File: NAME "
                        "or *** End Patch",
                        err);
    cursor_next(c);
    return 0;
}

int codex_parse(struct diff *d, struct cursor *c, struct error *err)
{
    cursor_next(c);
    while (!cursor_done(c) && !slice_is(slice_trim(cursor_line(c)), "*** End Patch")) {
        int r = take_part(d, c, err);
        if (r < 0)
            return r;
    }
    if (!cursor_done(c))
        cursor_next(c);
    return 0;
}
