/*
 * Files of jobs and uploads: each has a row with its size, so that what a user stores is counted in
 * the same transaction. Bytes are flushed before the row is committed; agent.log, which grows often,
 * when its attempt ends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "jobs_internal.h"
#include "relpath.h"
#include "banned.h"

#define PATH_BYTES_MAX 1024
#define PATH_DEPTH_MAX 32
#define NAME_BYTES_MAX 255
#define FILES_MAX      10000 /* of a job */
#define LOG_NAME       "agent.log"
#define LOG_PIECE_MAX  (4u << 20)

/* --- uploads --- */

int jobs_spool(struct jobs *j, int *ret_fd, struct error *err)
{
    char name[32] = "tmp/spool-XXXXXX";
    int fd = openat(j->folder, "tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        char id[JOB_ID_LEN + 1];
        job_id_make(j, id);
        snprintf(name, sizeof name, "tmp/%s", id);
        fd = openat(j->folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0)
            unlinkat(j->folder, name, 0);
    }
    if (fd < 0)
        return error_errno(err, errno, "cannot make a file in the data folder");
    *ret_fd = fd;
    return 0;
}

struct upload_change {
    struct job_change base;
    const char *user, *type, *id;
    uint64_t size, max_stored;
};

static int upload_run(struct db *db, struct job_change *change, struct error *err)
{
    struct upload_change *c = (struct upload_change *)change;
    int r = user_add_stored(db, c->user, (int64_t)c->size, c->max_stored, err);
    if (r < 0)
        return r;
    int64_t n = DB_RUN(db, err,
                       "INSERT INTO uploads (id, owner, type, size, created_at)"
                       " VALUES ($1, $2, $3, $4, $5)",
                       db_text(c->id), db_text(c->user), db_text(c->type), db_int((int64_t)c->size),
                       db_int(jobs_now()));
    return n < 0 ? (int)n : 0;
}

int jobs_upload(struct jobs *j, const char *user, int fd, const char *type, uint64_t max_stored,
                char ret_id[JOB_ID_LEN + 1], struct error *err)
{
    char id[JOB_ID_LEN + 1];
    struct upload_change c = {.base = JOB_CHANGE(upload_run),
                              .user = user,
                              .type = type,
                              .id = id,
                              .max_stored = max_stored};
    if (strcmp(type, "tar") != 0 && strcmp(type, "zip") != 0)
        return error_set(err, EINVAL, "an upload is a tar or a zip, not '%.20s'", type);
    int r = user_name_check(user, err);
    if (r < 0)
        return r;
    job_id_make(j, id);
    _cleanup_free_ char *path = str_printf(UPLOADS "/%s", id);
    if (!path)
        return error_set(err, ENOMEM, "out of memory");
    if ((r = folder_adopt(j->folder, fd, path, &c.size, err)) < 0)
        return r;
    if ((r = job_change_commit(j, &c.base, err)) < 0) {
        folder_remove(j->folder, path);
        return r;
    }
    memcpy(ret_id, id, sizeof id);
    return 0;
}

struct upload_remove_change {
    struct job_change base;
    const char *user, *id;
};

static int upload_remove_run(struct db *db, struct job_change *change, struct error *err)
{
    struct upload_remove_change *c = (struct upload_remove_change *)change;
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err,
                     "SELECT u.owner, (SELECT count(*) FROM jobs j WHERE j.workspace_upload = u.id)"
                     " FROM uploads u WHERE u.id = $1 AND u.job IS NULL",
                     db_text(c->id));
    if (r == 0)
        r = db_next(&rows, err);
    if (r < 0)
        return r;
    if (r == 0 || (c->user && strcmp(db_column_text(&rows, 0), c->user) != 0))
        return error_set(err, ENOENT, "there is no upload %.40s", c->id);
    if (db_column_int(&rows, 1) > 0)
        return error_set(err, EBUSY, "a job names the upload %s; remove the job first", c->id);
    db_rows_done(&rows);
    return upload_drop_unused(db, c->id, err);
}

int jobs_upload_remove(struct jobs *j, const char *user, const char *id, struct error *err)
{
    struct upload_remove_change c = {.base = JOB_CHANGE(upload_remove_run), .user = user, .id = id};
    return job_change_commit(j, &c.base, err);
}

static int upload_has_row(struct db *db, const char *id)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, NULL, "SELECT 1 FROM uploads WHERE id = $1", db_text(id));
    return r < 0 ? r : db_next(&rows, NULL);
}

