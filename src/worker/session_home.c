/*
 * The folders of sessions on the worker's host, and what the agents of a session and its forks
 * share: settings of the worker's environment, box options, limits. The workspace's files are never
 * trusted.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "git.h"
#include "io.h"
#include "json.h"
#include "live_session.h"
#include "banned.h"

#define TAR_BLOCK   (64u << 10)
#define ABANDONED_S (40 * 86400) /* longer than the longest ttl */

static bool job_id_is_valid(const char *id)
{
    size_t n = strlen(id);
    return n > 0 && n < SESSION_NAME_MAX && strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz") == n;
}

struct session_home *session_home_ref(struct session_home *h)
{
    atomic_fetch_add(&h->refs, 1);
    return h;
}

struct session_home *session_home_free(struct session_home *h)
{
    if (!h || atomic_fetch_sub(&h->refs, 1) > 1)
        return NULL;
    settings_free(h->settings);
    box_spec_free(&h->box);
    char *const strings[] = {h->top,     h->folder, h->workspace, h->histories,
                             h->members, h->system, h->model};
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        free(strings[i]);
    free(h);
    return NULL;
}

static void session_home_freep(struct session_home **h)
{
    session_home_free(*h);
}

static int session_home_name(const struct worker *w, const char *name, struct session_home **ret,
                             struct error *err)
{
    const char *root = worker_options(w)->folder;
    _cleanup_(session_home_freep) struct session_home *h = calloc(1, sizeof *h);
    if (!h)
        return error_set(err, ENOMEM, "no memory");
    h->refs = 1;
    box_spec_init(&h->box, "");
    h->top = root ? str_printf("%s/sessions", root) : ownfile_state_path("sessions");
    if (!h->top)
        return error_set(err, ENOMEM, "no memory, or no home folder");
    if (!job_id_is_valid(name))
        return error_set(err, EINVAL, "'%.40s' is not the ID of a session", name);
    snprintf(h->name, sizeof h->name, "%s", name);
    h->folder = str_printf("%s/%s", h->top, name);
    h->workspace = str_printf("%s/%s/workspace", h->top, name);
    h->histories = str_printf("%s/%s/histories", h->top, name);
    h->members = str_printf("%s/%s/members", h->top, name);
    if (!h->folder || !h->workspace || !h->histories || !h->members)
        return error_set(err, ENOMEM, "no memory");
    *ret = TAKE_PTR(h);
    return 0;
}

/* --- folders that nobody needs any more --- */

/* Locked by its session, or used not long ago: its session may be waiting for a worker. */
static bool member_is_needed(int members, const char *name)
{
    struct stat st;
    _cleanup_fd_ int fd = openat(members, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 ||
           time(NULL) - st.st_mtime < ABANDONED_S;
}

static bool home_is_needed(const char *folder)
{
    _cleanup_free_ char *path = str_printf("%s/members", folder);
    DIR *members = path ? opendir(path) : NULL;
    bool needed = !members;
    for (struct dirent *e; !needed && (e = readdir(members));)
        needed = e->d_name[0] != '.' && member_is_needed(dirfd(members), e->d_name);
    if (members)
        closedir(members);
    return needed;
}

/* Removes folders of sessions that ended while no worker had them. */
static void session_homes_sweep(const char *top)
{
    DIR *homes = opendir(top);
    for (struct dirent *e; homes && (e = readdir(homes));) {
        _cleanup_free_ char *folder =
            job_id_is_valid(e->d_name) ? str_printf("%s/%s", top, e->d_name) : NULL;
        struct stat st;
        if (folder && stat(folder, &st) == 0 && time(NULL) - st.st_mtime > ABANDONED_S &&
            !home_is_needed(folder))
            git_remove_tree(folder);
    }
    if (homes)
        closedir(homes);
}

/* What agents need, from the submission of the job. */
static int session_home_prepare(struct session_home *h, const struct live_job *l, struct error *err)
{
    const json_t *spec = live_job_spec(l), *cost = json_object_get(spec, "max_cost");
    const char *model = json_get_string(spec, "model");
    h->model = model ? strdup(model) : NULL;
    h->system = json_get_string(spec, "system") ? str_printf("%s/system.md", h->folder) : NULL;
    int r = settings_read(NULL, h->workspace, false, &h->settings, err);
    if (r == 0)
        r = job_box_spec(live_job_lease(l), h->workspace, true, &h->box, err);
    if (r < 0)
        return r;
    uint64_t tokens = (uint64_t)json_get_integer(spec, "max_tokens");
    h->agent = (struct agent_options){
        .box = &h->box.box,
        .settings = h->settings,
        .model = h->model,
        .histories = h->histories,
        .system_file = h->system,
        .max_tokens = tokens ? tokens : settings_max_tokens(h->settings),
        .max_turns = (unsigned)json_get_integer(spec, "max_turns"),
        .max_cost = json_number_value(cost),
        .unattended = true,
        .foreign = true,
    };
    return 0;
}

static int session_home_write_system(const struct session_home *h, const char *text,
                                     struct error *err)
{
    _cleanup_free_ char *path = str_printf("%s/system.md", h->folder);
    _cleanup_fd_ int fd =
        path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd < 0 || io_write_all(fd, text, strlen(text)) < 0)
        return error_errno(err, errno, "cannot write the system prompt of the session");
    return 0;
}

