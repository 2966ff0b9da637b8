#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "name.h"
#include "paths.h"
#include "relpath.h"
#include "banned.h"

void paths_free(struct paths *p)
{
    free(p->old);
    free(p->new);
    *p = (struct paths){0};
}

/* The names of a file as the diff has them; borrowed, or held in `own`. */
struct names {
    const char *old, *new;
    char *own[2];
    bool same; /* the first line of a git diff names both sides alike: there is no prefix */
};

static void names_free(struct names *n)
{
    free(n->own[0]);
    free(n->own[1]);
}

static const char *skip_slashes(const char *s)
{
    return s + strspn(s, "/");
}

/* Without n components at its start; NULL if it has no more than that. */
static const char *strip(const char *name, int n)
{
    for (; n > 0; n--) {
        const char *slash = strchr(name, '/');
        if (!slash)
            return NULL;
        name = skip_slashes(slash);
    }
    return *name ? name : NULL;
}

/* Takes the root off an absolute path, and "./" and doubled slashes out of any. NULL without
 * memory. */
static char *simplify(const char *name, const char *root)
{
    size_t n = strlen(root);
    if (strncmp(name, root, n) == 0 && name[n] == '/')
        name = skip_slashes(name + n);
    char *path = strdup(name), *to = path;
    if (!path)
        return NULL;
    for (const char *at = path; *at;) {
        if ((at == path || at[-1] == '/') && at[0] == '.' && at[1] == '/')
            at = skip_slashes(at + 1);
        else if (*at == '/' && at > path)
            *to++ = '/', at = skip_slashes(at);
        else
            *to++ = *at++;
    }
    *to = 0;
    return path;
}

/* A path of the tree out of a name of the diff. */
static int make_path(const char *name, const struct paths_options *o, char **ret, struct error *err)
{
    _cleanup_free_ char *path = simplify(name, o->root);
    if (!path)
        return error_errno(err, ENOMEM, "reading the diff");
    if (path[0] == '/')
        return error_set(err, EINVAL, "is outside of %.100s; give paths relative to it", o->root);
    if (!relpath_is_valid(path, strlen(path)))
        return error_set(
            err, EINVAL,
            "is no path beneath the workspace: it is empty, or \".\" or \"..\" is in it");
    if (relpath_touches_git(path))
        return error_set(err, EPERM, "lies in a .git folder, which no diff may change");
    *ret = TAKE_PTR(path);
    return 0;
}

static bool has_letter(const char *s)
{
    return s && s[0] && strchr("abciow", s[0]) && s[1] == '/' && s[2];
}

/* The same behind their first components. */
static bool same_tail(const char *a, const char *b)
{
    const char *x = strip(a, 1), *y = strip(b, 1);
    return x && y && strcmp(x, y) == 0;
}

enum prefix { PREFIX_NONE, PREFIX_THERE, PREFIX_PERHAPS };

static enum prefix find_prefix(const struct names *n)
{
    if (n->same)
        return PREFIX_NONE;
    if (!n->old || !n->new)
        return has_letter(n->old ? n->old : n->new) ? PREFIX_THERE : PREFIX_NONE;
    if (strcmp(n->old, n->new) == 0)
        return has_letter(n->old) ? PREFIX_PERHAPS : PREFIX_NONE;
    return same_tail(n->old, n->new) || (has_letter(n->old) && has_letter(n->new)) ? PREFIX_THERE
                                                                                   : PREFIX_NONE;
}

/* One name: of the ways to read it, the first that is in the tree, else the first. */
static int pick(const char *name, enum prefix prefix, const struct paths_options *o,
                struct world *w, char **ret, struct error *err)
{
    _cleanup_free_ char *whole = NULL, *cut = NULL;
    const char *stripped = prefix == PREFIX_NONE ? NULL : strip(name, 1);
    struct error dropped;
    int r = make_path(name, o, &whole, err);
    int s = stripped ? make_path(stripped, o, &cut, r < 0 ? &dropped : err) : -ENOENT;
    if (r < 0 && s < 0)
        return r;
    bool first = prefix == PREFIX_THERE ? cut != NULL : whole == NULL;
    const char *one = first ? cut : whole, *other = first ? whole : cut;
    bool swap = other && !world_exists(w, one) && world_exists(w, other);
    *ret = first != swap ? TAKE_PTR(cut) : TAKE_PTR(whole);
    return 0;
}

