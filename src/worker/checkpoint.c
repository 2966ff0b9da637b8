/*
 * Checkpoints: what a job's steps changed in the workspace, so that an interrupted step runs again in
 * the files from before it, in another box.
 *
 * A checkpoint is a tar that the box's own tar makes, with a member in front that the host makes:
 * the paths to remove, each ended by a NUL. Besides those that the job deleted they are all that are
 * no folders now, so that none is unpacked over something of another kind. The next attempt's box
 * unpacks it: the host reads no byte of it.
 *
 * Only the workspace is kept: processes, the shell's variables and files elsewhere end with the box.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "box_files.h"
#include "io.h"
#include "job_files.h"
#include "json.h"
#include "banned.h"

#define CHECKPOINT_MAX (2ull << 30)
#define NAMES_MAX      (64u << 20)
#define DELETED        ".hutch-deleted"

static const char RESTORE_DELETE[] =
    "cd /workspace && tar --extract --to-stdout --occurrence=1 --file=- " DELETED
    " | xargs -0 -r rm -rf --";
static const char RESTORE_UNPACK[] =
    "cd /workspace && tar --extract --file=- --same-permissions --no-same-owner --anchored "
    "--exclude=" DELETED;

static la_ssize_t member_write(struct archive *a, void *data, const void *bytes, size_t n)
{
    return buf_append(data, bytes, n) < 0 ? -1 : (la_ssize_t)n;
}

/* Appends one member of a tar, without what ends a tar: the box's own follows. */
static int member_append(struct buf *out, const char *name, const struct buf *content)
{
    struct archive *a = archive_write_new();
    struct archive_entry *e = archive_entry_new();
    bool good = a && e && archive_write_set_format_pax_restricted(a) == ARCHIVE_OK &&
                archive_write_set_bytes_per_block(a, 0) == ARCHIVE_OK &&
                archive_write_open(a, out, NULL, member_write, NULL) == ARCHIVE_OK;
    if (good) {
        archive_entry_set_pathname(e, name);
        archive_entry_set_filetype(e, AE_IFREG);
        archive_entry_set_perm(e, 0600);
        archive_entry_set_size(e, (la_int64_t)content->len);
        good = archive_write_header(a, e) == ARCHIVE_OK &&
               archive_write_data(a, content->len ? content->data : (const void *)"",
                                  content->len) == (la_ssize_t)content->len &&
               archive_write_finish_entry(a) == ARCHIVE_OK;
    }
    size_t n = out->len;
    archive_entry_free(e);
    archive_write_free(a);
    out->len = n;
    return good && !out->failed ? 0 : -ENOMEM;
}

/* Sorts the changes into paths to pack and paths to remove first. */
static int checkpoint_names(const struct box_changes *changes, struct buf *pack, struct buf *remove)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct box_change *c = &changes->items[i];
        size_t n = strlen(c->path) + 1;
        if (c->kind != WIRE_DELETED)
            buf_append(pack, c->path, n);
        if (c->kind == WIRE_DELETED || !S_ISDIR(c->mode))
            buf_append(remove, c->path, n);
    }
    return pack->failed || remove->failed ? -E2BIG : 0;
}

/* The member in front and the tar behind it, as one file. */
static int checkpoint_join(const struct buf *front, int tar, int *ret_fd, uint64_t *ret_size)
{
    char piece[64 << 10];
    _cleanup_fd_ int fd = io_unnamed_file();
    int r = fd < 0 ? fd : io_write_all(fd, front->data, front->len);
    *ret_size = front->len;
    for (ssize_t n; r == 0 && (n = read(tar, piece, sizeof piece)) != 0;) {
        r = n < 0 ? -errno : io_write_all(fd, piece, (size_t)n);
        *ret_size += n > 0 ? (uint64_t)n : 0;
    }
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

static void name_count(void *data, const char *name)
{
    *(size_t *)data += 1;
}

bool workspace_is_untouched(struct job *j, struct tool_session *tools)
{
    size_t names = 0;
    return !json_is_object(json_object_get(j->lease.spec, "workspace")) &&
           guestfile_list(tools, "/workspace", name_count, &names, NULL) == 0 && names == 0;
}

int checkpoint_save(struct job *j, struct box *b, struct tool_session *tools, char **ret_upload,
                    struct error *err)
{
    _cleanup_buf_ struct buf pack = BUF_INIT(NAMES_MAX), remove = BUF_INIT(NAMES_MAX),
                             front = BUF_INIT(NAMES_MAX + 4096);
    _cleanup_fd_ int tar = -1, file = -1;
    _cleanup_json_ json_t *answer = NULL;
    struct box_changes changes = {0};
    uint64_t size = 0;
    bool untouched = !j->lease.has_checkpoint && workspace_is_untouched(j, tools);
    int r = untouched ? 0 : box_changes(b, &changes, err);
    if (r < 0)
        return r;
    if (changes.count == 0 && !j->lease.has_checkpoint) {
        *ret_upload = NULL;
        box_changes_free(&changes);
        return 0;
    }
    r = checkpoint_names(&changes, &pack, &remove);
    box_changes_free(&changes);
    if (r < 0)
        return error_set(err, E2BIG, "the steps changed too many files to keep between them");
    r = box_tar(b, &pack, false, CHECKPOINT_MAX, j->lease.cancel, &tar, &size, err);
    if (r < 0)
        return error_wrap(err, "cannot keep the changes of the steps so far");
    r = member_append(&front, DELETED, &remove);
    if (r == 0)
        r = checkpoint_join(&front, tar, &file, &size);
    if (r < 0)
        return error_errno(err, -r, "cannot keep the changes of the steps so far");
    r = server_put(j->worker, &j->lease, "checkpoint", "checkpoint", 0, file, size, &answer, err);
    if (r < 0)
        return r;
    const char *id = json_get_string(answer, "id");
    *ret_upload = id ? strdup(id) : NULL;
    if (!*ret_upload)
        return error_set(err, EPROTO, "the server did not name the checkpoint");
    j->lease.has_checkpoint = true;
    return 0;
}

int checkpoint_restore(struct job *j, struct box *b, struct error *err)
{
    _cleanup_fd_ int file = -1;
    char type[32];
    int r = server_get(j->worker, &j->lease, "checkpoint", &file, type, err);
    if (r < 0 || file < 0)
        return r < 0 ? r : error_set(err, EIO, "the server has no checkpoint of the job");
    const char *const scripts[] = {RESTORE_DELETE, RESTORE_UNPACK};
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(scripts); i++)
        r = lseek(file, 0, SEEK_SET) < 0 ? error_errno(err, errno, "cannot read the checkpoint")
                                         : box_script(b, scripts[i], file, j->lease.cancel, err);
    return r < 0 ? error_wrap(err, "cannot restore the files of the steps so far") : 0;
}
