/* The states of a job: its row, its events, how it is leased again, and how it ends. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "banned.h"

#define EVENTS_MAX     1000000 /* of a job */
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS (5 * 60 * 1000)

static const char *const STATE_NAMES[] = {"scheduled", "running", "completed", "failed",
                                          "cancelled"};

const char *job_state_name(enum job_state s)
{
    return STATE_NAMES[s];
}

int job_state_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(STATE_NAMES); i++)
        if (name && strcmp(STATE_NAMES[i], name) == 0)
            return (int)i;
    return -1;
}

static void column_copy(const struct db_rows *rows, unsigned i, char *ret, size_t size)
{
    const char *text = db_column_text(rows, i);
    snprintf(ret, size, "%s", text ? text : "");
}

int job_fetch(struct db *db, const char *user, const char *id, struct job_row *ret,
              struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err,
                     "SELECT id, owner, kind, ending, checkpoint, workspace_upload, workspace_job,"
                     " memory_from, state, live, attempt, max_attempts, failures, ended_token,"
                     " timeout_ms, started_at, ttl_ms, keep_ms, steps_done, steps_total,"
                     " last_event, attempt_events, stored_bytes, text_bytes FROM jobs"
                     " WHERE id = $1",
                     db_text(id));
    if (r == 0)
        r = db_next(&rows, err);
    if (r < 0)
        return r;
    const char *owner = r > 0 ? db_column_text(&rows, 1) : NULL;
    if (!owner || (user && strcmp(owner, user) != 0))
        return error_set(err, ENOENT, "there is no job %.40s", id);
    *ret = (struct job_row){
        .state = (enum job_state)job_state_of(db_column_text(&rows, 8)),
        .live = db_column_int(&rows, 9) != 0,
        .attempt = (unsigned)db_column_int(&rows, 10),
        .max_attempts = db_column_int(&rows, 11),
        .failures = db_column_int(&rows, 12),
        .ended_token = db_column_int(&rows, 13),
        .timeout_ms = db_column_int(&rows, 14),
        .started_at = db_column_int(&rows, 15),
        .ttl_ms = db_column_int(&rows, 16),
        .keep_ms = db_column_int(&rows, 17),
        .steps_done = db_column_int(&rows, 18),
        .steps_total = db_column_int(&rows, 19),
        .last_event = db_column_int(&rows, 20),
        .attempt_events = db_column_int(&rows, 21),
        .stored_bytes = db_column_int(&rows, 22),
        .text_bytes = db_column_int(&rows, 23),
    };
    column_copy(&rows, 0, ret->id, sizeof ret->id);
    column_copy(&rows, 1, ret->owner, sizeof ret->owner);
    column_copy(&rows, 2, ret->kind, sizeof ret->kind);
    column_copy(&rows, 3, ret->ending, sizeof ret->ending);
    column_copy(&rows, 4, ret->checkpoint, sizeof ret->checkpoint);
    column_copy(&rows, 5, ret->workspace_upload, sizeof ret->workspace_upload);
    column_copy(&rows, 6, ret->workspace_job, sizeof ret->workspace_job);
    column_copy(&rows, 7, ret->memory_from, sizeof ret->memory_from);
    return 0;
}

int job_fetch_json(struct db *db, const char *sql, const char *id, json_t **ret, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err, sql, db_text(id));
    if (r < 0 || (r = db_next(&rows, err)) < 0)
        return r;
    const char *text = r > 0 ? db_column_text(&rows, 0) : NULL;
    *ret = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    return text && !*ret ? error_set(err, ENOMEM, "out of memory") : 0;
}

int lease_lost(const struct lease *l, struct error *err)
{
    return error_set(err, ESTALE,
                     "the lease of job %.40s with token %u is lost: stop working on it", l->job,
                     l->token);
}

int job_fetch_leased(struct db *db, const struct lease *l, struct job_row *ret, struct error *err)
{
    int r = job_fetch(db, NULL, l->job, ret, err);
    if (r == -ENOENT || (r == 0 && (ret->state != JOB_RUNNING || ret->attempt != l->token)))
        return lease_lost(l, err);
    return r;
}