void uploads_clean(struct jobs *j, struct db *db)
{
    int fd = openat(j->folder, UPLOADS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (job_id_is_valid(e->d_name) && upload_has_row(db, e->d_name) == 0)
            unlinkat(fd, e->d_name, 0);
    if (dir)
        closedir(dir);
    else
        cleanup_close(&fd);
}

/* --- reading --- */

/* The size of a job's file; -ENOENT without a text if the job has none of that name. */
static int file_find(struct db *db, const char *user, const char *id, const char *path,
                     struct error *err)
{
    struct job_row row;
    _cleanup_rows_ struct db_rows rows = {0};
    int r = job_fetch(db, user, id, &row, err);
    if (r == 0)
        r = DB_QUERY(db, &rows, err, "SELECT 1 FROM files WHERE job = $1 AND path = $2",
                     db_text(id), db_text(path));
    if (r == 0 && (r = db_next(&rows, err)) == 0)
        return -ENOENT;
    return r < 0 ? r : 0;
}

/* memory.json of a job of steps is made of their results. -ENOENT without a text: there is none. */
static int memory_make(struct jobs *j, const char *user, const char *id, int *ret_fd,
                       uint64_t *ret_size, struct error *err)
{
    _cleanup_json_ json_t *job = NULL, *actions = json_array();
    size_t i;
    json_t *result;
    int r = jobs_get(j, user, id, &job, err);
    if (r < 0)
        return r;
    const json_t *steps = json_object_get(json_object_get(job, "spec"), "steps");
    if (strcmp(json_get_string_or(job, "kind", ""), "steps") != 0)
        return -ENOENT;
    json_array_foreach(json_object_get(job, "result"), i, result)
    {
        json_t *step = json_array_get(steps, i);
        json_array_append_new(actions,
                              json_pack("{s:O?, s:O?, s:O}", "tool", json_object_get(step, "tool"),
                                        "input", step, "result", result));
    }
    if (json_array_size(actions) == 0)
        return -ENOENT;
    _cleanup_json_ json_t *memory = json_pack("{s:s, s:O}", "job", id, "actions", actions);
    char *text = memory ? json_dumps(memory, JSON_COMPACT) : NULL;
    _cleanup_free_ char *owned = text;
    int fd = text ? io_memory_file(text, strlen(text)) : -ENOMEM;
    if (fd < 0)
        return error_errno(err, -fd, "cannot make memory.json of job %s", id);
    *ret_fd = fd;
    *ret_size = strlen(text);
    return 0;
}

int jobs_file_open(struct jobs *j, const char *user, const char *id, const char *path, int *ret_fd,
                   uint64_t *ret_size, struct error *err)
{
    _cleanup_free_ char *full = NULL;
    _cleanup_fd_ int fd = -1;
    struct stat st = {0};
    if (err)
        err->text[0] = 0;
    struct db *db = store_reader(j->store, false, err);
    int r = db ? file_find(db, user, id, path, err) : -EIO;
    store_reader_done(j->store, db);
    if (r == -ENOENT && strcmp(path, "memory.json") == 0 && !(err && err->text[0]))
        return memory_make(j, user, id, ret_fd, ret_size, err);
    if (r < 0)
        return r;
    if (!(full = job_path(id, path)))
        return error_set(err, ENOMEM, "out of memory");
    r = folder_open_file(j->folder, full, O_RDONLY, &fd);
    if (r == 0 && fstat(fd, &st) < 0)
        r = -errno;
    if (r < 0)
        return r == -ENOENT ? r : error_errno(err, -r, "cannot open %s of job %s", path, id);
    *ret_fd = TAKE_FD(fd);
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

static int files_list(struct db *db, const char *user, const char *id, json_t *list,
                      struct error *err)
{
    struct job_row row;
    _cleanup_rows_ struct db_rows rows = {0};
    int r = job_fetch(db, user, id, &row, err);
    if (r == 0)
        r = DB_QUERY(db, &rows, err,
                     "SELECT path, size FROM files WHERE job = $1 AND path LIKE 'files/%'"
                     " ORDER BY path",
                     db_text(id));
    while (r == 0 && (r = db_next(&rows, err)) > 0)
        r = json_array_append_new(list, json_pack("{s:s, s:I}", "path",
                                                  db_column_text(&rows, 0) + strlen("files/"),
                                                  "size", (json_int_t)db_column_int(&rows, 1))) < 0
                ? error_set(err, ENOMEM, "out of memory")
                : 0;
    return r;
}

int jobs_files(struct jobs *j, const char *user, const char *id, json_t **ret, struct error *err)
{
    _cleanup_json_ json_t *list = json_array();
    struct db *db = store_reader(j->store, true, err);
    int r = !list ? error_set(err, ENOMEM, "out of memory")
            : db  ? files_list(db, user, id, list, err)
                  : -EIO;
    store_reader_done(j->store, db);
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}

/* --- a worker's files --- */

static bool artifact_path_is_valid(const char *path)
{
    size_t n = strlen(path), depth = 0;
    if (!relpath_is_valid(path, n) || n > PATH_BYTES_MAX || !utf8_valid((const uint8_t *)path, n))
        return false;
    for (const char *part = path; part; depth++) {
        const char *slash = strchr(part, '/');
        if ((slash ? (size_t)(slash - part) : strlen(part)) > NAME_BYTES_MAX)
            return false;
        part = slash ? slash + 1 : NULL;
    }
    for (size_t i = 0, step; i < n; i += step) {
        step = utf8_character((const uint8_t *)path + i, n - i);
        if (utf8_is_control((const uint8_t *)path + i, step))
            return false;
    }
    return depth <= PATH_DEPTH_MAX;
}

struct file_change {
    struct job_change base;
    const struct lease *lease;
    const char *name;     /* in the job's folder */
    const char *artifact; /* its path; or NULL */
    char *from, *to;      /* in the data folder */
    bool moved;           /* an earlier run of this change did it */
    uint64_t size;
    char upload[JOB_ID_LEN + 1]; /* a checkpoint */
    /* agent.log */
    struct buf text;
    uint64_t offset;
};

/* Counts the file in place of the one that has its name. `max` as in user_add_stored. */
static int file_count(struct db *db, struct job_row *row, const char *name, int64_t size,
                      uint64_t max, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err,
                     "SELECT (SELECT size FROM files WHERE job = $1 AND path = $2),"
                     " (SELECT count(*) FROM files WHERE job = $1)",
                     db_text(row->id), db_text(name));
    if (r < 0 || (r = db_next(&rows, err)) < 0)
        return r;
    bool exists = rows.column[0].type == DB_INT;
    int64_t more = size - db_column_int(&rows, 0), n = db_column_int(&rows, 1);
    db_rows_done(&rows);
    if (!exists && n >= FILES_MAX)
        return error_set(err, EDQUOT, "job %s has %d files already", row->id, FILES_MAX);
    if (DB_RUN(db, err,
               "INSERT INTO files (job, path, size) VALUES ($1, $2, $3)"
               " ON CONFLICT (job, path) DO UPDATE SET size = excluded.size",
               db_text(row->id), db_text(name), db_int(size)) < 0)
        return -EIO;
    row->stored_bytes += more;
    return user_add_stored(db, row->owner, more, max, err);
}

static int file_run(struct db *db, struct job_change *change, struct error *err)
{
    struct file_change *c = (struct file_change *)change;
    struct job_row row;
    int r = job_fetch_leased(db, c->lease, &row, err);
    if (r == 0)
        r = file_count(db, &row, c->name, (int64_t)c->size, 0, err);
    if (r == 0 && c->artifact) {
        _cleanup_json_ json_t *event = json_pack("{s:s, s:s, s:I}", "type", "artifact", "path",
                                                 c->artifact, "size", (json_int_t)c->size);
        _cleanup_free_ char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
        r = text ? job_event(db, &row, "artifact", text, strlen(text), err)
                 : error_set(err, ENOMEM, "out of memory");
    }
    if (r == 0)
        r = job_save(db, change, &row, err);
    if (r == 0 && !c->moved)
        r = folder_replace(c->base.jobs->folder, c->from, c->to, err);
    c->moved |= r == 0;
    return r;
}

/* A checkpoint is an upload of the job, until /step names another one. */
static int checkpoint_run(struct db *db, struct job_change *change, struct error *err)
{
    struct file_change *c = (struct file_change *)change;
    struct job_row row;
    int r = job_fetch_leased(db, c->lease, &row, err);
    if (r == 0)
        r = user_add_stored(db, row.owner, (int64_t)c->size, 0, err);
    if (r < 0)
        return r;
    row.stored_bytes += (int64_t)c->size;
    int64_t n = DB_RUN(db, err,
                       "INSERT INTO uploads (id, owner, type, size, created_at, job)"
                       " VALUES ($1, $2, 'tar', $3, $4, $5)",
                       db_text(c->upload), db_text(row.owner), db_int((int64_t)c->size),
                       db_int(jobs_now()), db_text(row.id));
    return n < 0 ? (int)n : job_save(db, change, &row, err);
}

int files_add_log(struct db *db, struct jobs *j, struct job_row *row, const void *text, size_t n,
                  uint64_t offset, uint64_t max, struct error *err)
{
    _cleanup_free_ char *to = job_path(row->id, LOG_NAME);
    _cleanup_fd_ int fd = -1;
    struct stat st = {0};
    int r = to ? folder_open_file(j->folder, to, O_RDWR | O_CREAT, &fd) : -ENOMEM;
    if (r == 0 && fstat(fd, &st) < 0)
        r = -errno;
    if (r < 0)
        return error_errno(err, -r, "cannot open agent.log of job %s", row->id);
    uint64_t size = (uint64_t)st.st_size, end = offset + n;
    if (offset > size)
        return error_set(err, EINVAL, "agent.log ends at %llu, before offset %llu",
                         (unsigned long long)size, (unsigned long long)offset);
    r = file_count(db, row, LOG_NAME, (int64_t)(end > size ? end : size), max, err);
    if (r == 0 && end > size && (r = io_write_at(fd, text, n, offset)) < 0)
        return error_errno(err, -r, "cannot write to %s", to);
    return r;
}

static int log_run(struct db *db, struct job_change *change, struct error *err)
{
    struct file_change *c = (struct file_change *)change;
    struct job_row row;
    int r = job_fetch_leased(db, c->lease, &row, err);
    if (r == 0)
        r = files_add_log(db, c->base.jobs, &row, c->text.data, c->text.len, c->offset, 0, err);
    return r < 0 ? r : job_save(db, change, &row, err);
}

static int log_append(struct jobs *j, struct file_change *c, int fd, uint64_t offset,
                      struct error *err)
{
    c->text = BUF_INIT(LOG_PIECE_MAX + 1);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, errno, "cannot read the log");
    int r = io_read_all(fd, &c->text);
    if (r == -ENOBUFS)
        return error_set(err, EINVAL, "more than 4 MiB of agent.log in one request");
    if (r < 0)
        return error_errno(err, -r, "cannot read the log");
    if (offset > INT64_MAX / 2)
        return error_set(err, EINVAL, "the offset is too large");
    c->base.run = log_run;
    c->offset = offset;
    r = folder_make_parents(j->folder, c->to, err);
    return r < 0 ? r : job_change_commit(j, &c->base, err);
}

