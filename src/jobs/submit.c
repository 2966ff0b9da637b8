/* Submission: a spec becomes a row; what it refers to is checked in the same change. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "options.h"
#include "banned.h"

#define MAX_ATTEMPTS   3
#define TITLE_MAX      120
#define REFERENCES_MAX 1000 /* jobs in `after` */

struct submit_change {
    struct job_change base;
    const struct job_submission *s;
    char id[JOB_ID_LEN + 1], existing[JOB_ID_LEN + 1];
    char hash[2 * crypto_generichash_BYTES + 1];
    char *spec, *title, *labels, *after;
    bool live;
    int64_t now, not_before, timeout_ms, keep_ms;
    int64_t waits_for;
    bool dependency_failed;
};

static void submit_free(struct submit_change *c)
{
    free(c->spec);
    free(c->title);
    free(c->labels);
    free(c->after);
}

/* --- what the spec says --- */

static json_t *spec_get(const struct job_submission *s, const char *name)
{
    return json_object_get(s->spec, name);
}

static const char *spec_workspace(const struct job_submission *s, const char *name)
{
    return json_get_string(spec_get(s, "workspace"), name);
}

static bool kind_is_live(const char *kind)
{
    return strcmp(kind, "steps") != 0 && strcmp(kind, "goal") != 0;
}

/* Its own, or the beginning of the goal, or the tools of the steps. */
static char *spec_title(const struct job_submission *s)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    const json_t *goal = spec_get(s, "goal"), *steps = spec_get(s, "steps");
    const char *prompt =
        json_is_object(goal) ? json_get_string(goal, "prompt") : json_string_value(goal);
    const char *title = json_get_string(s->spec, "title");
    if (!title)
        title = prompt ? prompt : "";
    buf_append_str(&text, title);
    for (size_t i = 0; !*title && i < json_array_size(steps) && text.len < TITLE_MAX; i++)
        buf_printf(&text, "%s%s", i ? ", " : "",
                   json_get_string_or(json_array_get(steps, i), "tool", "?"));
    const char *newline = memchr(text.data ? text.data : (uint8_t *)"", '\n', text.len);
    size_t n = newline ? (size_t)((const uint8_t *)newline - text.data) : text.len;
    return foreign_text((const char *)text.data, n, TITLE_MAX);
}

static int spec_time(const struct job_submission *s, const char *name, int64_t fallback,
                     int64_t *ret_ms, struct error *err)
{
    const char *text = json_get_string(s->spec, name);
    int64_t ns;
    if (text && units_parse_time(text, &ns) < 0)
        return error_set(err, EINVAL, "%s: '%.40s' is not a time like 10m or 7d", name, text);
    *ret_ms = text ? ns / NS_PER_MS : fallback;
    return 0;
}

static int submit_prepare(struct submit_change *c, struct error *err)
{
    const struct job_submission *s = c->s;
    unsigned char hash[crypto_generichash_BYTES];
    const char *not_before = json_get_string(s->spec, "not_before");
    int r = user_name_check(s->user, err);
    if (r < 0)
        return r;
    c->live = kind_is_live(s->kind);
    c->now = jobs_now();
    c->not_before = not_before ? time_parse(not_before) : 0;
    if (c->not_before < 0)
        return error_set(err, EINVAL, "not_before: '%.40s' is not a time like 2026-01-31T12:00:00Z",
                         not_before);
    if ((r = spec_time(s, "timeout", 0, &c->timeout_ms, err)) < 0 ||
        (r = spec_time(s, "keep", -1, &c->keep_ms, err)) < 0)
        return r;
    if (json_array_size(spec_get(s, "after")) > REFERENCES_MAX)
        return error_set(err, EINVAL, "after: more than %d jobs", REFERENCES_MAX);
    json_t *labels = spec_get(s, "labels"), *after = spec_get(s, "after");
    c->spec = json_dumps(s->spec, JSON_COMPACT | JSON_SORT_KEYS);
    c->title = spec_title(s);
    c->labels = labels ? json_dumps(labels, JSON_COMPACT) : NULL;
    c->after = after ? json_dumps(after, JSON_COMPACT) : NULL;
    if (!c->spec || !c->title || (labels && !c->labels) || (after && !c->after))
        return error_set(err, ENOMEM, "out of memory");
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    crypto_generichash_update(&state, (const unsigned char *)s->kind, strlen(s->kind) + 1);
    crypto_generichash_update(&state, (const unsigned char *)c->spec, strlen(c->spec));
    crypto_generichash_final(&state, hash, sizeof hash);
    sodium_bin2hex(c->hash, sizeof c->hash, hash, sizeof hash);
    return 0;
}

/* --- the change --- */