void job_count_text(struct job_row *row, size_t n)
{
    row->stored_bytes += (int64_t)n;
    row->text_bytes += (int64_t)n;
    row->text_added += (int64_t)n;
}

static int job_event_insert(struct db *db, struct job_row *row, const char *type, const char *body,
                            size_t n, struct error *err)
{
    char now[32], head[128];
    time_format(jobs_now(), now);
    int used = snprintf(head, sizeof head, "{\"seq\":%lld,\"time\":\"%s\",\"attempt\":%u%s",
                        (long long)++row->last_event, now, row->attempt, n > 2 ? "," : "");
    _cleanup_buf_ struct buf text = BUF_INIT(n + sizeof head);
    buf_append(&text, head, (size_t)used);
    if (buf_append(&text, body + 1, n - 1) < 0)
        return error_set(err, ENOMEM, "out of memory");
    int64_t r = DB_RUN(db, err, "INSERT INTO events (job, seq, type, text) VALUES ($1, $2, $3, $4)",
                       db_text(row->id), db_int(row->last_event), db_text(type),
                       db_text_n((const char *)text.data, text.len));
    job_count_text(row, text.len);
    return r < 0 ? (int)r : 0;
}

int job_event(struct db *db, struct job_row *row, const char *type, const char *body, size_t n,
              struct error *err)
{
    static const char DROPPED[] = "{\"type\":\"log\",\"text\":\"the job has too many events: "
                                  "further ones are dropped\"}";
    if (row->last_event > EVENTS_MAX || row->text_bytes > JOB_TEXT_MAX)
        return 0;
    if (row->last_event == EVENTS_MAX || row->text_bytes + (int64_t)n > JOB_TEXT_MAX) {
        row->text_bytes = JOB_TEXT_MAX;
        return job_event_insert(db, row, "log", DROPPED, strlen(DROPPED), err);
    }
    return job_event_insert(db, row, type, body, n, err);
}

static int job_event_json(struct db *db, struct job_row *row, json_t *event, bool always,
                          struct error *err)
{
    const char *type = json_get_string(event, "type");
    _cleanup_free_ char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
    int r = !text    ? error_set(err, ENOMEM, "out of memory")
            : always ? job_event_insert(db, row, type, text, strlen(text), err)
                     : job_event(db, row, type, text, strlen(text), err);
    json_decref(event);
    return r;
}

int job_log(struct db *db, struct job_row *row, struct error *err, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return job_event_json(db, row, json_pack("{s:s, s:s}", "type", "log", "text", text), false,
                          err);
}

static int job_event_state(struct db *db, struct job_row *row, enum job_state state,
                           const char *exit_reason, const char *error, struct error *err)
{
    return job_event_json(db, row,
                          json_pack("{s:s, s:s, s:s?, s:s?}", "type", "state", "state",
                                    STATE_NAMES[state], "exit_reason", exit_reason, "error", error),
                          true, err);
}

int job_save(struct db *db, struct job_change *c, struct job_row *row, struct error *err)
{
    int64_t r =
        DB_RUN(db, err,
               "UPDATE jobs SET last_event = $2, attempt_events = $3, steps_done = $4,"
               " checkpoint = $5, stored_bytes = $6, text_bytes = $7, ended_token = $8"
               " WHERE id = $1",
               db_text(row->id), db_int(row->last_event), db_int(row->attempt_events),
               db_int(row->steps_done), db_text(row->checkpoint[0] ? row->checkpoint : NULL),
               db_int(row->stored_bytes), db_int(row->text_bytes), db_int(row->ended_token));
    if (r >= 0 && row->text_added)
        r = user_add_stored(db, row->owner, row->text_added, NO_LIMIT, err);
    row->text_added = 0;
    return r < 0 ? (int)r
                 : job_change_effect(c, row->id, (struct effect){.kind = EFFECT_CHANGED}, err);
}

/* --- how it ends --- */