int session_home_new(const struct live_job *l, struct session_home **ret, struct error *err)
{
    _cleanup_(session_home_freep) struct session_home *h = NULL;
    _cleanup_free_ char *path = NULL;
    const char *system = json_get_string(live_job_spec(l), "system");
    int r = session_home_name(live_job_worker(l), live_job_id(l), &h, err);
    if (r < 0)
        return r;
    session_homes_sweep(h->top);
    git_remove_tree(h->folder); /* of an attempt that ended before there was a session */
    char *const folders[] = {h->histories, h->members};
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders); i++)
        r = ownfile_make_folders(folders[i]);
    if (r < 0)
        return error_errno(err, -r, "cannot make a folder for the session");
    struct job_lease lease = *live_job_lease(l);
    lease.folder = h->folder;
    r = workspace_prepare(live_job_worker(l), &lease, &path, err);
    if (r == 0 && !path && mkdir(h->workspace, 0700) < 0)
        r = error_errno(err, errno, "cannot make the workspace of the session");
    if (r == 0 && path && strcmp(path, h->workspace) != 0)
        r = error_set(err, EIO, "the workspace was not made in the folder of the session");
    if (r == 0 && system)
        r = session_home_write_system(h, system, err);
    if (r == 0)
        r = session_home_prepare(h, l, err);
    if (r < 0) {
        git_remove_tree(h->folder);
        return r;
    }
    *ret = TAKE_PTR(h);
    return 0;
}

int session_home_find(const struct live_job *l, const char *name, struct session_home **ret,
                      struct error *err)
{
    _cleanup_(session_home_freep) struct session_home *h = NULL;
    int r = session_home_name(live_job_worker(l), name, &h, err);
    if (r == 0 && access(h->workspace, F_OK) < 0)
        r = error_set(err, ENOENT, "the folder of this session is not on this host");
    if (r == 0)
        r = session_home_prepare(h, l, err);
    if (r == 0)
        *ret = TAKE_PTR(h);
    return r;
}

int session_home_join(struct session_home *h, const char *job, int *ret_fd, bool *ret_interrupted,
                      struct error *err)
{
    struct stat st;
    _cleanup_free_ char *path = str_printf("%s/%s", h->members, job);
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd < 0 || fstat(fd, &st) < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0) {
        cleanup_close(&fd);
        return error_errno(err, errno, "cannot write into the folder of the session");
    }
    *ret_interrupted = st.st_size > 0;
    *ret_fd = fd;
    return 0;
}

void session_home_leave(struct session_home *h, const char *job)
{
    _cleanup_free_ char *path = str_printf("%s/%s", h->members, job);
    if (path && unlink(path) == 0 && rmdir(h->members) == 0)
        git_remove_tree(h->folder);
}

