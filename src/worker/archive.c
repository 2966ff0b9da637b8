/*
 * Archives of users, unpacked on the host before any box uses the files: libarchive parses them, and
 * this file decides what is written. A member goes beneath the folder or nowhere: its path must be
 * relative and without "..", each folder on the way is opened without following links, and only
 * files, folders and links are made, with the rights of their owner at most. What the members weigh
 * is counted while they are written, so a bomb ends early.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "job_files.h"
#include "relpath.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define PIECE       (256u << 10)
#define DEPTH_MAX   128u
#define FOLDER_OPEN (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

const struct archive_limits ARCHIVE_LIMITS = {.members = 500000, .bytes = 4ull << 30, .ratio = 200};

struct unpack {
    struct archive *archive;
    int folder;
    const struct archive_limits *limits;
    uint64_t members, bytes, most; /* most: by the ratio, too */
    struct error *err;
};

/* The path of a member without "./" in front and slashes behind it; "": the top. -EINVAL; libarchive
 * gives no name (NULL) where it cannot convert it. */
static int member_path(const struct unpack *u, const char *name, const char *what,
                       char ret[PATH_MAX])
{
    const char *given = name ? name : "..";
    size_t depth = 0;
    while (given[0] == '.' && given[1] == '/')
        given += 2 + strspn(given + 2, "/");
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    if (n == 0 || (n == 1 && *given == '.')) {
        ret[0] = 0;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        depth += given[i] == '/';
    if (n >= PATH_MAX || depth > DEPTH_MAX || !relpath_is_valid(given, n)) {
        _cleanup_free_ char *shown = foreign_text(given, n, 200);
        return error_set(u->err, EINVAL, "the archive's %s '%s' is not a path beneath its top",
                         what, shown ? shown : "");
    }
    memcpy(ret, given, n);
    ret[n] = 0;
    return 0;
}

/* Opens the folder that is to hold the path, made if need be. */
static int member_parent(const struct unpack *u, const char *path, int *ret_fd)
{
    _cleanup_fd_ int at = openat(u->folder, ".", FOLDER_OPEN);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char name[NAME_MAX + 1];
        if ((size_t)(slash - path) > NAME_MAX)
            return error_set(u->err, ENAMETOOLONG, "the archive holds a name that is too long");
        memcpy(name, path, (size_t)(slash - path));
        name[slash - path] = 0;
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
            break;
        int next = openat(at, name, FOLDER_OPEN);
        if (next < 0 && (errno == ELOOP || errno == ENOTDIR))
            return error_set(u->err, EINVAL,
                             "the archive puts a member beneath '%.200s', which is no folder",
                             name);
        close(at);
        at = next;
    }
    if (at < 0 || strchr(path, '/'))
        return error_errno(u->err, errno, "cannot unpack the archive");
    *ret_fd = TAKE_FD(at);
    return 0;
}

static int unpack_count(struct unpack *u, uint64_t n)
{
    u->bytes += n;
    if (n > u->most || u->bytes > u->most)
        return error_set(u->err, EFBIG, "the archive unpacks to more than %llu MB",
                         (unsigned long long)(u->most >> 20));
    return 0;
}

static int archive_trouble(struct unpack *u)
{
    const char *why = archive_error_string(u->archive);
    _cleanup_free_ char *shown = foreign_text(why ? why : "", why ? strlen(why) : 0, 200);
    return error_set(u->err, EBADMSG, "the archive cannot be read: %s",
                     shown && *shown ? shown : "it is damaged");
}

/* The data of the present member; holes stay holes. */
static int file_write(struct unpack *u, int fd)
{
    const void *data;
    size_t n;
    la_int64_t offset;
    uint64_t end = 0;
    for (;;) {
        int r = archive_read_data_block(u->archive, &data, &n, &offset);
        if (r == ARCHIVE_EOF)
            break;
        if (r == ARCHIVE_RETRY)
            continue;
        if (r < ARCHIVE_WARN || offset < 0)
            return archive_trouble(u);
        if ((r = unpack_count(u, n)) < 0)
            return r;
        if ((uint64_t)offset > u->limits->bytes)
            return error_set(u->err, EFBIG, "the archive holds a file that is too large");
        if ((r = io_write_at(fd, data, n, (uint64_t)offset)) < 0)
            return error_errno(u->err, -r, "cannot unpack the archive");
        end = (uint64_t)offset + n > end ? (uint64_t)offset + n : end;
    }
    return 0;
}