int job_set_checkpoint(struct db *db, struct job_row *row, const char *upload, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int64_t bytes = 0;
    int r = DB_QUERY(db, &rows, err,
                     "DELETE FROM uploads WHERE job = $1 AND id <> $2 RETURNING id, size",
                     db_text(row->id), db_text(upload));
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        _cleanup_free_ char *name = str_printf("checkpoint.%s", db_column_text(&rows, 0));
        _cleanup_free_ char *path = name ? job_path(row->id, name) : NULL;
        bytes += db_column_int(&rows, 1);
        r = path ? garbage_add(db, path, err) : error_set(err, ENOMEM, "out of memory");
    }
    db_rows_done(&rows);
    row->stored_bytes -= bytes;
    snprintf(row->checkpoint, sizeof row->checkpoint, "%s", upload);
    return r < 0 || bytes == 0 ? r : user_add_stored(db, row->owner, -bytes, NO_LIMIT, err);
}

static int job_end_one(struct db *db, struct job_change *c, struct job_row *row,
                       enum job_state state, const char *exit_reason, const char *error,
                       struct error *err)
{
    int64_t now = jobs_now();
    int r = job_set_checkpoint(db, row, "", err); /* of no use any more */
    if (r == 0)
        r = job_event_state(db, row, state, exit_reason, error, err);
    if (r == 0)
        r = job_save(db, c, row, err);
    if (r < 0)
        return r;
    if (DB_RUN(db, err,
               "UPDATE jobs SET state = $2, exit_reason = $3, error = $4, finished_at = $5,"
               " remove_at = CASE WHEN keep_ms < 0 THEN 0 ELSE $5 + keep_ms END, ready = 0,"
               " backoff_ms = 0, later_at = 0, waits_for = 0, ending = NULL WHERE id = $1",
               db_text(row->id), db_text(STATE_NAMES[state]), db_text(exit_reason), db_text(error),
               db_int(now)) < 0)
        return -EIO;
    row->state = state;
    return job_change_effect(c, row->id, (struct effect){.kind = EFFECT_ENDED}, err);
}

struct job_end_list {
    struct {
        char job[JOB_ID_LEN + 1];
        bool required;
    } * items;
    size_t n, room;
};

static void job_end_list_free(struct job_end_list *l)
{
    free(l->items);
}

static int job_end_list_dependents(struct db *db, const char *id, struct job_end_list *ret,
                                   struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    ret->n = 0;
    int r = DB_QUERY(db, &rows, err,
                     "SELECT d.job, d.required FROM dependencies d WHERE d.needs = $1 AND"
                     " (SELECT j.state FROM jobs j WHERE j.id = d.job) = 'scheduled'",
                     db_text(id));
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        r = 0;
        if (!ARRAY_GROW(ret->items, ret->n, ret->room))
            return error_set(err, ENOMEM, "out of memory");
        column_copy(&rows, 0, ret->items[ret->n].job, sizeof ret->items[0].job);
        ret->items[ret->n++].required = db_column_int(&rows, 1) != 0;
    }
    return r;
}

/* One of the jobs that it waited for has ended. */
static int job_wait_less(struct db *db, struct job_change *c, const char *id, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err,
                     "UPDATE jobs SET waits_for = waits_for - 1, ready = CASE WHEN waits_for = 1"
                     " AND not_before <= $2 THEN 1 ELSE 0 END, later_at = CASE WHEN waits_for = 1"
                     " AND not_before > $2 THEN not_before ELSE 0 END WHERE id = $1"
                     " RETURNING ready",
                     db_text(id), db_int(jobs_now()));
    if (r < 0 || (r = db_next(&rows, err)) <= 0)
        return r;
    return job_change_effect(
        c, id, (struct effect){.kind = db_column_int(&rows, 0) ? EFFECT_READY : EFFECT_CHANGED},
        err);
}

