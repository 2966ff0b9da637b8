/*
 * Reading instructions on the host. The box shows the workspace only, so what lies above it is read
 * here. Somebody else may have written these files: each is opened without waiting and without
 * leaving the repository, and must be a regular file. None of them may lie in the workspace, which
 * a box may write.
 *
 * A folder above the workspace is part of its repository only if the repository belongs to the
 * person or to the workspace's owner: a .git that another user puts into /tmp is not obeyed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "instructions.h"
#include "io.h"
#include "banned.h"

static void instructions_trouble(const struct instructions_sink *sink, const char *path,
                                 const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "ignored the instructions %.300s: %.150s", path, why);
    if (sink->trouble)
        sink->trouble(sink->data, text);
}

/* The root of the repository that the workspace is part of, without being it; NULL: none. */
static char *repository_root(const char *workspace)
{
    struct stat own, git;
    char *path = strdup(workspace);
    if (!path || stat(workspace, &own) < 0) {
        free(path);
        return NULL;
    }
    for (;;) {
        _cleanup_free_ char *name = str_printf("%s/.git", path);
        bool found =
            name && lstat(name, &git) == 0 && (S_ISDIR(git.st_mode) || S_ISREG(git.st_mode));
        if (found && strcmp(path, workspace) != 0 &&
            (git.st_uid == geteuid() || git.st_uid == own.st_uid))
            return path;
        char *slash = strrchr(path, '/');
        if (!name || found || !slash || slash == path) {
            free(path);
            return NULL;
        }
        *slash = 0;
    }
}

/* The file of one folder, `relative` to the root and `up` levels above the workspace. */
static void instructions_read_folder(const char *root, const char *relative, unsigned up,
                                     const char *workspace, const struct instructions_sink *sink)
{
    static const char *const names[] = {INSTRUCTIONS_FILE, INSTRUCTIONS_ELSE_FILE};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct stat st;
        char link[64], target[4096];
        struct instructions one = {.text = BUF_INIT(INSTRUCTIONS_MAX)};
        _cleanup_free_ char *path = str_printf("%s%s%s", relative, *relative ? "/" : "", names[i]);
        _cleanup_buf_ struct buf shown = BUF_INIT(256);
        if (!path)
            return;
        for (unsigned k = 0; k < up; k++)
            buf_append_str(&shown, "../");
        buf_append_str(&shown, names[i]);
        one.path = buf_cstr(&shown);
        _cleanup_fd_ int fd = io_open_beneath(root, path, &st);
        if (fd == -ENOENT || fd == -ENOTDIR || !one.path)
            continue;
        int r = fd < 0 ? fd : 0;
        if (r == 0) { /* a link may lead into the workspace */
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t n = readlink(link, target, sizeof target);
            size_t inside = strlen(workspace);
            if (n < 0 || n == sizeof target ||
                ((size_t)n > inside && memcmp(target, workspace, inside) == 0 &&
                 target[inside] == '/'))
                r = -EXDEV;
        }
        if (r == 0)
            r = io_read_all(fd, &one.text);
        one.cut = r == -ENOBUFS; /* as much as fits was read */
        if (r < 0 && !one.cut)
            instructions_trouble(sink, one.path,
                                 r == -EXDEV    ? "a link that leads elsewhere"
                                 : r == -EINVAL ? "not a regular file"
                                                : strerror(-r));
        else if (one.text.len > 0)
            sink->found(sink->data, &one);
        buf_free(&one.text);
        return;
    }
}

void instructions_read(const char *workspace, const struct instructions_sink *sink)
{
    struct error why = {0};
    struct instructions own = {.path = ownfile_config_path(INSTRUCTIONS_FILE),
                               .text = BUF_INIT(INSTRUCTIONS_MAX)};
    int r = own.path ? ownfile_read(own.path, &own.text, &why) : -ENOENT;
    own.cut = r == -EFBIG;
    if (r == 0 || own.cut) {
        if (own.text.len > 0)
            sink->found(sink->data, &own);
    } else if (r != -ENOENT && r != -ENOTDIR) {
        instructions_trouble(sink, own.path, why.text);
    }
    buf_free(&own.text);
    free(own.path);

    _cleanup_free_ char *folder = workspace ? realpath(workspace, NULL) : NULL;
    _cleanup_free_ char *root = folder ? repository_root(folder) : NULL;
    if (!root)
        return;
    /* From the root downwards: "", "a", "a/b", … but not the workspace itself. */
    _cleanup_free_ char *relative = strdup(folder + strlen(root) + 1);
    unsigned depth = 1;
    for (const char *at = relative; at && *at; at++)
        depth += *at == '/';
    for (unsigned up = depth; relative && up > 0; up--) {
        char *end = relative;
        for (unsigned k = up; k < depth; k++)
            end = strchr(end, '/') + 1;
        _cleanup_free_ char *above =
            strndup(relative, end > relative ? (size_t)(end - relative - 1) : 0);
        if (above && up <= INSTRUCTIONS_FOLDERS)
            instructions_read_folder(root, above, up, folder, sink);
    }
}
