/*
 * What a job leaves: its diff, its workspace (for jobs that begin with it), and the files that its
 * patterns name. The guest lists these; one tar brings them, and the host reads the tar as it would
 * any stranger's archive.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "box_files.h"
#include "io.h"
#include "job_files.h"
#include "job_report.h"
#include "json.h"
#include "banned.h"

#define DIFF_MAX      (64u << 20)
#define WORKSPACE_MAX (4ull << 30)
#define FILE_MAX      (256ull << 20)
#define FILES_BYTES   (1ull << 30) /* of all artifacts together */
#define FILES_MAX     1000
#define NAMES_MAX     (16u << 20)
#define TAR_OVERHEAD  4096u /* of a member, about */

static int send_diff(struct job *j, struct box *b, struct error *err)
{
    struct spool *spool = NULL;
    _cleanup_fd_ int file = -1;
    uint64_t size = 0;
    int to = -1, r = spool_begin(DIFF_MAX, &spool, &to, err);
    if (r < 0)
        return r;
    int made = box_diff(b, false, to, err);
    r = spool_end(spool, to, &file, &size, made == 0 ? err : NULL);
    if (r == -EFBIG) {
        job_log(j, "the diff is larger than %u MB and is not kept", DIFF_MAX >> 20);
        return 0;
    }
    if (made < 0 || r < 0 || size == 0)
        return made < 0 ? made : r;
    return server_put(j->worker, &j->lease, "diff", "diff", 0, file, size, NULL, err);
}

/* All of it, since the next job's worker has nothing to build it from. Too large is no failure. */
static int send_workspace(struct job *j, struct box *b, struct error *err)
{
    _cleanup_buf_ struct buf names = BUF_INIT(8);
    _cleanup_fd_ int file = -1;
    uint64_t size = 0;
    buf_append(&names, ".", 2);
    int r = box_tar(b, &names, true, WORKSPACE_MAX, j->lease.cancel, &file, &size, err);
    if (r == 0)
        r = server_put(j->worker, &j->lease, "workspace", "workspace", 0, file, size, NULL, err);
    if (r == -EFBIG) {
        job_log(j, "the workspace is not kept for other jobs: %s", err->text);
        return 0;
    }
    return r;
}

/* --- artifacts --- */

/* The paths that the patterns name, each with JSON true in `ret`; `names` as tar takes them. */
static int artifacts_list(struct job *j, struct tool_session *tools, const json_t *globs,
                          json_t *ret, struct buf *names, struct error *err)
{
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    _cleanup_json_ json_t *input =
        json_pack("{s:O, s:b, s:b, s:i}", "glob", globs, "ignored", 1, "sizes", 1, "limit", 100000);
    const struct tool_request q = {.name = "list_files", .input = input, .cancel = j->lease.cancel};
    size_t i;
    const json_t *one;
    uint64_t bytes = 0;
    int r = tool_call(tools, &q, &result);
    if (r < 0 || result.failed)
        return error_set(err, EIO, "artifacts: cannot list the workspace: %.300s",
                         buf_cstr(&result.text) ? (const char *)result.text.data : "no memory");
    if (json_get_integer(result.data, "rest") > 0)
        return error_set(err, E2BIG, "artifacts: the patterns name more than %d files", FILES_MAX);
    json_array_foreach(json_object_get(result.data, "entries"), i, one)
    {
        const char *path = json_get_string(one, "path");
        uint64_t size = (uint64_t)json_get_integer(one, "size");
        if (!path || strcmp(json_get_string_or(one, "type", ""), "file") != 0)
            continue;
        if (json_object_get(one, "path_base64"))
            return error_set(err, EILSEQ, "artifacts: the name %.300s is not UTF-8", path);
        if (size > FILE_MAX)
            return error_set(err, EFBIG, "artifacts: '%.300s' is larger than %llu MB", path,
                             FILE_MAX >> 20);
        bytes += size;
        json_object_set_new(ret, path, json_true());
        buf_append(names, path, strlen(path) + 1);
    }
    if (json_object_size(ret) > FILES_MAX)
        return error_set(err, E2BIG, "artifacts: the patterns name %zu files, more than %d",
                         json_object_size(ret), FILES_MAX);
    if (bytes > FILES_BYTES)
        return error_set(err, EFBIG, "artifacts: they are larger than %llu MB together",
                         FILES_BYTES >> 20);
    return names->failed ? error_set(err, ENOMEM, "no memory") : 0;
}