int job_end(struct db *db, struct job_change *c, struct job_row *row, enum job_state state,
            const char *exit_reason, const char *error, struct error *err)
{
    /* Jobs that ended here, whose dependents are not looked at yet: failures go down the chain. */
    _cleanup_(job_end_list_free) struct job_end_list ended = {0}, dependents = {0};
    int r = job_end_one(db, c, row, state, exit_reason, error, err);
    char id[JOB_ID_LEN + 1];
    memcpy(id, row->id, sizeof id);
    bool failed = state != JOB_COMPLETED;
    while (r == 0) {
        r = job_end_list_dependents(db, id, &dependents, err);
        for (size_t i = 0; i < dependents.n && r == 0; i++) {
            const char *other = dependents.items[i].job;
            struct job_row waiting;
            char why[80];
            if (!failed || !dependents.items[i].required) {
                r = job_wait_less(db, c, other, err);
                continue;
            }
            snprintf(why, sizeof why, "job %s, which it comes after, did not complete", id);
            r = job_fetch(db, NULL, other, &waiting, err);
            if (r == 0)
                r = job_end_one(db, c, &waiting, JOB_FAILED, "dependency_failed", why, err);
            if (r == 0 && !ARRAY_GROW(ended.items, ended.n, ended.room))
                r = error_set(err, ENOMEM, "out of memory");
            if (r == 0)
                memcpy(ended.items[ended.n++].job, other, sizeof id);
        }
        if (r < 0 || ended.n == 0)
            break;
        memcpy(id, ended.items[--ended.n].job, sizeof id);
        failed = true;
    }
    return r;
}

int job_end_as(struct db *db, struct job_change *c, struct job_row *row, const char *ending,
               struct error *err)
{
    if (strcmp(ending, "timeout") == 0)
        return job_end(db, c, row, JOB_FAILED, "timeout", "the job's time is over", err);
    if (strcmp(ending, "idle") == 0) {
        int r = job_log(db, row, err, "ended: nobody used it for its ttl of %lld s",
                        (long long)row->ttl_ms / 1000);
        return r < 0 ? r : job_end(db, c, row, JOB_COMPLETED, "completed", NULL, err);
    }
    return job_end(db, c, row, JOB_CANCELLED, "cancelled", NULL, err);
}

int job_requeue(struct db *db, struct job_change *c, struct job_row *row, int64_t backoff_ms,
                struct error *err)
{
    int r = job_event_state(db, row, JOB_SCHEDULED, NULL, NULL, err);
    if (r == 0)
        r = job_save(db, c, row, err);
    if (r < 0)
        return r;
    if (DB_RUN(db, err,
               "UPDATE jobs SET state = 'scheduled', worker = NULL, ready = $2, backoff_ms = $3,"
               " failures = $4, last_event = $5, attempt_events = $6 WHERE id = $1",
               db_text(row->id), db_int(backoff_ms == 0), db_int(backoff_ms), db_int(row->failures),
               db_int(row->last_event), db_int(row->attempt_events)) < 0)
        return -EIO;
    return job_change_effect(c, row->id, (struct effect){.kind = EFFECT_WAITING, .ms = backoff_ms},
                             err);
}

int64_t job_backoff_ms(int64_t failures)
{
    int64_t ms = BACKOFF_MIN_MS;
    for (int64_t i = 1; i < failures && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

int job_fault(struct db *db, struct job_change *c, struct job_row *row, const char *exit_reason,
              const char *error, struct error *err)
{
    if (row->live && watch_ran_long(c->jobs->watches, row->id))
        row->failures = 0;
    row->failures++;
    if (row->failures >= row->max_attempts)
        return job_end(db, c, row, JOB_FAILED, exit_reason, error, err);
    int64_t backoff = job_backoff_ms(row->failures);
    int r = job_log(db, row, err, "attempt %u failed: %s; the next one begins in %lld s",
                    row->attempt, error ? error : exit_reason, (long long)backoff / 1000);
    return r < 0 ? r : job_requeue(db, c, row, backoff, err);
}

int job_set_ending(struct db *db, struct job_change *c, struct job_row *row, const char *ending,
                   struct error *err)
{
    if (row->ending[0])
        return 0;
    if (DB_RUN(db, err, "UPDATE jobs SET ending = $2 WHERE id = $1", db_text(row->id),
               db_text(ending)) < 0)
        return -EIO;
    return job_change_effect(c, row->id, (struct effect){.kind = EFFECT_CANCEL}, err);
}