static int pick_name(const char *name, const struct names *n, const struct paths_options *o,
                     struct world *w, char **ret, struct error *err)
{
    if (o->strip < 0)
        return pick(name, find_prefix(n), o, w, ret, err);
    const char *stripped = strip(name, o->strip);
    if (!stripped)
        return error_set(err, EINVAL, "has no %d components to strip", o->strip);
    return make_path(stripped, o, ret, err);
}

/* Names of renames and copies have no prefix, so git strips one component less from them. */
static int find_moved(const struct diff_file *f, const struct paths_options *o, struct paths *p,
                      struct error *err)
{
    int n = o->strip > 1 ? o->strip - 1 : 0;
    const char *from = strip(f->from, n), *to = strip(f->to, n);
    if (!from || !to)
        return error_set(err, EINVAL, "has no %d components to strip", n);
    int r = make_path(from, o, &p->old, err);
    return r < 0 ? r : make_path(to, o, &p->new, err);
}

static int find_names(const struct diff_file *f, struct names *n, struct error *err)
{
    *n = (struct names){.old = f->old_name, .new = f->new_name};
    int r = f->git ? name_split_git(f->git_names, &n->own[0], &n->own[1]) : -ENOENT;
    if (r >= 0)
        n->same = strcmp(n->own[0], n->own[1]) == 0;
    if (r >= 0 && !n->old)
        n->old = n->own[0];
    if (r >= 0 && !n->new)
        n->new = n->own[1];
    if (!n->old && !n->new)
        return error_set(err, EINVAL, "cannot tell which file line %zu of the diff is about",
                         f->line);
    return 0;
}

/* Both names, where they need not be the same: a file is changed in place, whichever of them it
 * has. */
static int find_one(const struct diff_file *f, const struct names *n, const struct paths_options *o,
                    struct world *w, struct paths *p, struct error *err)
{
    int r = n->old ? pick_name(n->old, n, o, w, &p->old, err) : 0;
    if (r >= 0 && n->new)
        r = pick_name(n->new, n, o, w, &p->new, err);
    if (r < 0 || !p->old || !p->new || strcmp(p->old, p->new) == 0)
        return r;
    bool new_there = world_exists(w, p->new), old_there = world_exists(w, p->old);
    if (f->git && old_there && !new_there)
        return 0;
    char **kept = new_there || !old_there ? &p->new : &p->old,
         **other = kept == &p->new ? &p->old : &p->new;
    free(*other);
    *other = NULL;
    return 0;
}

static int find_paths(const struct diff_file *f, const struct names *n,
                      const struct paths_options *o, struct world *w, struct paths *p,
                      struct error *err)
{
    if (f->plain) {
        int r = make_path(f->old_name, o, &p->old, err);
        return r < 0 || !f->to ? r : make_path(f->to, o, &p->new, err);
    }
    if (f->from && f->to)
        return find_moved(f, o, p, err);
    if (f->kind == DIFF_ADD)
        return pick_name(n->new ? n->new : n->old, n, o, w, &p->new, err);
    if (f->kind == DIFF_DELETE)
        return pick_name(n->old ? n->old : n->new, n, o, w, &p->old, err);
    return find_one(f, n, o, w, p, err);
}

/* Both names for what keeps its own, one for the rest. */
static int complete(struct paths *p)
{
    if (!p->old && p->new)
        p->old = strdup(p->new);
    else if (p->old && !p->new)
        p->new = strdup(p->old);
    return p->old && p->new ? 0 : -ENOMEM;
}

const char *paths_shown(const struct diff_file *f)
{
    const char *const names[] = {f->to, f->new_name, f->old_name};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (names[i])
            return names[i];
    return "";
}

int paths_find(const struct diff_file *f, const struct paths_options *o, struct world *w,
               struct paths *ret, struct error *err)
{
    _cleanup_(paths_free) struct paths p = {0};
    _cleanup_(names_free) struct names n = {0};
    int r = f->plain || (f->from && f->to) ? 0 : find_names(f, &n, err);
    if (r >= 0)
        r = find_paths(f, &n, o, w, &p, err);
    if (r >= 0 && complete(&p) < 0)
        r = error_errno(err, ENOMEM, "reading the diff");
    if (r < 0)
        return r;
    *ret = p;
    p = (struct paths){0};
    return 0;
}