/* 1: the client's key was used before, for the same. */
static int submit_find_existing(struct db *db, struct submit_change *c, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    c->existing[0] = 0;
    if (!c->s->idempotency)
        return 0;
    int r = DB_QUERY(db, &rows, err,
                     "SELECT id, spec_hash FROM jobs WHERE owner = $1 AND idempotency = $2",
                     db_text(c->s->user), db_text(c->s->idempotency));
    if (r < 0 || (r = db_next(&rows, err)) <= 0)
        return r;
    if (strcmp(db_column_text(&rows, 1), c->hash) != 0)
        return error_set(err, EEXIST,
                         "the Idempotency-Key was used for another job (%s); use a new one",
                         db_column_text(&rows, 0));
    snprintf(c->existing, sizeof c->existing, "%s", db_column_text(&rows, 0));
    return 1;
}

static int submit_check_limits(struct db *db, struct submit_change *c, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = 0;
    if (c->live && c->s->max_live) {
        r = DB_QUERY(db, &rows, err,
                     "SELECT count(*) FROM jobs WHERE owner = $1 AND live = 1"
                     " AND state IN ('scheduled', 'running')",
                     db_text(c->s->user));
        if (r < 0 || (r = db_next(&rows, err)) < 0)
            return r;
        if ((uint64_t)db_column_int(&rows, 0) >= c->s->max_live)
            return error_set(err, EBUSY,
                             "%s has %llu live boxes, sessions and environments, which is the "
                             "limit; delete one",
                             c->s->user, (unsigned long long)c->s->max_live);
    }
    return user_add_stored(db, c->s->user, (int64_t)strlen(c->spec), c->s->max_stored, err);
}

/* A job that this one needs: waits for it, unless it has ended. */
static int submit_need(struct db *db, struct submit_change *c, const char *field, const char *id,
                       bool required, struct error *err)
{
    struct job_row other;
    int r = id ? job_fetch(db, c->s->user, id, &other, err) : 0;
    if (!id || (r < 0 && r != -ENOENT))
        return r;
    if (r == -ENOENT)
        return error_wrap(err, "%s", field);
    if (job_has_ended(&other))
        c->dependency_failed |= required && other.state != JOB_COMPLETED;
    /* Also for one that has ended: its files stay while this job may need them. */
    int64_t n = DB_RUN(db, err,
                       "INSERT INTO dependencies (job, needs, required) VALUES ($1, $2, $3)"
                       " ON CONFLICT DO NOTHING",
                       db_text(c->id), db_text(id), db_int(required));
    if (n > 0 && !job_has_ended(&other))
        c->waits_for++;
    return n < 0 ? (int)n : 0;
}

static int submit_check_upload(struct db *db, struct submit_change *c, struct error *err)
{
    const char *id = spec_workspace(c->s, "upload");
    _cleanup_rows_ struct db_rows rows = {0};
    if (!id)
        return 0;
    int r = DB_QUERY(db, &rows, err,
                     "SELECT 1 FROM uploads WHERE id = $1 AND owner = $2 AND job IS NULL",
                     db_text(id), db_text(c->s->user));
    if (r == 0)
        r = db_next(&rows, err);
    return r < 0    ? r
           : r == 0 ? error_set(err, ENOENT, "workspace: there is no upload %.40s", id)
                    : 0;
}

static int submit_references(struct db *db, struct submit_change *c, struct error *err)
{
    const json_t *after = spec_get(c->s, "after");
    int r = 0;
    c->waits_for = 0;
    c->dependency_failed = false;
    for (size_t i = 0; i < json_array_size(after) && r == 0; i++)
        r = submit_need(db, c, "after", json_string_value(json_array_get(after, i)), true, err);
    if (r == 0)
        r = submit_need(db, c, "workspace", spec_workspace(c->s, "job"), false, err);
    if (r == 0)
        r = submit_need(db, c, "memory_from", json_get_string(c->s->spec, "memory_from"), false,
                        err);
    return r < 0 ? r : submit_check_upload(db, c, err);
}

