/*
 * The thread that ends leases, waits and jobs whose time has come, and removes what is kept no
 * longer. Timers of the monotonic clock come from watch.c; what goes by the time of day (not_before,
 * retention) is looked up every second.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "banned.h"

#define TICK_MS   1000
#define DUE_MAX   256
#define SWEEP_MAX 256 /* rows in one change */
#define UPLOAD_MS (24LL * 3600 * 1000)
#define AUDIT_MS  (90LL * 24 * 3600 * 1000)
#define REMOVE_MS 200  /* of files, before leases are looked at again */
#define PAUSE_MS  1000 /* after the store failed */

struct due_change {
    struct job_change base;
    struct due due[DUE_MAX];
    size_t n;
};

static int due_lost(struct db *db, struct job_change *c, struct job_row *row, struct error *err)
{
    return row->ending[0] ? job_end_as(db, c, row, row->ending, err)
                          : job_fault(db, c, row, "worker_lost", "its worker was lost", err);
}

static int due_ready(struct db *db, struct job_change *c, struct job_row *row, struct error *err)
{
    if (DB_RUN(db, err, "UPDATE jobs SET ready = 1, backoff_ms = 0 WHERE id = $1",
               db_text(row->id)) < 0)
        return -EIO;
    return job_change_effect(c, row->id, (struct effect){.kind = EFFECT_WAITING}, err);
}

static int due_one(struct db *db, struct job_change *c, const struct due *d, struct error *err)
{
    struct job_row row;
    if (!watch_is_due(c->jobs->watches, d))
        return 0;
    int r = job_fetch(db, NULL, d->job, &row, err);
    bool running = r == 0 && row.state == JOB_RUNNING;
    if (r < 0 || (running && row.attempt != d->token))
        return r;
    switch (d->kind) {
    case DUE_LOST:
    case DUE_FORCE:
        return running ? due_lost(db, c, &row, err) : 0;
    case DUE_READY:
        return running ? 0 : due_ready(db, c, &row, err);
    case DUE_TIMEOUT:
    case DUE_IDLE:
        break;
    }
    const char *ending = d->kind == DUE_TIMEOUT ? "timeout" : "idle";
    return running ? job_set_ending(db, c, &row, ending, err)
                   : job_end_as(db, c, &row, ending, err);
}

static int due_run(struct db *db, struct job_change *change, struct error *err)
{
    struct due_change *c = (struct due_change *)change;
    int r = 0;
    for (size_t i = 0; i < c->n && r == 0; i++)
        r = due_one(db, change, &c->due[i], err);
    return r;
}

/* --- by the time of day --- */

struct sweep_change {
    struct job_change base;
    int64_t now, keep_ms;
    size_t found;
};

/* Calls `each` with the first column of the rows; the change is to be small. */
static int sweep_each(struct db *db, struct sweep_change *c, const char *sql, int64_t time,
                      int (*each)(struct db *db, struct sweep_change *c, const char *id,
                                  struct error *err),
                      struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    char(*ids)[JOB_ID_LEN + 1] = calloc(SWEEP_MAX, sizeof *ids);
    size_t n = 0;
    int r = ids ? DB_QUERY(db, &rows, err, sql, db_int(time), db_int(SWEEP_MAX))
                : error_set(err, ENOMEM, "out of memory");
    while (r == 0 && n < SWEEP_MAX && (r = db_next(&rows, err)) > 0) {
        snprintf(ids[n++], sizeof *ids, "%s", db_column_text(&rows, 0));
        r = 0;
    }
    db_rows_done(&rows);
    for (size_t i = 0; i < n && r == 0; i++)
        r = each(db, c, ids[i], err);
    c->found += n;
    free(ids);
    return r;
}

static int sweep_later(struct db *db, struct sweep_change *c, const char *id, struct error *err)
{
    if (DB_RUN(db, err, "UPDATE jobs SET ready = 1, later_at = 0 WHERE id = $1", db_text(id)) < 0)
        return -EIO;
    return job_change_effect(&c->base, id, (struct effect){.kind = EFFECT_READY}, err);
}

static int sweep_job(struct db *db, struct sweep_change *c, const char *id, struct error *err)
{
    struct job_row row;
    int r = job_fetch(db, NULL, id, &row, err);
    return r < 0 ? r : job_remove(db, &c->base, &row, err);
}

static int sweep_upload(struct db *db, struct sweep_change *c, const char *id, struct error *err)
{
    return upload_drop_unused(db, id, err);
}