static int artifact_send(struct job *j, struct archive *a, const char *path, struct error *err)
{
    const void *data;
    size_t n;
    la_int64_t offset;
    uint64_t size = 0;
    int got, r = 0;
    _cleanup_fd_ int file = io_unnamed_file();
    while (file >= 0 && r == 0 &&
           (got = archive_read_data_block(a, &data, &n, &offset)) != ARCHIVE_EOF) {
        if (got < ARCHIVE_WARN || offset < 0)
            return error_set(err, EIO, "artifacts: cannot read '%.300s' from the box", path);
        if ((uint64_t)offset + n > FILE_MAX)
            return error_set(err, EFBIG, "artifacts: '%.300s' is larger than %llu MB", path,
                             FILE_MAX >> 20);
        r = io_write_at(file, data, n, (uint64_t)offset);
        size = (uint64_t)offset + n > size ? (uint64_t)offset + n : size;
    }
    if (file < 0 || r < 0)
        return error_errno(err, file < 0 ? -file : -r, "artifacts: cannot keep '%.300s'", path);
    r = server_put(j->worker, &j->lease, path, "artifact", 0, file, size, NULL, err);
    return r < 0 ? error_wrap(err, "artifacts: cannot send '%.300s'", path) : 0;
}

/* Sends each member that is wanted, once. Others are not: the box chose them. */
static int artifacts_send_tar(struct job *j, int tar, json_t *wanted, struct error *err)
{
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    int got = ARCHIVE_EOF, r = a ? 0 : error_set(err, ENOMEM, "no memory");
    if (r == 0 && (archive_read_support_format_tar(a) != ARCHIVE_OK ||
                   archive_read_open_fd(a, tar, 64u << 10) != ARCHIVE_OK))
        r = error_set(err, EIO, "artifacts: cannot read the tar of the box");
    while (r == 0 && (got = archive_read_next_header(a, &e)) != ARCHIVE_EOF) {
        if (got < ARCHIVE_WARN) {
            r = error_set(err, EIO, "artifacts: the tar of the box is damaged");
            break;
        }
        const char *utf8 = archive_entry_pathname_utf8(e);
        const char *given = utf8 ? utf8 : archive_entry_pathname(e);
        if (!given || archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e) ||
            !json_object_get(wanted, given))
            continue;
        _cleanup_free_ char *path = strdup(given);
        r = path ? artifact_send(j, a, path, err) : error_set(err, ENOMEM, "no memory");
        if (path)
            json_object_del(wanted, path);
    }
    archive_read_free(a);
    return r;
}

static int send_artifacts(struct job *j, struct box *b, struct tool_session *tools,
                          const json_t *globs, struct error *err)
{
    _cleanup_json_ json_t *wanted = json_object();
    _cleanup_buf_ struct buf names = BUF_INIT(NAMES_MAX);
    _cleanup_fd_ int tar = -1;
    uint64_t size = 0, max = FILES_BYTES + (uint64_t)FILES_MAX * TAR_OVERHEAD;
    int r = artifacts_list(j, tools, globs, wanted, &names, err);
    if (r < 0 || names.len == 0)
        return r;
    r = box_tar(b, &names, false, max, j->lease.cancel, &tar, &size, err);
    if (r < 0)
        return error_wrap(err, "artifacts");
    r = artifacts_send_tar(j, tar, wanted, err);
    const char *missing = r == 0 ? json_object_iter_key(json_object_iter(wanted)) : NULL;
    if (missing)
        job_log(j, "artifacts: '%.200s' and perhaps others went away while they were read",
                missing);
    return r;
}

int job_send_files(struct job *j, struct box *b, struct tool_session *tools, struct error *err)
{
    const json_t *globs = json_object_get(j->lease.spec, "artifacts"),
                 *workspace = json_object_get(j->lease.spec, "workspace");
    struct box_changes changes = {0};
    int r = workspace_is_untouched(j, tools) ? 0 : box_changes(b, &changes, err);
    bool changed = r == 0 && changes.count > 0;
    box_changes_free(&changes);
    if (changed)
        r = send_diff(j, b, err);
    /* What began with an upload and did not change it is there already. */
    if (r == 0 && (changed || json_get_string(workspace, "git")))
        r = send_workspace(j, b, err);
    if (r == 0 && json_array_size(globs) > 0)
        r = send_artifacts(j, b, tools, globs, err);
    return r;
}