/* --- the workspace as a tar --- */

static int tar_failed(struct archive *a, struct error *err)
{
    return error_set(err, EIO, "cannot pack the workspace: %s", archive_error_string(a));
}

/* The path beneath the workspace; NULL for the workspace itself. */
static const char *tar_path(const struct session_home *h, const char *path)
{
    size_t n = strlen(h->workspace);
    return strncmp(path, h->workspace, n) == 0 && path[n] == '/' && path[n + 1] ? path + n + 1
                                                                                : NULL;
}

static int tar_add(struct archive *disk, struct archive *tar, struct archive_entry *entry,
                   struct error *err)
{
    const void *block;
    size_t n;
    la_int64_t offset, written = 0;
    static const char zeros[TAR_BLOCK];
    if (archive_write_header(tar, entry) < ARCHIVE_WARN)
        return tar_failed(tar, err);
    if (archive_entry_size(entry) == 0)
        return 0;
    int r;
    while ((r = archive_read_data_block(disk, &block, &n, &offset)) == ARCHIVE_OK) {
        while (written < offset) { /* a hole */
            size_t gap = (size_t)(offset - written);
            la_ssize_t put = archive_write_data(tar, zeros, gap < TAR_BLOCK ? gap : TAR_BLOCK);
            if (put <= 0)
                return tar_failed(tar, err);
            written += put;
        }
        if (archive_write_data(tar, block, n) < 0)
            return tar_failed(tar, err);
        written = offset + (la_int64_t)n;
    }
    return r == ARCHIVE_EOF ? 0 : tar_failed(disk, err);
}

/* Links are packed as links; owners and what else tells about the host are left out. */
int session_home_tar(const struct session_home *h, int *ret_fd, struct error *err)
{
    _cleanup_fd_ int fd = io_unnamed_file();
    if (fd < 0)
        return error_errno(err, -fd, "cannot make a file for the workspace");
    struct archive *disk = archive_read_disk_new(), *tar = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    int r = 0, step;
    if (!disk || !tar || !entry ||
        archive_read_disk_set_behavior(
            disk, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS | ARCHIVE_READDISK_NO_ACL |
                      ARCHIVE_READDISK_NO_XATTR | ARCHIVE_READDISK_NO_FFLAGS) != ARCHIVE_OK ||
        archive_read_disk_set_symlink_physical(disk) != ARCHIVE_OK ||
        archive_read_disk_open(disk, h->workspace) != ARCHIVE_OK ||
        archive_write_set_format_pax_restricted(tar) != ARCHIVE_OK ||
        archive_write_open_fd(tar, fd) != ARCHIVE_OK)
        r = error_set(err, EIO, "cannot pack the workspace");
    while (r == 0 && (step = archive_read_next_header2(disk, entry)) != ARCHIVE_EOF) {
        const char *path = step < ARCHIVE_WARN ? NULL : archive_entry_pathname(entry);
        if (step < ARCHIVE_WARN)
            r = tar_failed(disk, err);
        else
            archive_read_disk_descend(disk);
        path = path ? tar_path(h, path) : NULL;
        if (r < 0 || !path)
            continue;
        _cleanup_free_ char *copy = strdup(path);
        archive_entry_copy_pathname(entry, copy ? copy : "");
        archive_entry_set_uid(entry, 0);
        archive_entry_set_gid(entry, 0);
        archive_entry_set_uname(entry, NULL);
        archive_entry_set_gname(entry, NULL);
        mode_t type = archive_entry_filetype(entry);
        if (type == AE_IFREG || type == AE_IFDIR || type == AE_IFLNK)
            r = tar_add(disk, tar, entry, err);
    }
    if (r == 0 && archive_write_close(tar) != ARCHIVE_OK)
        r = tar_failed(tar, err);
    archive_entry_free(entry);
    archive_write_free(tar);
    archive_read_free(disk);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}