static int checkpoint_put(struct jobs *j, struct file_change *c, int fd, struct error *err)
{
    c->base.run = checkpoint_run;
    int r = folder_make_parents(j->folder, c->to, err);
    if (r == 0)
        r = folder_adopt(j->folder, fd, c->to, &c->size, err);
    if (r == 0 && (r = job_change_commit(j, &c->base, err)) < 0)
        folder_remove(j->folder, c->to);
    return r;
}

static int file_put(struct jobs *j, struct file_change *c, int fd, struct error *err)
{
    char id[JOB_ID_LEN + 1];
    c->base.run = file_run;
    job_id_make(j, id);
    if (!(c->from = str_printf("tmp/%s", id)))
        return error_set(err, ENOMEM, "out of memory");
    int r = folder_make_parents(j->folder, c->to, err);
    if (r == 0)
        r = folder_adopt(j->folder, fd, c->from, &c->size, err);
    if (r == 0)
        r = job_change_commit(j, &c->base, err);
    if (!c->moved)
        folder_remove(j->folder, c->from);
    return r;
}

int jobs_lease_file(struct jobs *j, const struct lease *l, const char *kind, const char *path,
                    uint64_t offset, int fd, char ret_upload[JOB_ID_LEN + 1], struct error *err)
{
    static const struct {
        const char *kind, *name;
    } NAMES[] = {{"log", "agent.log"},
                 {"memory", "memory.json"},
                 {"diff", "diff"},
                 {"workspace", "workspace"}};
    _cleanup_free_ char *name = NULL, *to = NULL;
    struct file_change c = {.lease = l};
    kind = kind ? kind : "";
    /* Before anything is written; the change checks it again. */
    int r = jobs_lease_check(j, l, NULL, NULL, err);
    if (r < 0)
        return r;
    job_id_make(j, c.upload);
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(NAMES[i].kind, kind) == 0)
            name = strdup(NAMES[i].name);
    if (strcmp(kind, "checkpoint") == 0) {
        name = str_printf("checkpoint.%s", c.upload);
    } else if (strcmp(kind, "artifact") == 0) {
        if (!artifact_path_is_valid(path))
            return error_set(err, EINVAL,
                             "the path of an artifact must be relative, without .. "
                             "and control characters, and not too long");
        name = str_printf("files/%s", path);
        c.artifact = path;
    } else if (!name) {
        return error_set(err, EINVAL,
                         "kind: '%.40s' is none of artifact, log, memory, diff, "
                         "workspace, checkpoint",
                         kind);
    }
    c.name = name;
    c.to = to = name ? job_path(l->job, name) : NULL;
    if (!to)
        return error_set(err, ENOMEM, "out of memory");
    bool checkpoint = strcmp(kind, "checkpoint") == 0;
    if (strcmp(kind, "log") == 0)
        r = log_append(j, &c, fd, offset, err);
    else
        r = checkpoint ? checkpoint_put(j, &c, fd, err) : file_put(j, &c, fd, err);
    if (r == 0 && checkpoint && ret_upload)
        memcpy(ret_upload, c.upload, sizeof c.upload);
    buf_free(&c.text);
    free(c.from);
    return r;
}