static int submit_insert(struct db *db, struct submit_change *c, struct error *err)
{
    const struct job_submission *s = c->s;
    json_t *attempts = spec_get(s, "max_attempts");
    bool leased = s->leased_to != NULL;
    bool unblocked = !leased && !c->dependency_failed && c->waits_for == 0;
    bool ready = unblocked && c->not_before <= c->now;
    int64_t r = DB_RUN(
        db, err,
        "INSERT INTO jobs (id, owner, kind, live, state, title, labels, priority, created_at,"
        " not_before, started_at, keep_ms, timeout_ms, ttl_ms, ready, waits_for, attempt,"
        " max_attempts, worker, steps_total, after_ids, memory_from, workspace_job,"
        " workspace_upload, idempotency, spec_hash, later_at, stored_bytes, text_bytes)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,"
        " $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $28)",
        db_text(c->id), db_text(s->user), db_text(s->kind), db_int(c->live),
        db_text(job_state_name(leased ? JOB_RUNNING : JOB_SCHEDULED)), db_text(c->title),
        db_text(c->labels), db_int(json_get_integer(s->spec, "priority")), db_int(c->now),
        db_int(c->not_before), db_int(leased ? c->now : 0), db_int(c->keep_ms),
        db_int(c->timeout_ms), db_int(s->ttl_ms), db_int(ready), db_int(c->waits_for),
        db_int(leased), db_int(attempts ? json_integer_value(attempts) : MAX_ATTEMPTS),
        db_text(s->leased_to), db_int((int64_t)json_array_size(spec_get(s, "steps"))),
        db_text(c->after), db_text(json_get_string(s->spec, "memory_from")),
        db_text(spec_workspace(s, "job")), db_text(spec_workspace(s, "upload")),
        db_text(s->idempotency), db_text(c->hash), db_int(unblocked && !ready ? c->not_before : 0),
        db_int((int64_t)strlen(c->spec)));
    if (r >= 0)
        r = DB_RUN(db, err, "INSERT INTO specs (job, spec) VALUES ($1, $2)", db_text(c->id),
                   db_text(c->spec));
    const char *name;
    json_t *value;
    json_object_foreach(spec_get(s, "labels"), name, value)
    {
        if (r >= 0)
            r = DB_RUN(db, err, "INSERT INTO labels (job, name, value) VALUES ($1, $2, $3)",
                       db_text(c->id), db_text(name), db_text(json_string_value(value)));
    }
    if (r < 0)
        return (int)r;
    return job_change_effect(&c->base, c->id,
                             (struct effect){.kind = ready ? EFFECT_READY : EFFECT_CHANGED}, err);
}

/* The timers of a live job; a lease, if its worker runs it already. */
static int submit_live(struct submit_change *c, struct error *err)
{
    struct effect live = {.kind = EFFECT_LIVE, .ms = c->s->ttl_ms};
    int r = live.ms > 0 ? job_change_effect(&c->base, c->id, live, err) : 0;
    if (r < 0 || !c->s->leased_to)
        return r;
    struct effect leased = {
        .kind = EFFECT_LEASED, .token = 1, .worker = c->s->leased_to, .deadline_ms = c->timeout_ms};
    return job_change_effect(&c->base, c->id, leased, err);
}

static int submit_run(struct db *db, struct job_change *change, struct error *err)
{
    struct submit_change *c = (struct submit_change *)change;
    int r = submit_find_existing(db, c, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = submit_check_limits(db, c, err);
    if (r == 0)
        r = submit_references(db, c, err);
    if (r == 0)
        r = submit_insert(db, c, err);
    if (r == 0)
        r = submit_live(c, err);
    if (r < 0 || !c->dependency_failed)
        return r;
    struct job_row row;
    r = job_fetch(db, NULL, c->id, &row, err);
    return r < 0 ? r
                 : job_end(db, change, &row, JOB_FAILED, "dependency_failed",
                           "a job in `after` did not complete", err);
}

int jobs_submit(struct jobs *j, const struct job_submission *s, char ret_id[JOB_ID_LEN + 1],
                bool *ret_existed, struct error *err)
{
    _cleanup_(submit_free) struct submit_change c = {.base = JOB_CHANGE(submit_run), .s = s};
    int r = submit_prepare(&c, err);
    if (r < 0)
        return r;
    job_id_make(j, c.id);
    if ((r = job_change_commit(j, &c.base, err)) < 0)
        return r;
    memcpy(ret_id, c.existing[0] ? c.existing : c.id, JOB_ID_LEN + 1);
    if (ret_existed)
        *ret_existed = c.existing[0] != 0;
    return 0;
}

int jobs_repeat(struct jobs *j, const char *user, const char *id, char ret_id[JOB_ID_LEN + 1],
                struct error *err)
{
    struct db *db = store_reader(j->store, true, err);
    struct job_row row;
    _cleanup_json_ json_t *spec = NULL;
    int r = db ? job_fetch(db, user, id, &row, err) : -EIO;
    if (r == 0)
        r = job_fetch_json(db, "SELECT spec FROM specs WHERE job = $1", id, &spec, err);
    store_reader_done(j->store, db);
    if (r < 0)
        return r;
    struct job_submission s = {
        .user = row.owner, .kind = row.kind, .spec = spec, .ttl_ms = row.ttl_ms};
    return jobs_submit(j, &s, ret_id, NULL, err);
}
