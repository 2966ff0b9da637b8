#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_box.h"
#include "git_transfer.h"
#include "io.h"
#include "relpath.h"
#include "banned.h"

#define REPOSITORIES_MAX 64u

/* A repository of the workspace in which the box changed something. */
struct repository {
    char *folder; /* its work tree, relative to the workspace; "": the workspace itself */
    bool commits; /* something that may belong to a commit changed, not only the index */
};

struct applying {
    const struct tool_apply_options *o;
    struct repository repositories[REPOSITORIES_MAX];
    size_t n_repositories;
    char *workspace; /* of the host; NULL: none */
    const char *box_id;
    char id[64];
    char module[PATH_MAX]; /* the submodule's repository that was found last */
    bool linked;           /* the workspace's .git is a file */
    bool settings;         /* hooks or configuration changed in the box */
    int left;              /* files that were not applied */
};

static void applying_free(struct applying *a)
{
    for (size_t i = 0; i < a->n_repositories; i++)
        free(a->repositories[i].folder);
    free(a->workspace);
}

static void applying_note(const struct applying *a, const char *fmt, ...) PRINTF(2, 3);

static void applying_note(const struct applying *a, const char *fmt, ...)
{
    char line[1600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (a->o->note)
        a->o->note(a->o->data, line);
}

static void add_repository(struct applying *a, const char *folder, size_t n, bool commits)
{
    for (size_t i = 0; i < a->n_repositories; i++)
        if (strncmp(a->repositories[i].folder, folder, n) == 0 && !a->repositories[i].folder[n]) {
            a->repositories[i].commits |= commits;
            return;
        }
    char *copy = a->n_repositories < REPOSITORIES_MAX ? strndup(folder, n) : NULL;
    if (copy)
        a->repositories[a->n_repositories++] = (struct repository){copy, commits};
}

/* The submodule whose repository (DIR/.git/modules/NAME) holds this path: names may have slashes,
 * so the first folder with a HEAD is it. Its work tree is what its configuration on the host says,
 * if that lies beneath the workspace. */
static void add_module(struct applying *a, const char *path, size_t n_folder)
{
    static const char *const args[] = {"config", "core.worktree", NULL};
    char module[PATH_MAX], file[PATH_MAX + 8], value[PATH_MAX], tree[PATH_MAX * 2 + 2];
    struct stat st;
    const char *at =
        path + n_folder + (n_folder ? strlen("/.git/modules/") : strlen(".git/modules/"));
    size_t known = strlen(a->module);
    if (!a->workspace || (known && strncmp(a->module, path, known) == 0 && path[known] == '/'))
        return;
    for (const char *slash = strchr(at, '/'); slash; slash = strchr(slash + 1, '/')) {
        int n = snprintf(module, sizeof module, "%s/%.*s", a->workspace, (int)(slash - path), path);
        if (n >= (int)sizeof module)
            return;
        snprintf(file, sizeof file, "%s/HEAD", module);
        if (lstat(file, &st) < 0)
            continue;
        snprintf(a->module, sizeof a->module, "%.*s", (int)(slash - path), path);
        if (git_line(&(struct git_call){.git_dir = module, .args = args}, value, sizeof value,
                     NULL) != 0)
            return;
        snprintf(tree, sizeof tree, "%s%s%s", value[0] == '/' ? "" : module,
                 value[0] == '/' ? "" : "/", value);
        _cleanup_free_ char *real = realpath(tree, NULL), *base = realpath(a->workspace, NULL);
        size_t n_base = base ? strlen(base) : 0;
        if (real && base && strncmp(real, base, n_base) == 0 && real[n_base] == '/')
            add_repository(a, real + n_base + 1, strlen(real + n_base + 1), true);
        return;
    }
}

/* What lies beneath a .git comes back as commits, or not at all: it is no file to be reported. */
static void take_report(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct applying *a = data;
    struct git_path g;
    if (outcome == APPLY_REFUSED && git_path_split(path, &g)) {
        /* The box has another configuration because of ours, see git_box.h. */
        _cleanup_buf_ struct buf mask = BUF_INIT(BOX_GIT_MASK_SIZE);
        bool masked = strcmp(path, ".git/config") == 0 && a->workspace &&
                      git_mask_config(a->workspace, &mask) > 0;
        a->settings |= g.kind == GIT_PATH_SETTINGS && !masked;
        if (!g.in_module)
            add_repository(a, path, g.n_folder, g.kind == GIT_PATH_COMMITS);
        else if (g.kind == GIT_PATH_COMMITS)
            add_module(a, path, g.n_folder);
        return;
    }
    if (strcmp(path, ".git") == 0 && a->linked) /* the box has another one, see git_box.h */
        return;
    a->left += outcome == APPLY_CONFLICT || outcome == APPLY_REFUSED;
    if (a->o->report.say)
        a->o->report.say(a->o->report.data, path, outcome, why);
}

static void note_undelivered(const struct applying *a, const char *folder, const char *why)
{
    char in[PATH_MAX];
    snprintf(in, sizeof in, "/workspace%s%s", *folder ? "/" : "", folder);
    if (a->box_id)
        applying_note(a,
                      "the commits made in %s stay in the box: %s. To export them: hutch box exec"
                      " %s --cwd %s -- git format-patch --stdout RANGE",
                      in, why, a->box_id, in);
    else
        applying_note(a, "the commits made in %s were not delivered: %s", in, why);
}

/* 0, 1 if they stay in the box (it was said why), or -ECANCELED. */
static int deliver_repository(struct applying *a, struct box *box, const char *folder)
{
    char work_tree[PATH_MAX], inside[PATH_MAX];
    struct error err = {0};
    _cleanup_git_repo_ struct git_repo host = {0};
    _cleanup_git_transfer_ struct git_transfer from = {0};
    const struct git_transfer_options t = {.max_bytes = a->o->disk, .cancel = a->o->cancel};
    const struct git_deliver_options d = {.id = a->id,
                                          .all_applied = a->left == 0,
                                          .label = *folder ? folder : NULL,
                                          .say = a->o->note,
                                          .data = a->o->data};
    const char *slash = *folder ? "/" : "";
    if (snprintf(work_tree, sizeof work_tree, "%s%s%s", a->workspace, slash, folder) >=
            (int)sizeof work_tree ||
        snprintf(inside, sizeof inside, "/workspace%s%s", slash, folder) >= (int)sizeof inside)
        return 1;
    int r = git_repo_open(work_tree, &host, &err);
    bool is_new = r == -ENOENT && !err.text[0];
    if (is_new && io_folder_with(work_tree, ".git")) {
        applying_note(a,
                      "%s is a repository of its own in the box: its .git was not applied, since"
                      " yours lies above it",
                      inside);
        return 0;
    }
    if (is_new)
        r = git_repo_init(work_tree, &err);
    if (r == 0 && is_new)
        r = git_repo_open(work_tree, &host, &err);
    if (r == 0)
        r = git_transfer(box, inside, &host, &t, &from, &err);
    if (r == 0)
        r = git_deliver(&host, &from, &d, &err);
    if (r == 0 && is_new)
        applying_note(a, "made %s a git repository, as in the box", work_tree);
    if (r == 0)
        return 0;
    if (is_new && host.git_dir)
        git_remove_tree(host.git_dir);
    note_undelivered(a, folder, err.text);
    return r == -ECANCELED ? r : 1;
}

int tool_apply(struct box *box, const struct tool_apply_options *o, struct error *err)
{
    _cleanup_(applying_free) struct applying a = {.o = o, .box_id = box_id(box)};
    _cleanup_box_info_ struct box_info info = {0};
    static const char *const version[] = {"version", NULL};
    const struct apply_report report = {.say = take_report, .data = &a};
    uint64_t number;
    /* A name for what is kept aside. */
    if (o->session || a.box_id)
        snprintf(a.id, sizeof a.id, "%s", o->session ? o->session : a.box_id);
    else if (getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number)
        snprintf(a.id, sizeof a.id, "run-%08x", (unsigned)number);
    int r = box_info(box, &info, err);
    if (r < 0)
        return r;
    a.workspace = TAKE_PTR(info.workspace);
    a.linked = a.workspace && git_worktree_is_linked(a.workspace);
    r = box_apply(box, &o->files, &report, err);
    if (r < 0)
        return r;
    /* Who names files wants no more than these. */
    bool deliver = a.workspace && !o->files.n_paths, any = false;
    int left = 0;
    if (deliver && a.linked) /* its commits lie outside of the workspace: no change is listed */
        add_repository(&a, "", 0, true);
    for (size_t i = 0; i < a.n_repositories; i++)
        any |= a.repositories[i].commits;
    if (deliver && any && git_run(&(struct git_call){.args = version}, NULL, NULL) != 0) {
        note_undelivered(&a, "", "git is not installed on this host");
        deliver = false;
    }
    for (size_t i = 0; deliver && i < a.n_repositories; i++) {
        r = a.repositories[i].commits ? deliver_repository(&a, box, a.repositories[i].folder) : 0;
        if (r < 0)
            return error_set(err, -r, "interrupted");
        left += r;
    }
    if (a.settings)
        applying_note(&a, "hooks and configuration that the box changed in .git were not applied");
    return a.left + left;
}