int files_sync_log(struct jobs *j, const char *id, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    _cleanup_free_ char *path = job_id_is_valid(id) ? job_path(id, "agent.log") : NULL;
    int r = path ? folder_open_file(j->folder, path, O_RDONLY, &fd) : -ENOENT;
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r < 0 && r != -ENOENT ? error_errno(err, -r, "cannot store %s", path) : 0;
}

/* --- what a worker fetches --- */

#define BASES_MAX 64

/* The archive that a job begins with: its upload; or what another job left, or, if that left nothing
 * because it changed nothing, what that one began with. *ret NULL: none. */
static int workspace_path(struct db *db, const struct job_row *of, char **ret,
                          const char **ret_type, struct error *err)
{
    struct job_row row = *of;
    for (int i = 0; i < BASES_MAX && row.workspace_job[0]; i++) {
        char base[JOB_ID_LEN + 1];
        snprintf(base, sizeof base, "%s", row.workspace_job);
        int r = file_find(db, NULL, base, "workspace", err);
        if (r == 0) {
            *ret = job_path(base, "workspace");
            return *ret ? 0 : error_set(err, ENOMEM, "out of memory");
        }
        if (r != -ENOENT || (r = job_fetch(db, NULL, base, &row, err)) < 0)
            return r;
    }
    if (!row.workspace_upload[0])
        return 0;
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err, "SELECT type FROM uploads WHERE id = $1",
                     db_text(row.workspace_upload));
    if (r < 0 || (r = db_next(&rows, err)) < 0)
        return r;
    if (r > 0 && strcmp(db_column_text(&rows, 0), "zip") == 0)
        *ret_type = "zip";
    *ret = str_printf(UPLOADS "/%s", row.workspace_upload);
    return 0;
}