/* A hard link becomes a copy: of a regular file that the archive brought. */
static int link_copy(struct unpack *u, const char *target, int to)
{
    char path[PATH_MAX], piece[64 << 10];
    _cleanup_fd_ int parent = -1;
    struct stat st;
    int r = member_path(u, target, "link to", path);
    if (r == 0)
        r = path[0] ? member_parent(u, path, &parent)
                    : error_set(u->err, EINVAL, "the archive links to its top");
    if (r < 0)
        return r;
    _cleanup_fd_ int from =
        openat(parent, relpath_name(path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(u->err, EINVAL, "the archive links to '%.200s', which it does not hold",
                         path);
    for (ssize_t n; (n = read(from, piece, sizeof piece)) != 0;) {
        if (n < 0 || (r = io_write_all(to, piece, (size_t)n)) < 0)
            return error_errno(u->err, n < 0 ? errno : -r, "cannot unpack the archive");
        if ((r = unpack_count(u, (uint64_t)n)) < 0)
            return r;
    }
    return 0;
}

static int file_unpack(struct unpack *u, int parent, const char *name, struct archive_entry *e)
{
    const char *target = archive_entry_hardlink(e);
    la_int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : 0;
    if (size < 0 || (uint64_t)size > u->limits->bytes)
        return error_set(u->err, EFBIG, "the archive holds a file that is too large");
    _cleanup_fd_ int fd =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(u->err, errno, "cannot unpack '%.200s' of the archive", name);
    int r = target ? link_copy(u, target, fd) : file_write(u, fd);
    const struct timespec times[] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = archive_entry_mtime(e),
         .tv_nsec = archive_entry_mtime_is_set(e) ? archive_entry_mtime_nsec(e) : UTIME_OMIT}};
    if (r == 0 && !target && archive_entry_size_is_set(e) && ftruncate(fd, size) < 0)
        r = error_errno(u->err, errno, "cannot unpack the archive");
    if (r == 0 && fchmod(fd, (archive_entry_perm(e) & 0777) | 0600) < 0)
        r = error_errno(u->err, errno, "cannot unpack the archive");
    if (r == 0)
        futimens(fd, times);
    return r;
}

static int folder_unpack(struct unpack *u, int parent, const char *name, mode_t mode)
{
    _cleanup_fd_ int fd = -1;
    if ((mkdirat(parent, name, 0700) < 0 && errno != EEXIST) ||
        (fd = openat(parent, name, FOLDER_OPEN)) < 0 || fchmod(fd, (mode & 0777) | 0700) < 0)
        return error_errno(u->err, errno, "cannot unpack the folder '%.200s' of the archive", name);
    return 0;
}

static int member_unpack(struct unpack *u, struct archive_entry *e)
{
    char path[PATH_MAX];
    _cleanup_fd_ int parent = -1;
    const char *given = archive_entry_pathname_utf8(e);
    mode_t type = archive_entry_hardlink(e) ? AE_IFREG : archive_entry_filetype(e);
    int r = member_path(u, given ? given : archive_entry_pathname(e), "member", path);
    if (r < 0)
        return r;
    const char *name = relpath_name(path);
    if (type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)
        return error_set(u->err, EINVAL,
                         "the archive's member '%.200s' is a device, socket or FIFO", path);
    if (archive_entry_is_data_encrypted(e))
        return error_set(u->err, EINVAL, "the archive is encrypted");
    if (!path[0]) /* the top */
        return type == AE_IFDIR ? 0
                                : error_set(u->err, EINVAL, "the archive's top is not a folder");
    if (strlen(name) > NAME_MAX)
        return error_set(u->err, ENAMETOOLONG, "the archive holds a name that is too long");
    if ((r = member_parent(u, path, &parent)) < 0)
        return r;
    if (type == AE_IFDIR)
        return folder_unpack(u, parent, name, archive_entry_perm(e));
    /* A later member of a name replaces the earlier one. */
    if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
        return error_errno(u->err, errno, "cannot unpack '%.200s' of the archive", path);
    if (type == AE_IFREG)
        return file_unpack(u, parent, name, e);
    const char *target = archive_entry_symlink_utf8(e);
    target = target ? target : archive_entry_symlink(e);
    /* Only the box ever follows it. */
    if (!target || !*target || symlinkat(target, parent, name) < 0)
        return error_errno(u->err, target && *target ? errno : EINVAL,
                           "cannot unpack the link '%.200s' of the archive", path);
    return 0;
}

int archive_unpack(int fd, bool zip, int folder, const struct archive_limits *limits, int cancel,
                   struct error *err)
{
    struct archive *a = archive_read_new();
    struct unpack u = {.archive = a, .folder = folder, .limits = limits, .err = err};
    struct stat st;
    struct archive_entry *e;
    int r = 0, got;
    if (!a || fstat(fd, &st) < 0) {
        archive_read_free(a);
        return error_set(err, ENOMEM, "no memory");
    }
    uint64_t size = (uint64_t)st.st_size, from = ARCHIVE_RATIO_FROM;
    u.most = size > limits->bytes / limits->ratio ? limits->bytes : size * limits->ratio;
    u.most = u.most < from ? (from < limits->bytes ? from : limits->bytes) : u.most;
    if (zip) {
        archive_read_support_format_zip_seekable(a);
    } else {
        archive_read_support_format_tar(a);
        archive_read_support_filter_gzip(a);
    }
    if (archive_read_open_fd(a, fd, PIECE) != ARCHIVE_OK)
        r = archive_trouble(&u);
    while (r == 0 && (got = archive_read_next_header(a, &e)) != ARCHIVE_EOF) {
        if (got == ARCHIVE_RETRY)
            continue;
        if (got < ARCHIVE_WARN)
            r = archive_trouble(&u);
        else if (++u.members > limits->members)
            r = error_set(err, EFBIG, "the archive has more than %llu members",
                          (unsigned long long)limits->members);
        else if (cancel_asked(cancel))
            r = error_set(err, ECANCELED, "interrupted");
        else
            r = member_unpack(&u, e);
    }
    archive_read_free(a);
    return r;
}
