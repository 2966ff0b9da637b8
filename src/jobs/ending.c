/* What clients end: cancel a job, remove one that has ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "banned.h"

struct client_change {
    struct job_change base;
    const char *user, *id;
};

static int cancel_run(struct db *db, struct job_change *change, struct error *err)
{
    struct client_change *c = (struct client_change *)change;
    struct job_row row;
    int r = job_fetch(db, c->user, c->id, &row, err);
    if (r < 0 || row.state == JOB_CANCELLED)
        return r;
    if (row.state == JOB_SCHEDULED)
        return job_end_as(db, change, &row, "cancelled", err);
    if (row.state == JOB_RUNNING)
        return job_set_ending(db, change, &row, "cancelled", err);
    return error_set(err, EALREADY, "job %s has ended already: %s", row.id,
                     job_state_name(row.state));
}

int jobs_cancel(struct jobs *j, const char *user, const char *id, struct error *err)
{
    struct client_change c = {.base = JOB_CHANGE(cancel_run), .user = user, .id = id};
    return job_change_commit(j, &c.base, err);
}

/* Does a job that has not ended need the files of this one? */
static int remove_check_needed(struct db *db, const char *id, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err,
                     "SELECT d.job FROM dependencies d WHERE d.needs = $1 AND (SELECT j.state"
                     " FROM jobs j WHERE j.id = d.job) IN ('scheduled', 'running') LIMIT 1",
                     db_text(id));
    if (r < 0 || (r = db_next(&rows, err)) <= 0)
        return r;
    return error_set(err, EBUSY, "job %s needs the files of job %s; remove it first",
                     db_column_text(&rows, 0), id);
}

int upload_drop_unused(struct db *db, const char *id, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err,
                     "DELETE FROM uploads WHERE id = $1 AND job IS NULL AND NOT EXISTS"
                     " (SELECT 1 FROM jobs WHERE workspace_upload = $1) RETURNING owner, size",
                     db_text(id));
    if (r < 0 || (r = db_next(&rows, err)) <= 0)
        return r;
    _cleanup_free_ char *path = str_printf(UPLOADS "/%s", id);
    r = path ? garbage_add(db, path, err) : error_set(err, ENOMEM, "out of memory");
    return r < 0 ? r
                 : user_add_stored(db, db_column_text(&rows, 0), -db_column_int(&rows, 1), 0, err);
}

int job_remove(struct db *db, struct job_change *c, struct job_row *row, struct error *err)
{
    static const char *const ROWS[] = {
        "DELETE FROM specs WHERE job = $1",
        "DELETE FROM outcomes WHERE job = $1",
        "DELETE FROM steps WHERE job = $1",
        "DELETE FROM events WHERE job = $1",
        "DELETE FROM labels WHERE job = $1",
        "DELETE FROM dependencies WHERE job = $1 OR needs = $1",
        "DELETE FROM files WHERE job = $1",
        "DELETE FROM jobs WHERE id = $1",
    };
    if (!job_has_ended(row))
        return error_set(err, EBUSY, "job %s has not ended; cancel it first", row->id);
    int r = remove_check_needed(db, row->id, err);
    for (size_t i = 0; i < ARRAY_SIZE(ROWS) && r == 0; i++) {
        int64_t n = DB_RUN(db, err, ROWS[i], db_text(row->id));
        r = n < 0 ? (int)n : 0;
    }
    _cleanup_free_ char *path = job_path(row->id, "");
    if (r == 0)
        r = path ? garbage_add(db, path, err) : error_set(err, ENOMEM, "out of memory");
    if (r == 0)
        r = user_add_stored(db, row->owner, -row->stored_bytes, 0, err);
    if (r == 0 && row->workspace_upload[0])
        r = upload_drop_unused(db, row->workspace_upload, err);
    return r < 0 ? r : job_change_effect(c, row->id, (struct effect){.kind = EFFECT_ENDED}, err);
}

static int remove_run(struct db *db, struct job_change *change, struct error *err)
{
    struct client_change *c = (struct client_change *)change;
    struct job_row row;
    int r = job_fetch(db, c->user, c->id, &row, err);
    return r < 0 ? r : job_remove(db, change, &row, err);
}

int jobs_remove(struct jobs *j, const char *user, const char *id, struct error *err)
{
    struct client_change c = {.base = JOB_CHANGE(remove_run), .user = user, .id = id};
    return job_change_commit(j, &c.base, err);
}
