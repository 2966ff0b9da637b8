/*
 * Which files of the tree a diff means.
 *
 * Diffs write a/src/x.c, src/x.c, /workspace/src/x.c or old-1.0/src/x.c for the same file. Unless
 * the caller says how many components to strip, both names of the diff and the files in the tree
 * decide. The resulting path is relative, has no "." and "..", and goes through no .git.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "diff_text.h"
#include "plan.h"
#include "relpath.h"
#include "banned.h"

void plan_paths_free(struct plan_paths *p)
{
    free(p->old);
    free(p->new);
    *p = (struct plan_paths){0};
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

static const char *skip_slashes(const char *s)
{
    return s + strspn(s, "/");
}

/* Without n components at its start; NULL if it has no more than that. */
static const char *strip_components(const char *name, int n)
{
    for (; n > 0; n--) {
        const char *slash = strchr(name, '/');
        if (!slash)
            return NULL;
        name = skip_slashes(slash);
    }
    return *name ? name : NULL;
}

/* A path of the tree out of a name of the diff: without the root of an absolute path, "./" and
 * doubled slashes. */
static int make_path(const char *name, const struct plan_options *o, char **ret, struct error *err)
{
    size_t n = strlen(o->root);
    if (strncmp(name, o->root, n) == 0 && name[n] == '/')
        name = skip_slashes(name + n);
    _cleanup_free_ char *path = strdup(name);
    if (!path)
        return error_errno(err, ENOMEM, "reading the diff");
    char *to = path;
    for (const char *at = path; *at;) {
        if ((at == path || at[-1] == '/') && at[0] == '.' && at[1] == '/')
            at = skip_slashes(at + 1);
        else if (*at == '/' && at > path)
            *to++ = '/', at = skip_slashes(at);
        else
            *to++ = *at++;
    }
    *to = 0;
    if (path[0] == '/')
        return error_set(err, EINVAL, "is outside of %.100s; give paths relative to it", o->root);
    if (!relpath_is_valid(path, strlen(path)))
        return error_set(err, EINVAL,
                         "is no path in the workspace: it is empty or contains \".\" or \"..\"");
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

enum prefix { PREFIX_NONE, PREFIX_CERTAIN, PREFIX_POSSIBLE };

/* Do the names have a first component that is not part of the path? */
static enum prefix find_prefix(const struct diff_names *n)
{
    if (n->same)
        return PREFIX_NONE;
    if (!n->old || !n->new)
        return has_letter_prefix(n->old ? n->old : n->new) ? PREFIX_CERTAIN : PREFIX_NONE;
    if (strcmp(n->old, n->new) == 0)
        return has_letter_prefix(n->old) ? PREFIX_POSSIBLE : PREFIX_NONE;
    const char *x = strip_components(n->old, 1), *y = strip_components(n->new, 1);
    bool same_behind = x && y && strcmp(x, y) == 0;
    return same_behind || (has_letter_prefix(n->old) && has_letter_prefix(n->new)) ? PREFIX_CERTAIN
                                                                                   : PREFIX_NONE;
}

/* The path that a name means: of the two ways to read it, the more likely one, unless only the
 * other one exists in the tree. */
static int resolve_name(const char *name, const struct diff_names *n, const struct plan_options *o,
                        struct worktree *w, char **ret, struct error *err)
{
    _cleanup_free_ char *whole = NULL, *cut = NULL;
    if (o->strip >= 0) {
        const char *stripped = strip_components(name, o->strip);
        if (!stripped)
            return error_set(err, EINVAL, "has no %d components to strip", o->strip);
        return make_path(stripped, o, ret, err);
    }
    enum prefix prefix = find_prefix(n);
    const char *stripped = prefix == PREFIX_NONE ? NULL : strip_components(name, 1);
    struct error dropped;
    int r = make_path(name, o, &whole, err);
    int s = stripped ? make_path(stripped, o, &cut, r < 0 ? &dropped : err) : -ENOENT;
    if (r < 0 && s < 0)
        return r;
    bool use_cut = prefix == PREFIX_CERTAIN ? cut != NULL : whole == NULL;
    const char *one = use_cut ? cut : whole, *other = use_cut ? whole : cut;
    if (other && !worktree_exists(w, one) && worktree_exists(w, other))
        use_cut = !use_cut;
    *ret = use_cut ? TAKE_PTR(cut) : TAKE_PTR(whole);
    return 0;
}

/* Names of renames and copies have no prefix, so git strips one component less from them. */
static int resolve_moved(const struct diff_file *f, const struct plan_options *o,
                         struct plan_paths *p, struct error *err)
{
    int n = o->strip > 1 ? o->strip - 1 : 0;
    const char *from = strip_components(f->from, n), *to = strip_components(f->to, n);
    if (!from || !to)
        return error_set(err, EINVAL, "has no %d components to strip", n);
    int r = make_path(from, o, &p->old, err);
    return r < 0 ? r : make_path(to, o, &p->new, err);
}

/* A file that is changed in place has one path, although the diff may give it two names. */
static int resolve_changed(const struct diff_file *f, const struct diff_names *n,
                           const struct plan_options *o, struct worktree *w, struct plan_paths *p,
                           struct error *err)
{
    int r = n->old ? resolve_name(n->old, n, o, w, &p->old, err) : 0;
    if (r >= 0 && n->new)
        r = resolve_name(n->new, n, o, w, &p->new, err);
    if (r < 0 || !p->old || !p->new || strcmp(p->old, p->new) == 0)
        return r;
    bool new_exists = worktree_exists(w, p->new), old_exists = worktree_exists(w, p->old);
    if (f->git && old_exists && !new_exists)
        return 0;
    char **dropped = new_exists || !old_exists ? &p->old : &p->new;
    free(*dropped);
    *dropped = NULL;
    return 0;
}

static int find_names(const struct diff_file *f, struct diff_names *n, struct error *err)
{
    *n = (struct diff_names){.old = f->old_name, .new = f->new_name};
    if (f->git && name_split_git(f->git_names, &n->own[0], &n->own[1]) >= 0) {
        n->same = strcmp(n->own[0], n->own[1]) == 0;
        n->old = n->old ? n->old : n->own[0];
        n->new = n->new ? n->new : n->own[1];
    }
    if (!n->old && !n->new)
        return error_set(err, EINVAL, "cannot tell which file line %zu of the diff is about",
                         f->line);
    return 0;
}

int plan_paths_find(const struct diff_file *f, const struct plan_options *o, struct worktree *w,
                    struct plan_paths *ret, struct error *err)
{
    _cleanup_(plan_paths_free) struct plan_paths p = {0};
    _cleanup_(diff_names_free) struct diff_names n = {0};
    bool moved = f->from && f->to;
    int r = f->codex || moved ? 0 : find_names(f, &n, err);
    if (r < 0)
        return r;
    if (f->codex) {
        r = make_path(f->old_name, o, &p.old, err);
        if (r >= 0 && f->to)
            r = make_path(f->to, o, &p.new, err);
    } else if (moved) {
        r = resolve_moved(f, o, &p, err);
    } else if (f->kind == DIFF_ADD) {
        r = resolve_name(n.new ? n.new : n.old, &n, o, w, &p.new, err);
    } else if (f->kind == DIFF_DELETE) {
        r = resolve_name(n.old ? n.old : n.new, &n, o, w, &p.old, err);
    } else {
        r = resolve_changed(f, &n, o, w, &p, err);
    }
    if (r < 0)
        return r;
    if (!p.old && p.new)
        p.old = strdup(p.new);
    else if (p.old && !p.new)
        p.new = strdup(p.old);
    if (!p.old || !p.new)
        return error_errno(err, ENOMEM, "reading the diff");
    *ret = p;
    p = (struct plan_paths){0};
    return 0;
}
