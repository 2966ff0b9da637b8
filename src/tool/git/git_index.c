/*
 * read-tree with two trees is what a fast-forward does to an index: an entry that the person staged
 * is kept if the commits do not touch it, and refuses the move if they do. It runs in the
 * quarantine on a copy, with the quarantine's configuration: neither filters nor a file system
 * monitor of the repository's run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "git_index.h"
#include "io.h"
#include "banned.h"

#define INDEX_MAX (1u << 30)

void git_index_drop(struct git_index *i)
{
    if (i->lock >= 0 && i->lock_path)
        unlink(i->lock_path);
    cleanup_close(&i->lock);
    free(i->lock_path);
    free(i->index_path);
    free(i->made_path);
    *i = GIT_INDEX_NONE;
}

/* As git does it: the process that creates index.lock may replace the index. */
static int take_lock(const struct git_repo *host, struct git_index *i, struct error *err)
{
    struct stat st;
    i->index_path = strdup(host->index);
    if (!i->index_path || asprintf(&i->lock_path, "%s.lock", host->index) < 0)
        return error_set(err, ENOMEM, "no memory");
    mode_t mode = stat(host->index, &st) == 0 ? st.st_mode & 0666 : 0644;
    i->lock = open(i->lock_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (i->lock < 0 && errno == EEXIST) {
        error_set(err, EBUSY, "another git is at work in your repository (index.lock)");
        return 1;
    }
    if (i->lock < 0)
        return error_errno(err, errno, "cannot lock the index");
    if (geteuid() == 0 && stat(host->git_dir, &st) == 0 &&
        fchown(i->lock, st.st_uid, st.st_gid) < 0)
        return error_errno(err, errno, "cannot lock the index");
    return 0;
}

static int copy_index(const struct git_repo *host, const struct git_transfer *t,
                      struct git_index *i, struct error *err)
{
    struct stat st;
    _cleanup_buf_ struct buf bytes = BUF_INIT(INDEX_MAX);
    if (asprintf(&i->made_path, "%s/index", t->path) < 0) {
        i->made_path = NULL;
        return error_set(err, ENOMEM, "no memory");
    }
    unlink(i->made_path);
    int r = io_read_file(AT_FDCWD, host->index, &bytes);
    if (r == -ENOENT)
        return 0; /* a repository without a commit has none yet */
    _cleanup_fd_ int fd = open(i->made_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (r == 0)
        r = fd < 0 ? -errno : io_write_all(fd, bytes.data, bytes.len);
    if (r == 0 && geteuid() == 0 && stat(t->path, &st) == 0 && fchown(fd, st.st_uid, st.st_gid) < 0)
        r = -errno;
    return r < 0 ? error_errno(err, -r, "cannot read the index") : 0;
}

static int run_on_copy(const struct git_repo *host, const struct git_transfer *t,
                       const struct git_index *i, const char *const *args, struct buf *ret_out,
                       struct error *err)
{
    _cleanup_free_ char *file = NULL;
    if (asprintf(&file, "GIT_INDEX_FILE=%s", i->made_path) < 0) {
        file = NULL;
        return error_set(err, ENOMEM, "no memory");
    }
    const char *const env[] = {file, NULL};
    return git_run(&(struct git_call){.git_dir = t->path,
                                      .work_tree = host->work_tree,
                                      .args = args,
                                      .env = env,
                                      .hostile = true},
                   ret_out, err);
}

static int empty_tree(const struct git_repo *host, const struct git_transfer *t,
                      const struct git_index *i, char ret[GIT_ID_SIZE], struct error *err)
{
    static const char *const args[] = {"mktree", NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    int r = run_on_copy(host, t, i, args, &out, err);
    char *text = r == 0 ? buf_cstr(&out) : NULL;
    if (text)
        text[strcspn(text, "\n")] = 0;
    if (r == 0 && (!text || !git_id_is_valid(text)))
        r = error_set(err, EPROTO, "git mktree gave no tree");
    if (r == 0)
        snprintf(ret, GIT_ID_SIZE, "%s", text);
    return r > 0 ? -EIO : r;
}

static int move_copy(const struct git_repo *host, const struct git_transfer *t,
                     const struct git_index *i, const char *from, const char *to, struct error *err)
{
    char none[GIT_ID_SIZE];
    struct error why = {0};
    int r = *from ? 0 : empty_tree(host, t, i, none, err);
    if (r < 0)
        return r;
    const char *const merge[] = {"read-tree", "-i", "-m", *from ? from : none, to, NULL};
    static const char *const refresh[] = {"update-index", "-q", "--refresh", NULL};
    r = run_on_copy(host, t, i, merge, NULL, &why);
    if (r < 0)
        return error_set(err, -r, "%s", why.text);
    if (r > 0) {
        error_set(err, EBUSY, "what you have staged is in the way");
        return 1;
    }
    r = run_on_copy(host, t, i, refresh, NULL,
                    &why); /* its status only says that there are changes */
    return r < 0 ? error_set(err, -r, "%s", why.text) : 0;
}

int git_index_prepare(const struct git_repo *host, const struct git_transfer *t, const char *from,
                      const char *to, struct git_index *ret, struct error *err)
{
    _cleanup_(git_index_drop) struct git_index i = GIT_INDEX_NONE;
    int r = take_lock(host, &i, err);
    if (r == 0)
        r = copy_index(host, t, &i, err);
    if (r == 0)
        r = move_copy(host, t, &i, from, to, err);
    if (r == 0) {
        *ret = i;
        i = GIT_INDEX_NONE;
    }
    return r;
}

int git_index_commit(struct git_index *i, struct error *err)
{
    _cleanup_buf_ struct buf bytes = BUF_INIT(INDEX_MAX);
    int r = io_read_file(AT_FDCWD, i->made_path, &bytes);
    if (r == 0)
        r = io_write_all(i->lock, bytes.data, bytes.len);
    if (r == 0 && rename(i->lock_path, i->index_path) < 0)
        r = -errno;
    if (r == 0)
        close(TAKE_FD(i->lock)); /* the name is the index now */
    return r < 0 ? error_errno(err, -r, "cannot replace the index") : 0;
}
