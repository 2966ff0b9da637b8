/*
 * A folder as a tar, for the workspace of a job; by the system's tar, on the user's own files.
 *
 * What git ignores stays here: it is mostly large (build/, node_modules/), and secrets (.env) are
 * among it. So does .git, whose configuration may hold a token.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "git.h"
#include "io.h"
#include "job.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define NAMES_MAX   (64u << 20)
#define TEXT_MAX    (16u << 10)
#define PATIENCE_MS 5000

/* The names of the folder's files that git does not ignore, each with a NUL behind it. None: it is
 * no repository, or git ignores the folder itself. */
static int pack_git_names(const char *folder, struct buf *names, struct error *err)
{
    static const char *const LIST[] = {
        "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", NULL};
    _cleanup_git_repo_ struct git_repo repo = {0};
    _cleanup_buf_ struct buf out = {0};
    _cleanup_free_ char *top = git_repo_top(folder);
    if (!top || git_repo_open(top, &repo, NULL) < 0)
        return 0;
    int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct git_call call = {.git_dir = repo.git_dir,
                            .work_tree = repo.work_tree,
                            .folder = folder,
                            .args = LIST,
                            .out_max = NAMES_MAX,
                            .cancel = interrupt_descriptor()};
    int r = dir < 0 ? error_errno(err, errno, "cannot read the folder '%s'", folder)
                    : git_check(&call, &out, err);
    const char *at = (const char *)out.data, *end = at + out.len;
    for (size_t n; r == 0 && at < end; at += n + 1) {
        struct stat st;
        n = strnlen(at, (size_t)(end - at));
        if (fstatat(dir, at, &st, AT_SYMLINK_NOFOLLOW) ==
            0) /* else deleted, and still in the index */
            r = buf_append(names, at, n) < 0 || buf_append(names, "", 1) < 0
                    ? error_set(err, ENOMEM, "no memory")
                    : 0;
    }
    if (dir >= 0)
        close(dir);
    return r;
}

/* Until it closes its stderr: what it says, and what its stdout has, into a file. */
static int pack_drain(struct child *c, int fd, struct buf *said)
{
    char piece[64 << 10];
    struct pollfd p[] = {
        {c->out, POLLIN, 0}, {c->err, POLLIN, 0}, {interrupt_descriptor(), POLLIN, 0}};
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
            return -errno;
        if (p[2].revents)
            return -ECANCELED;
        for (size_t i = 0; i < 2; i++) {
            ssize_t n = p[i].revents ? read(p[i].fd, piece, sizeof piece) : -1;
            int r = n > 0 && i == 0 ? io_write_all(fd, piece, (size_t)n) : 0;
            if (r < 0)
                return r;
            if (n > 0 && i == 1)
                buf_append(said, piece, (size_t)n);
            if (n == 0 || (n < 0 && p[i].revents && errno != EAGAIN && errno != EINTR))
                p[i].fd = -1;
        }
    }
    return 0;
}

/* Runs tar; `list`: a file with the names to pack; NULL: the whole folder. */
static int pack_run(const char *folder, const char *list, int fd, struct error *err)
{
    const char *all[] = {"tar",       "--create",  "--format=pax",
                         "--owner=0", "--group=0", "--numeric-owner",
                         "--file=-",  ".",         NULL};
    const char *named[] = {"tar",
                           "--create",
                           "--format=pax",
                           "--owner=0",
                           "--group=0",
                           "--numeric-owner",
                           "--file=-",
                           "--exclude=.git",
                           "--null",
                           "--verbatim-files-from",
                           "--files-from",
                           list,
                           NULL};
    _cleanup_buf_ struct buf said = BUF_INIT(TEXT_MAX);
    struct child c = CHILD_NONE;
    struct child_options o = {.command = "tar",
                              .argv = (char *const *)(list ? named : all),
                              .env = environ,
                              .cwd = folder};
    int r = child_start(&o, &c, err);
    if (r < 0)
        return r;
    r = pack_drain(&c, fd, &said);
    int status = child_end(&c, PATIENCE_MS);
    char *text = buf_cstr(&said);
    if (text)
        text[strcspn(text, "\n")] = 0;
    if (r < 0)
        return error_errno(err, -r, "cannot pack the folder '%s'", folder);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(err, EIO, "cannot pack the folder '%s': %s", folder,
                         text && *text ? text : "tar failed");
    return 0;
}

int job_pack(const char *folder, bool everything, int *ret_fd, uint64_t *ret_size,
             struct error *err)
{
    _cleanup_buf_ struct buf names = BUF_INIT(NAMES_MAX);
    _cleanup_free_ char *real = realpath(folder, NULL), *temporary = NULL, *list = NULL;
    _cleanup_fd_ int fd = io_unnamed_file();
    struct stat st;
    if (!real)
        return error_errno(err, errno, "cannot read the folder '%s'", folder);
    if (fd < 0)
        return error_errno(err, -fd, "cannot make a temporary file");
    int r = everything ? 0 : pack_git_names(real, &names, err);
    if (r == 0 && names.len) {
        r = git_make_temporary("hutch-pack", &temporary, err);
        list = r == 0 ? str_printf("%s/names", temporary) : NULL;
        _cleanup_fd_ int out =
            list ? open(list, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
        if (r == 0 && (out < 0 || (r = io_write_all(out, names.data, names.len)) < 0))
            r = error_errno(err, r < 0 ? -r : errno, "cannot write the list of files");
    }
    if (r == 0)
        r = pack_run(real, list, fd, err);
    if (temporary)
        git_remove_tree(temporary);
    if (r == 0 && fstat(fd, &st) < 0)
        r = error_errno(err, errno, "cannot read the archive");
    if (r < 0)
        return r;
    *ret_size = (uint64_t)st.st_size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}
