/*
 * Names of files as diffs write them, and which files of the tree they mean.
 *
 * Diffs write a/src/x.c, src/x.c, /workspace/src/x.c or old-1.0/src/x.c for the same file. Unless
 * the caller says how many components to strip, both names of the diff and the files in the tree
 * decide. The resulting path is relative, has no "." and "..", and goes through no .git.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "patch.h"
#include "relpath.h"
#include "banned.h"

/* The name between quotes at the start of *s, moving *s behind it. */
static int name_unquote(struct slice *s, char **ret)
{
    static const char NAMED[] = "a\ab\bt\tn\nv\vf\fr\r\"\"\\\\";
    _cleanup_buf_ struct buf b = BUF_INIT(RELPATH_MAX);
    size_t i = 1;
    for (; i < s->size && s->at[i] != '"'; i++) {
        int c = (unsigned char)s->at[i];
        if (c == '\\') { /* an escape of C: a letter, or three octal digits */
            const char *named = NAMED;
            i++;
            while (i < s->size && *named && *named != s->at[i])
                named += 2;
            c = i < s->size ? (unsigned char)*named : 0;
            if (c) {
                c = (unsigned char)named[1];
            } else {
                for (size_t end = i + 3; i < end; i++) {
                    if (i >= s->size || s->at[i] < '0' || s->at[i] > '7')
                        return -EINVAL;
                    c = c * 8 + (s->at[i] - '0');
                }
                i--;
            }
        }
        if (c == 0 || c > 255)
            return -EINVAL;
        buf_append(&b, &(char){(char)c}, 1);
    }
    if (i >= s->size || b.len == 0 || b.failed)
        return -EINVAL;
    *s = slice_skip(*s, i + 1);
    *ret = strndup((const char *)b.data, b.len);
    return *ret ? 0 : -ENOMEM;
}

static int name_copy(struct slice s, char **ret)
{
    if (s.size == 0 || s.size > RELPATH_MAX || memchr(s.at, 0, s.size))
        return -EINVAL;
    *ret = strndup(s.at, s.size);
    return *ret ? 0 : -ENOMEM;
}

/* "2024-05-01 10:2…" */
static bool is_date(struct slice s)
{
    static const char FORM[] = "dddd-dd-dd dd:dd";
    if (s.size < sizeof FORM - 1)
        return false;
    for (size_t i = 0; i < sizeof FORM - 1; i++)
        if (FORM[i] == 'd' ? !isdigit((unsigned char)s.at[i]) : s.at[i] != FORM[i])
            return false;
    return true;
}

/* Where an unquoted name ends: at a tab, or at the blanks in front of a date. */
static size_t name_length(struct slice s)
{
    const char *tab = memchr(s.at, '\t', s.size);
    if (tab)
        return (size_t)(tab - s.at);
    for (size_t i = 1; i < s.size; i++)
        if (s.at[i - 1] == ' ' && is_date(slice_skip(s, i))) {
            s.size = i - 1;
            break;
        }
    while (s.size && s.at[s.size - 1] == ' ')
        s.size--;
    return s.size;
}

int name_parse(struct slice s, char **ret)
{
    if (s.size && s.at[0] == '"')
        return name_unquote(&s, ret);
    s.size = name_length(s);
    return name_copy(s, ret);
}

bool name_is_nothing(struct slice s)
{
    size_t n = name_length(s);
    struct slice date = slice_trim(slice_skip(s, n));
    if (is_date(date) && (slice_begins(date, "1970-01-01 ") || slice_begins(date, "1969-12-31 ")))
        return true;
    s.size = n;
    return slice_is(s, "/dev/null");
}

/* Splits at the blank between two unquoted names that are the same, or the same behind their first
 * components. */
static int name_split_plain(struct slice s, struct slice *ret_a, struct slice *ret_b)
{
    size_t seen = 0;
    for (size_t i = 1; i + 1 < s.size && seen < 1000; i++) {
        if (s.at[i] != ' ')
            continue;
        seen++;
        struct slice a = {s.at, i}, b = slice_skip(s, i + 1);
        const char *x = memchr(a.at, '/', a.size), *y = memchr(b.at, '/', b.size);
        size_t x_size = x ? (size_t)(a.at + a.size - x) : 0,
               y_size = y ? (size_t)(b.at + b.size - y) : 0;
        if ((a.size == b.size && memcmp(a.at, b.at, a.size) == 0) ||
            (x && y && x_size == y_size && memcmp(x, y, x_size) == 0)) {
            *ret_a = a;
            *ret_b = b;
            return 0;
        }
    }
    return -ENOENT;
}