/* The path of what the job begins with; NULL: nothing. */
static int lease_open_path(struct db *db, const struct job_row *row, const char *what, char **ret,
                           const char **ret_type, struct error *err)
{
    _cleanup_free_ char *name = NULL;
    *ret = NULL;
    *ret_type = "tar";
    if (strcmp(what, "memory") == 0) {
        *ret_type = "json";
        *ret = row->memory_from[0] ? job_path(row->memory_from, "memory.json") : NULL;
    } else if (strcmp(what, "checkpoint") == 0) {
        name = row->checkpoint[0] ? str_printf("checkpoint.%s", row->checkpoint) : NULL;
        *ret = name ? job_path(row->id, name) : NULL;
    } else if (strcmp(what, "workspace") != 0) {
        return error_set(err, EINVAL, "'%.40s' is none of workspace, checkpoint, memory", what);
    } else {
        return workspace_path(db, row, ret, ret_type, err);
    }
    return 0;
}

int jobs_lease_open(struct jobs *j, const struct lease *l, const char *what, int *ret_fd,
                    const char **ret_type, struct error *err)
{
    struct job_row row;
    _cleanup_free_ char *path = NULL;
    const char *type = NULL;
    int fd = -1;
    struct db *db = store_reader(j->store, true, err);
    int r = db ? job_fetch_leased(db, l, &row, err) : -EIO;
    if (r == 0)
        r = lease_open_path(db, &row, what, &path, &type, err);
    store_reader_done(j->store, db);
    if (r < 0)
        return r;
    r = path ? folder_open_file(j->folder, path, O_RDONLY, &fd) : 0;
    if (r == -ENOENT && strcmp(what, "memory") == 0) {
        uint64_t size;
        err->text[0] = 0;
        r = memory_make(j, NULL, row.memory_from, &fd, &size, err);
        if (r < 0 && err->text[0])
            return r;
    }
    bool must = strcmp(what, "workspace") == 0 && row.workspace_upload[0];
    if (r < 0 && (r != -ENOENT || must))
        return error_errno(err, -r, "cannot open the %s of job %s", what, row.id);
    *ret_fd = fd;
    *ret_type = type;
    return 0;
}
