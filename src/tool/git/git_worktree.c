#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_worktree.h"
#include "io.h"
#include "banned.h"

#define OBJECTS_AT "/run/git-objects"
#define FILE_MAX   (512u << 20)

/* Where everything points that could be delivered. */
#define STATE                                                                                      \
    "{ git for-each-ref; git symbolic-ref -q HEAD; git rev-parse -q --verify HEAD; git stash "     \
    "list; }"

/* $1: the object format. Files that the host has written before lie in the folder already. */
static const char INSTALL[] = "set -e\n"
                              "cd ~/.hutch-git\n"
                              "mkdir -p objects/info objects/pack refs/heads refs/tags info\n"
                              "echo " OBJECTS_AT " >objects/info/alternates\n"
                              "[ -s index ] || rm -f index\n"
                              "[ -s shallow ] || rm -f shallow\n"
                              "[ -s info/sparse-checkout ] || rm -f info/sparse-checkout\n"
                              "printf 'gitdir: %s\\n' \"$PWD\" >/workspace/.git\n"
                              "export GIT_DIR=$PWD\n" STATE " >hutch-state || true\n";

void git_worktree_free(struct git_worktree *w)
{
    git_repo_free(&w->repo);
}

bool git_worktree_is_linked(const char *folder)
{
    struct stat st;
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/.git", folder) < (int)sizeof path &&
           lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

void git_worktree_show(struct box_options *o, struct git_worktree *ret)
{
    *ret = (struct git_worktree){0};
    if (!o->workspace || o->mode != BOX_COW || o->n_shares == BOX_SHARES_MAX ||
        !git_worktree_is_linked(o->workspace))
        return;
    if (git_repo_open(o->workspace, &ret->repo, NULL) <
        0) /* no git on the host, or a .git file that leads nowhere: the box has no repository
              either */
        return;
    ret->needed = true;
    o->shares[o->n_shares++] = (struct box_share){.source = ret->repo.objects, .at = OBJECTS_AT};
}

/* Runs a script in the box; what it reads is the buffer. */
static int run_in_box(struct box *box, const char *script, const char *arg, const struct buf *input,
                      struct error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", arg, NULL};
    struct box_result result = {0};
    _cleanup_fd_ int in = memfd_create("hutch-git", MFD_CLOEXEC);
    if (in < 0 || (input && io_write_all(in, input->data, input->len) < 0) ||
        lseek(in, 0, SEEK_SET) < 0)
        return error_errno(err, errno, "cannot prepare the repository in the box");
    const struct box_command c = {.argv = (char *const *)argv,
                                  .cwd = "/",
                                  .timeout_ns = GIT_TIMEOUT_NS,
                                  .in = in,
                                  .out = -1,
                                  .err = -1,
                                  .cancel = -1};
    int r = box_exec(box, &c, &result, err);
    if (r == 0 && result.exit_code != 0)
        r = error_set(err, EIO, "cannot prepare the repository in the box (exit status %d)",
                      result.exit_code);
    box_result_free(&result);
    return r;
}

static int put_file(struct box *box, const char *name, const struct buf *data, struct error *err)
{
    static const char SCRIPT[] = "mkdir -p ~/.hutch-git/info && cat >~/.hutch-git/\"$1\"";
    return run_in_box(box, SCRIPT, name, data, err);
}

/* A file of the worktree's git directory, as it is; one that is not there is empty. */
static int put_copy(struct box *box, const char *path, const char *name, struct error *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(FILE_MAX);
    int r = io_read_file(AT_FDCWD, path, &data);
    if (r < 0 && r != -ENOENT)
        return error_errno(err, -r, "cannot read %s", path);
    return put_file(box, name, &data, err);
}

static int put_refs(const struct git_worktree *w, struct box *box, struct error *err)
{
    struct git_refs refs = {0};
    _cleanup_buf_ struct buf text = BUF_INIT(64u << 20);
    int r = git_refs_read(w->repo.git_dir, NULL, &refs, err);
    if (r < 0)
        return r;
    buf_append_str(&text, "# pack-refs with: sorted\n");
    for (size_t i = 0; i < refs.count; i++)
        buf_printf(&text, "%s %s\n", refs.items[i].id, refs.items[i].name);
    git_refs_free(&refs);
    return text.failed ? error_set(err, ENOMEM, "no memory")
                       : put_file(box, "packed-refs", &text, err);
}

/* What git must know to read the repository. Everything else may hold secrets, or paths of the
 * host. */
static int put_config(const struct git_worktree *w, struct box *box, struct error *err)
{
    static const char *const args[] = {
        "config", "-z", "--get-regexp",
        "^core\\.(autocrlf|eol|safecrlf|filemode|ignorecase|symlinks|"
        "precomposeunicode|sparsecheckout(cone)?)$",
        NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    _cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
    bool sha256 = strcmp(w->repo.format, "sha256") == 0;
    int r = git_run(&(struct git_call){.git_dir = w->repo.git_dir, .args = args}, &out, err);
    if (r < 0 || !buf_cstr(&out))
        return r < 0 ? r : error_set(err, ENOMEM, "no memory");
    buf_printf(
        &text,
        "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogallrefupdates = true\n",
        sha256);
    const char *end = (const char *)out.data + out.len;
    for (const char *at = (const char *)out.data; at < end; at += strlen(at) + 1) {
        const char *value = strchr(at, '\n');
        size_t n = value ? strspn(value + 1, "abcdefghijklmnopqrstuvwxyz") : 0;
        if (value && n > 0 && !value[1 + n])
            buf_printf(&text, "\t%.*s = %s\n", (int)(value - at - 5), at + 5, value + 1);
    }
    if (sha256)
        buf_append_str(&text, "[extensions]\n\tobjectformat = sha256\n");
    return text.failed ? error_set(err, ENOMEM, "no memory") : put_file(box, "config", &text, err);
}

int git_worktree_install(const struct git_worktree *w, struct box *box, struct error *err)
{
    char head[PATH_MAX], sparse[PATH_MAX];
    if (!w->needed)
        return 0;
    snprintf(head, sizeof head, "%s/HEAD", w->repo.git_dir);
    snprintf(sparse, sizeof sparse, "%s/info/sparse-checkout", w->repo.git_dir);
    int r = put_config(w, box, err);
    if (r == 0)
        r = put_refs(w, box, err);
    if (r == 0)
        r = put_copy(box, head, "HEAD", err);
    if (r == 0)
        r = put_copy(box, w->repo.index, "index", err);
    if (r == 0)
        r = put_copy(box, w->repo.shallow, "shallow", err);
    if (r == 0)
        r = put_copy(box, sparse, "info/sparse-checkout", err);
    return r == 0 ? run_in_box(box, INSTALL, w->repo.format, NULL, err) : r;
}

bool git_worktree_moved(struct box *box)
{
    static const char SCRIPT[] =
        "cd ~/.hutch-git && export GIT_DIR=$PWD && " STATE " | cmp -s - hutch-state";
    return run_in_box(box, SCRIPT, "", NULL, NULL) < 0;
}