int name_split_git(struct slice s, char **ret_old, char **ret_new)
{
    _cleanup_free_ char *old = NULL;
    struct slice a = s, b = s;
    int r = 0;
    const char *quote = s.size > 1 ? memmem(s.at + 1, s.size - 1, " \"", 2) : NULL;
    if (s.size && s.at[0] == '"') {
        r = name_unquote(&b, &old);
        if (r >= 0 && (b.size < 2 || b.at[0] != ' '))
            r = -EINVAL;
        b = slice_skip(b, 1);
    } else {
        if (quote) {
            a.size = (size_t)(quote - s.at);
            b = slice_skip(s, a.size + 1);
        } else {
            r = name_split_plain(s, &a, &b);
        }
        if (r >= 0)
            r = name_copy(a, &old);
    }
    if (r >= 0)
        r = b.size && b.at[0] == '"' ? name_unquote(&b, ret_new) : name_copy(b, ret_new);
    if (r < 0)
        return r;
    *ret_old = TAKE_PTR(old);
    return 0;
}

void patch_paths_free(struct patch_paths *p)
{
    free(p->old);
    free(p->new);
    *p = (struct patch_paths){0};
}

/* The names of a file as the diff has them; borrowed, or held in `own`. */
struct diff_names {
    const char *old, *new;
    char *own[2];
    bool same; /* the first line of a git diff names both sides alike: there is no prefix */
};

static void diff_names_free(struct diff_names *n)
{
    free(n->own[0]);
    free(n->own[1]);
}

/* Without n components at its start; NULL if it has no more than that. */
static const char *strip_components(const char *name, int n)
{
    for (; n > 0; n--) {
        name = strchr(name, '/');
        if (!name)
            return NULL;
        name += strspn(name, "/");
    }
    return *name ? name : NULL;
}

/* A path of the tree from a name of the diff: without the root of an absolute path, "./" and
 * doubled slashes. */
static int path_make(const char *name, const struct patch_options *o, char **ret, struct error *err)
{
    size_t n = strlen(o->root);
    if (strncmp(name, o->root, n) == 0 && name[n] == '/')
        name += n + strspn(name + n, "/");
    _cleanup_free_ char *path = strdup(name);
    if (!path)
        return error_errno(err, ENOMEM, "reading the diff");
    char *to = path;
    for (const char *at = path; *at;) {
        if ((at == path || at[-1] == '/') && at[0] == '.' && at[1] == '/')
            at += 1 + strspn(at + 1, "/");
        else if (*at == '/' && at > path)
            *to++ = '/', at += strspn(at, "/");
        else
            *to++ = *at++;
    }
    *to = 0;
    if (path[0] == '/')
        return error_set(err, EINVAL, "is outside of %.100s; give paths relative to it", o->root);
    if (!relpath_is_valid(path, strlen(path)))
        return error_set(err, EINVAL,
                         "is not a path in the workspace: it is empty or contains \".\" or \"..\"");
    if (relpath_touches_git(path))
        return error_set(err, EPERM, "is in a .git folder, which no diff may change");
    *ret = TAKE_PTR(path);
    return 0;
}

/* git's prefixes: a/, b/, and those of diff.mnemonicPrefix. */
static bool has_letter_prefix(const char *s)
{
    return s && s[0] && strchr("abciow", s[0]) && s[1] == '/' && s[2];
}

/* The path that a name means: of the two ways to read it, the more likely one, unless only the
 * other one exists in the tree. */
