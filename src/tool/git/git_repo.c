#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_repo.h"
#include "text.h"
#include "banned.h"

/* --- repositories --- */

void git_repo_free(struct git_repo *r)
{
    char *const strings[] = {r->work_tree, r->git_dir, r->common_dir,
                             r->objects,   r->index,   r->shallow};
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        free(strings[i]);
    *r = (struct git_repo){0};
}

int git_repo_open(const char *work_tree, struct git_repo *ret, struct error *err)
{
    static const char *const args[] = {"rev-parse",
                                       "--path-format=absolute",
                                       "--git-dir",
                                       "--git-common-dir",
                                       "--git-path",
                                       "objects",
                                       "--git-path",
                                       "index",
                                       "--git-path",
                                       "shallow",
                                       "--show-object-format",
                                       "--is-shallow-repository",
                                       NULL};
    _cleanup_git_repo_ struct git_repo r = {.work_tree = strdup(work_tree)};
    struct stat st;
    _cleanup_free_ char *dot_git = str_printf("%s/.git", work_tree);
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    if (!dot_git || !r.work_tree)
        return error_set(err, ENOMEM, "no memory");
    /* A .git that is a link into somewhere else is nobody's ordinary repository. */
    if (lstat(dot_git, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
        return -ENOENT;
    int s = git_run(&(struct git_call){.git_dir = dot_git, .work_tree = work_tree, .args = args},
                    &out, err);
    if (s != 0)
        return s < 0 ? s : error_wrap(err, "cannot read the repository %.300s", work_tree);

    /* One line each, in the order of the arguments. A path with a newline gives too many. */
    char **const paths[] = {&r.git_dir, &r.common_dir, &r.objects, &r.index, &r.shallow};
    char *text = buf_cstr(&out), *lines[8] = {0};
    size_t n = 0;
    for (char *line; (line = strsep(&text, "\n")) && *line; n++)
        if (n < ARRAY_SIZE(lines))
            lines[n] = line;
    bool good = n == 7 && strlen(lines[5]) < sizeof r.format;
    for (size_t i = 0; good && i < ARRAY_SIZE(paths); i++)
        good = lines[i][0] == '/' && (*paths[i] = strdup(lines[i]));
    if (!good)
        return error_set(err, EINVAL,
                         "cannot read the repository %.300s: its path has a line break", work_tree);
    snprintf(r.format, sizeof r.format, "%s", lines[5]);
    r.is_shallow = strcmp(lines[6], "true") == 0;
    *ret = r;
    memset(&r, 0, sizeof r);
    return 0;
}

/* Bytes of the nearest folder at or above this one that holds a .git; 0: there is none. */
static size_t repo_top_length(const char *folder, const char *not_above)
{
    for (size_t n = strlen(folder); n > 0;) {
        char path[PATH_MAX];
        if (not_above && strlen(not_above) == n && strncmp(not_above, folder, n) == 0)
            return 0;
        if (snprintf(path, sizeof path, "%.*s/.git", (int)n, folder) < (int)sizeof path &&
            access(path, F_OK) == 0)
            return n;
        while (n > 0 && folder[n - 1] != '/')
            n--;
        n -= n > 0;
    }
    return 0;
}

bool git_repo_is_above(const char *folder)
{
    return repo_top_length(folder, NULL) > 0;
}

char *git_repo_top(const char *folder)
{
    const char *home = getenv("HOME");
    _cleanup_free_ char *real_home = home && *home ? realpath(home, NULL) : NULL;
    size_t n = repo_top_length(folder, real_home);
    return n ? strndup(folder, n) : NULL;
}

int git_repo_init(const char *work_tree, struct error *err)
{
    const char *const args[] = {"init", "-q", "--template=", work_tree, NULL};
    return git_check(&(struct git_call){.args = args, .owner_of = work_tree}, NULL, err);
}

int git_make_temporary(const char *name, char **ret, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    _cleanup_free_ char *path =
        str_printf("%.400s/%s-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp", name);
    if (!path)
        return error_set(err, ENOMEM, "no memory");
    if (!mkdtemp(path))
        return error_errno(err, errno, "cannot make a temporary folder %s", path);
    *ret = TAKE_PTR(path);
    return 0;
}

static int tree_remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

void git_remove_tree(const char *path)
{
    nftw(path, tree_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- refs --- */

void git_refs_free(struct git_refs *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->items[i].name);
    free(r->items);
    *r = (struct git_refs){0};
}

int git_refs_add(struct git_refs *r, const char *name, const char *id)
{
    if (r->count == GIT_REFS_MAX)
        return -E2BIG;
    if (r->count == r->room) {
        size_t room = r->room ? r->room * 2 : 32;
        struct git_ref *items = realloc(r->items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        r->items = items;
        r->room = room;
    }
    struct git_ref *one = &r->items[r->count];
    one->name = strdup(name);
    snprintf(one->id, sizeof one->id, "%s", id);
    r->count += one->name != NULL;
    return one->name ? 0 : -ENOMEM;
}

const struct git_ref *git_refs_find(const struct git_refs *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->items[i].name, name) == 0)
            return &r->items[i];
    return NULL;
}

bool git_refs_have_id(const struct git_refs *r, const char *id)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->items[i].id, id) == 0)
            return true;
    return false;
}

