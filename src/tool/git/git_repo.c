#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_repo.h"
#include "utf8.h"
#include "banned.h"

void git_repo_free(struct git_repo *r)
{
    free(r->work_tree);
    free(r->git_dir);
    free(r->common_dir);
    free(r->objects);
    free(r->index);
    free(r->shallow);
    *r = (struct git_repo){0};
}

/* One line each, in the order of the arguments below. A path with a newline in it gives too many.
 */
static int repo_take_facts(char *text, struct git_repo *r)
{
    char *lines[8] = {0};
    size_t n = 0;
    for (char *line; (line = strsep(&text, "\n")) && *line; n++)
        if (n < ARRAY_SIZE(lines))
            lines[n] = line;
    if (n != 7 || strlen(lines[5]) >= sizeof r->format)
        return -EINVAL;
    char **const paths[] = {&r->git_dir, &r->common_dir, &r->objects, &r->index, &r->shallow};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (lines[i][0] != '/' || !(*paths[i] = strdup(lines[i])))
            return -EINVAL;
    snprintf(r->format, sizeof r->format, "%s", lines[5]);
    r->is_shallow = strcmp(lines[6], "true") == 0;
    return 0;
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
    struct git_repo r = {0};
    struct stat st;
    _cleanup_free_ char *dot_git = NULL;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    if (asprintf(&dot_git, "%s/.git", work_tree) < 0)
        return error_set(err, ENOMEM, "no memory");
    if (lstat(dot_git, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
        return -ENOENT;
    /* A .git that is a link into somewhere else is nobody's ordinary repository. */
    int s = git_run(&(struct git_call){.git_dir = dot_git, .work_tree = work_tree, .args = args},
                    &out, err);
    if (s != 0)
        return s < 0 ? s : error_wrap(err, "cannot read the repository %.300s", work_tree);
    r.work_tree = strdup(work_tree);
    if (!r.work_tree || !buf_cstr(&out) || repo_take_facts((char *)out.data, &r) < 0) {
        git_repo_free(&r);
        return error_set(err, EINVAL,
                         "cannot read the repository %.300s: its path has a line break", work_tree);
    }
    *ret = r;
    return 0;
}

/* Has it a .git? */
static bool repo_is_top(const char *folder, size_t n)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%.*s/.git", (int)n, folder) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

static size_t repo_parent_length(const char *folder, size_t n)
{
    while (n > 0 && folder[n - 1] != '/')
        n--;
    return n > 0 ? n - 1 : 0;
}

bool git_repo_is_above(const char *folder)
{
    for (size_t n = strlen(folder); n > 0; n = repo_parent_length(folder, n))
        if (repo_is_top(folder, n))
            return true;
    return false;
}

char *git_repo_top(const char *folder)
{
    const char *home = getenv("HOME");
    _cleanup_free_ char *real_home = home && *home ? realpath(home, NULL) : NULL;
    for (size_t n = strlen(folder); n > 0; n = repo_parent_length(folder, n)) {
        if (real_home && strlen(real_home) == n && strncmp(real_home, folder, n) == 0)
            return NULL;
        if (repo_is_top(folder, n))
            return strndup(folder, n);
    }
    return NULL;
}

int git_repo_init(const char *work_tree, struct error *err)
{
    const char *const args[] = {"init", "-q", "--template=", work_tree, NULL};
    int r = git_run(&(struct git_call){.args = args, .owner_of = work_tree}, NULL, err);
    return r > 0 ? -EIO : r;
}

static int tree_remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

void git_remove_tree(const char *path)
{
    nftw(path, tree_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void git_repo_remove(const struct git_repo *r)
{
    git_remove_tree(r->git_dir);
}

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

bool git_id_is_valid(const char *id)
{
    size_t n = strspn(id, "0123456789abcdef");
    return (n == 40 || n == 64) && !id[n];
}

static bool ref_component_is_safe(const char *at, size_t n)
{
    static const char LOCK[] = ".lock";
    if (n == 0 || at[0] == '.' || at[0] == '-' || at[n - 1] == '.' || (n == 1 && at[0] == '@') ||
        (n == 4 && memcmp(at, "HEAD", 4) == 0))
        return false;
    if (n >= sizeof LOCK - 1 && memcmp(at + n - (sizeof LOCK - 1), LOCK, sizeof LOCK - 1) == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)at[i];
        if (c <= ' ' || c == 0x7f || strchr("~^:?*[\\\"'`$;|&<>(){}!", c))
            return false;
        if (i + 1 < n && c == '.' && at[i + 1] == '.')
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
 * names. */
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