static int resolve_name(const char *name, const struct diff_names *n, const struct patch_options *o,
                        struct worktree *w, char **ret, struct error *err)
{
    _cleanup_free_ char *whole = NULL, *cut = NULL;
    /* Do the names have a first component that is not part of the path? Certainly if they differ in
     * it alone, or both have one of git's; perhaps if they are the same and have one. */
    bool certain = false, possible = false;
    if (!n->same && n->old && n->new &&strcmp(n->old, n->new) == 0) {
        possible = has_letter_prefix(n->old);
    } else if (!n->same && n->old && n->new) {
        const char *x = strip_components(n->old, 1), *y = strip_components(n->new, 1);
        certain = (x && y && strcmp(x, y) == 0) ||
                  (has_letter_prefix(n->old) && has_letter_prefix(n->new));
    } else if (!n->same) {
        certain = has_letter_prefix(n->old ? n->old : n->new);
    }
    int strip = o->strip >= 0 ? o->strip : certain || possible;
    const char *stripped = strip_components(name, strip);
    if (o->strip >= 0) {
        if (!stripped)
            return error_set(err, EINVAL, "has no %d components to strip", o->strip);
        return path_make(stripped, o, ret, err);
    }
    struct error dropped;
    int r = path_make(name, o, &whole, err);
    int s = strip && stripped ? path_make(stripped, o, &cut, r < 0 ? &dropped : err) : -ENOENT;
    if (r < 0 && s < 0)
        return r;
    bool use_cut = certain ? cut != NULL : whole == NULL;
    const char *one = use_cut ? cut : whole, *other = use_cut ? whole : cut;
    if (other && !worktree_exists(w, one) && worktree_exists(w, other))
        use_cut = !use_cut;
    *ret = use_cut ? TAKE_PTR(cut) : TAKE_PTR(whole);
    return 0;
}

static int resolve_paths(const struct diff_file *f, const struct patch_options *o,
                         struct worktree *w, struct patch_paths *p, struct error *err)
{
    if (f->codex) {
        int r = path_make(f->old_name, o, &p->old, err);
        return r >= 0 && f->to ? path_make(f->to, o, &p->new, err) : r;
    }
    if (f->from && f->to) {
        /* Names of renames and copies have no prefix, so git strips one component less. */
        int strip = o->strip > 1 ? o->strip - 1 : 0;
        const char *from = strip_components(f->from, strip), *to = strip_components(f->to, strip);
        if (!from || !to)
            return error_set(err, EINVAL, "has no %d components to strip", strip);
        int r = path_make(from, o, &p->old, err);
        return r < 0 ? r : path_make(to, o, &p->new, err);
    }
    _cleanup_(diff_names_free) struct diff_names n = {.old = f->old_name, .new = f->new_name};
    if (f->git && name_split_git(f->git_names, &n.own[0], &n.own[1]) >= 0) {
        n.same = strcmp(n.own[0], n.own[1]) == 0;
        n.old = n.old ? n.old : n.own[0];
        n.new = n.new ? n.new : n.own[1];
    }
    if (!n.old && !n.new)
        return error_set(err, EINVAL, "cannot tell which file line %zu of the diff is about",
                         f->line);
    if (f->kind == DIFF_ADD)
        return resolve_name(n.new ? n.new : n.old, &n, o, w, &p->new, err);
    if (f->kind == DIFF_DELETE)
        return resolve_name(n.old ? n.old : n.new, &n, o, w, &p->old, err);
    int r = n.old ? resolve_name(n.old, &n, o, w, &p->old, err) : 0;
    if (r >= 0 && n.new)
        r = resolve_name(n.new, &n, o, w, &p->new, err);
    if (r < 0 || !p->old || !p->new || strcmp(p->old, p->new) == 0)
        return r;
    /* A file that is changed in place has one path, although the diff may give it two names. */
    bool new_exists = worktree_exists(w, p->new), old_exists = worktree_exists(w, p->old);
    if (f->git && old_exists && !new_exists)
        return 0;
    char **dropped = new_exists || !old_exists ? &p->old : &p->new;
    free(*dropped);
    *dropped = NULL;
    return 0;
}

int patch_paths_find(const struct diff_file *f, const struct patch_options *o, struct worktree *w,
                     struct patch_paths *ret, struct error *err)
{
    _cleanup_(patch_paths_free) struct patch_paths p = {0};
    int r = resolve_paths(f, o, w, &p, err);
    if (r < 0)
        return r;
    if (!p.old && p.new)
        p.old = strdup(p.new);
    else if (p.old && !p.new)
        p.new = strdup(p.old);
    if (!p.old || !p.new)
        return error_errno(err, ENOMEM, "reading the diff");
    *ret = p;
    p = (struct patch_paths){0};
    return 0;
}