int git_refs_read(const char *git_dir, const char *prefix, struct git_refs *ret, struct error *err)
{
    const char *const args[] = {"for-each-ref", "--format=%(objectname) %(refname)", prefix, NULL};
    struct git_refs refs = {0};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    int r = git_run(&(struct git_call){.git_dir = git_dir, .args = args}, &out, err);
    if (r != 0)
        return r < 0 ? r : error_wrap(err, "cannot list the branches");
    char *text = buf_cstr(&out);
    for (char *line; r == 0 && text && (line = strsep(&text, "\n"));) {
        char *space = strchr(line, ' ');
        if (!space)
            continue;
        *space = 0;
        r = git_id_is_valid(line) ? git_refs_add(&refs, space + 1, line) : -EINVAL;
    }
    if (r < 0) {
        git_refs_free(&refs);
        return error_errno(err, -r, "cannot list the branches");
    }
    *ret = refs;
    return 0;
}

/* --- names --- */

bool git_id_is_valid(const char *id)
{
    size_t n = strspn(id, "0123456789abcdef");
    return (n == 40 || n == 64) && !id[n];
}

static bool ref_component_is_safe(const char *at, size_t n)
{
    if (n == 0 || at[0] == '.' || at[0] == '-' || at[n - 1] == '.' || (n == 1 && at[0] == '@') ||
        (n == 4 && memcmp(at, "HEAD", 4) == 0) || (n >= 5 && memcmp(at + n - 5, ".lock", 5) == 0))
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)at[i];
        if (c <= ' ' || c == 0x7f || strchr("~^:?*[\\\"'`$;|&<>(){}!", c) ||
            (i + 1 < n && c == '.' && at[i + 1] == '.'))
            return false;
    }
    return true;
}

bool git_ref_name_is_safe(const char *name)
{
    static const char *const KINDS[] = {"refs/heads/", "refs/tags/", "refs/notes/"};
    const char *rest = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++)
        if (strncmp(name, KINDS[i], strlen(KINDS[i])) == 0)
            rest = name + strlen(KINDS[i]);
    if (!rest || strlen(name) > GIT_REF_BYTES || !utf8_valid((const uint8_t *)name, strlen(name)))
        return false;
    for (;;) {
        size_t n = strcspn(rest, "/");
        if (!ref_component_is_safe(rest, n))
            return false;
        if (!rest[n])
            return true;
        rest += n + 1;
    }
}

static bool path_begins(const char *path, const char *with)
{
    return strncmp(path, with, strlen(with)) == 0;
}

static bool path_has_component(const char *path, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (!at[n] || at[n] == '/'))
            return true;
    return false;
}

/* `rest` is relative to the .git. A submodule's repository lies in modules/NAME, with the same
 * names; NAME may have slashes, so that they are looked for at any depth there. */
static enum git_path_kind git_path_kind_of(const char *rest)
{
    static const char *const COMMITS[] = {"refs/",       "objects/", "logs/",
                                          "packed-refs", "HEAD",     "reftable/"};
    const char *name = strrchr(rest, '/') ? strrchr(rest, '/') + 1 : rest;
    for (size_t i = 0; i < ARRAY_SIZE(COMMITS); i++)
        if (path_begins(rest, COMMITS[i]))
            return GIT_PATH_COMMITS;
    if (path_begins(rest, "hooks/") || strcmp(rest, "config") == 0 ||
        strcmp(rest, "config.worktree") == 0)
        return GIT_PATH_SETTINGS;
    if (!path_begins(rest, "modules/"))
        return GIT_PATH_OTHER;
    if (path_has_component(rest, "refs") || path_has_component(rest, "objects") ||
        path_has_component(rest, "logs") || strcmp(name, "packed-refs") == 0 ||
        strcmp(name, "HEAD") == 0)
        return GIT_PATH_COMMITS;
    return path_has_component(rest, "hooks") || strcmp(name, "config") == 0 ? GIT_PATH_SETTINGS
                                                                            : GIT_PATH_OTHER;
}

bool git_path_split(const char *path, struct git_path *ret)
{
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (path_begins(at, ".git/")) {
            ret->n_folder = at > path ? (size_t)(at - path - 1) : 0;
            ret->kind = git_path_kind_of(at + strlen(".git/"));
            ret->in_module = path_begins(at, ".git/modules/");
            return true;
        }
    return false;
}