#define SWEEP_LATER "SELECT id FROM jobs WHERE later_at > 0 AND later_at <= $1 LIMIT $2"
/* No job that has not ended needs its files. */
#define NOT_NEEDED                                                                                 \
    "NOT EXISTS (SELECT 1 FROM dependencies d WHERE d.needs = jobs.id AND"                         \
    " (SELECT j.state FROM jobs j WHERE j.id = d.job) IN ('scheduled', 'running'))"
#define SWEEP_REMOVE                                                                               \
    "SELECT id FROM jobs WHERE remove_at > 0 AND remove_at <= $1 AND " NOT_NEEDED " LIMIT $2"
#define SWEEP_FINISHED                                                                             \
    "SELECT id FROM jobs WHERE finished_at > 0 AND keep_ms < 0 AND finished_at <= $1"              \
    " AND " NOT_NEEDED " LIMIT $2"
#define SWEEP_UPLOADS                                                                              \
    "SELECT u.id FROM uploads u WHERE u.created_at <= $1 AND u.job IS NULL AND NOT EXISTS"         \
    " (SELECT 1 FROM jobs j WHERE j.workspace_upload = u.id) LIMIT $2"

static int sweep_run(struct db *db, struct job_change *change, struct error *err)
{
    struct sweep_change *c = (struct sweep_change *)change;
    c->found = 0;
    int r = sweep_each(db, c, SWEEP_LATER, c->now, sweep_later, err);
    if (r == 0)
        r = sweep_each(db, c, SWEEP_REMOVE, c->now, sweep_job, err);
    if (r == 0 && c->keep_ms > 0)
        r = sweep_each(db, c, SWEEP_FINISHED, c->now - c->keep_ms, sweep_job, err);
    if (r == 0)
        r = sweep_each(db, c, SWEEP_UPLOADS, c->now - UPLOAD_MS, sweep_upload, err);
    if (r == 0 &&
        DB_RUN(db, err, "DELETE FROM audit WHERE time < $1", db_int(c->now - AUDIT_MS)) < 0)
        r = -EIO;
    return r;
}

/* --- files that nothing names any more --- */

struct garbage_change {
    struct job_change base;
    char *paths[SWEEP_MAX];
    size_t n;
};

static int garbage_run(struct db *db, struct job_change *change, struct error *err)
{
    struct garbage_change *c = (struct garbage_change *)change;
    int64_t r = 0;
    for (size_t i = 0; i < c->n && r >= 0; i++)
        r = DB_RUN(db, err, "DELETE FROM garbage WHERE path = $1", db_text(c->paths[i]));
    return r < 0 ? (int)r : 0;
}

static void garbage_remove(struct jobs *j)
{
    struct garbage_change c = {.base = JOB_CHANGE(garbage_run)};
    struct db *db = store_reader(j->store, false, NULL);
    struct db_rows rows = {0};
    int r = db ? DB_QUERY(db, &rows, NULL, "SELECT path FROM garbage LIMIT $1", db_int(SWEEP_MAX))
               : -EIO;
    while (r == 0 && c.n < SWEEP_MAX && db_next(&rows, NULL) > 0) {
        char *path = strdup(db_column_text(&rows, 0));
        if (path)
            c.paths[c.n++] = path;
    }
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    size_t gone = 0;
    int64_t until = clock_now() + REMOVE_MS * NS_PER_MS;
    for (size_t i = 0; i < c.n; i++) {
        char *path = c.paths[i];
        c.paths[i] = NULL;
        if (clock_now() < until && folder_remove(j->folder, path) == 0)
            c.paths[gone++] = path;
        else
            free(path);
    }
    c.n = gone;
    if (c.n > 0)
        job_change_commit(j, &c.base, NULL);
    for (size_t i = 0; i < gone; i++)
        free(c.paths[i]);
}

void *reaper_main(void *data)
{
    struct jobs *j = data;
    struct due_change *due = calloc(1, sizeof *due);
    int64_t swept_at = 0;
    while (due && watches_due(j->watches, due->due, DUE_MAX, TICK_MS, &due->n)) {
        int r = 0;
        due->base = JOB_CHANGE(due_run);
        if (due->n > 0)
            r = job_change_commit(j, &due->base, NULL);
        if (r < 0 && !watches_pause(j->watches, PAUSE_MS))
            break;
        if (clock_now() < swept_at + TICK_MS * NS_PER_MS)
            continue;
        struct sweep_change sweep = {
            .base = JOB_CHANGE(sweep_run), .now = jobs_now(), .keep_ms = j->keep_ms};
        if (job_change_commit(j, &sweep.base, NULL) == 0)
            garbage_remove(j);
        swept_at = sweep.found >= SWEEP_MAX ? 0 : clock_now();
    }
    free(due);
    return NULL;
}
