/*
 * What a worker says about a job that it runs. Each change checks the lease first, in the same
 * transaction. A request that is repeated because its answer was lost is recognized: events by their
 * number, a step by its number, a finish by its token.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "banned.h"

#define EVENT_MAX      (60u << 10) /* what serve.h's FEED_MAX has room for */
#define BATCH_MAX      10000       /* events in one request */
#define RESULT_MAX     (8u << 20)
#define TYPE_MAX       32
#define ERROR_LINE_MAX 500

struct attempt_change {
    struct job_change base;
    const struct lease *lease;
    const json_t *body, *events;
    uint64_t first, next;
    char **texts; /* of the events */
    size_t n_texts;
};

static void attempt_free(struct attempt_change *c)
{
    for (size_t i = 0; i < c->n_texts; i++)
        free(c->texts[i]);
    free(c->texts);
}

/* --- events --- */

static bool event_type_is_valid(const char *type)
{
    return type && *type && strlen(type) <= TYPE_MAX &&
           type[strspn(type, "abcdefghijklmnopqrstuvwxyz_")] == 0 && strcmp(type, "state") != 0;
}

/* Of an event that is too long: its type, and strings and numbers as far as there is room. */
static json_t *event_shorten(const json_t *event)
{
    json_t *brief = json_pack("{s:O, s:b}", "type", json_object_get(event, "type"), "truncated", 1);
    json_t *value;
    const char *name;
    size_t room = EVENT_MAX / 6; /* each byte of a string may need six in JSON */
    json_object_foreach((json_t *)event, name, value)
    {
        const char *text = json_string_value(value);
        size_t n = text ? json_string_length(value) : 0, used = strlen(name) + 32;
        if (used > room || strcmp(name, "type") == 0 || json_is_object(value) ||
            json_is_array(value))
            continue;
        if (n > room - used)
            n = room - used - utf8_cut_end((const uint8_t *)text, room - used);
        room -= used + n;
        json_object_set_new(brief, name, text ? json_stringn(text, n) : json_incref(value));
    }
    return brief;
}

/* The event as text, without the members that the server sets; a new string. */
static int event_text(const json_t *event, char **ret, struct error *err)
{
    if (!json_is_object(event) || !event_type_is_valid(json_get_string(event, "type")))
        return error_set(err, EINVAL, "an event needs a type other than `state`");
    _cleanup_json_ json_t *copy = json_copy((json_t *)event);
    json_object_del(copy, "seq");
    json_object_del(copy, "time");
    json_object_del(copy, "attempt");
    char *text = copy ? json_dumps(copy, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    if (text && strlen(text) > EVENT_MAX) {
        _cleanup_json_ json_t *brief = event_shorten(copy);
        free(text);
        text = brief ? json_dumps(brief, JSON_COMPACT) : NULL;
    }
    if (!text)
        return error_set(err, ENOMEM, "out of memory");
    *ret = text;
    return 0;
}

/* Outside of the writer, since it may take long. */
static int attempt_prepare_events(struct attempt_change *c, struct error *err)
{
    size_t n = json_array_size(c->events);
    if (n > BATCH_MAX)
        return error_set(err, EINVAL, "more than %d events in one request", BATCH_MAX);
    if (n > 0 && !(c->texts = calloc(n, sizeof *c->texts)))
        return error_set(err, ENOMEM, "out of memory");
    int r = 0;
    for (; c->n_texts < n && r == 0; c->n_texts += r == 0)
        r = event_text(json_array_get(c->events, c->n_texts), &c->texts[c->n_texts], err);
    return r;
}

static int outcome_set(struct db *db, const char *id, const char *member, const json_t *value,
                       struct error *err)
{
    static const struct {
        const char *member, *sql;
    } COLUMNS[] = {
#define OUTCOME(name)                                                                              \
    {#name, "INSERT INTO outcomes (job, " #name ") VALUES ($1, $2)"                                \
            " ON CONFLICT (job) DO UPDATE SET " #name " = excluded." #name}
        OUTCOME(result),
        OUTCOME(usage),
        OUTCOME(plan),
        OUTCOME(resume),
    };
    if (!value || json_is_null(value))
        return 0;
    _cleanup_free_ char *text =
        json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (!text)
        return error_set(err, ENOMEM, "out of memory");
    if (strlen(text) > RESULT_MAX)
        return error_set(err, EINVAL, "%s is longer than 8 MiB", member);
    int64_t r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(COLUMNS); i++)
        if (strcmp(COLUMNS[i].member, member) == 0)
            r = DB_RUN(db, err, COLUMNS[i].sql, db_text(id), db_text(text));
    return r < 0 ? (int)r : 0;
}

static int attempt_add_events(struct db *db, struct attempt_change *c, struct job_row *row,
                              struct error *err)
{
    const json_t *plan = NULL;
    uint64_t have = (uint64_t)row->attempt_events;
    if (c->n_texts > 0 && c->first > have)
        return error_set(err, EINVAL,
                         "the events from %llu on are missing; send them before number %llu",
                         (unsigned long long)have, (unsigned long long)c->first);
    int r = 0;
    for (size_t i = 0; i < c->n_texts && r == 0; i++) {
        const json_t *event = json_array_get(c->events, i);
        const char *type = json_get_string(event, "type");
        if (c->first + i < have)
            continue;
        r = job_event(db, row, type, c->texts[i], strlen(c->texts[i]), err);
        row->attempt_events++;
        if (strcmp(type, "plan") == 0)
            plan = json_object_get(event, "items");
    }
    c->next = (uint64_t)row->attempt_events;
    return r < 0 ? r : outcome_set(db, row->id, "plan", plan, err);
}

static int attempt_commit(struct jobs *j, struct attempt_change *c, struct error *err)
{
    int r =
        c->lease->token > TOKEN_MAX ? lease_lost(c->lease, err) : attempt_prepare_events(c, err);
    return r < 0 ? r : job_change_commit(j, &c->base, err);
}

static int events_run(struct db *db, struct job_change *change, struct error *err)
{
    struct attempt_change *c = (struct attempt_change *)change;
    struct job_row row;
    int r = job_fetch_leased(db, c->lease, &row, err);
    if (r == 0)
        r = attempt_add_events(db, c, &row, err);
    return r < 0 ? r : job_save(db, change, &row, err);
}

int jobs_lease_events(struct jobs *j, const struct lease *l, uint64_t first, const json_t *events,
                      uint64_t *ret_next, struct error *err)
{
    _cleanup_(attempt_free) struct attempt_change c = {
        .base = JOB_CHANGE(events_run), .lease = l, .first = first, .events = events};
    int r = attempt_commit(j, &c, err);
    if (r == 0 && ret_next)
        *ret_next = c.next;
    return r;
}

/* --- steps --- */

/* What is left of a result when the job has no room for it. */
static json_t *step_without_output(const json_t *result)
{
    return json_pack("{s:O?, s:O?, s:O?, s:b}", "tool", json_object_get(result, "tool"), "failed",
                     json_object_get(result, "failed"), "seconds",
                     json_object_get(result, "seconds"), "dropped", true);
}

static int step_add(struct db *db, struct job_row *row, const json_t *result, struct error *err)
{
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15);
    char *text = json_dumps(result, flags);
    if (text &&
        (strlen(text) > RESULT_MAX || row->text_bytes + (int64_t)strlen(text) > JOB_TEXT_MAX)) {
        _cleanup_json_ json_t *less = step_without_output(result);
        free(text);
        text = json_dumps(less, flags);
    }
    if (!text)
        return error_set(err, ENOMEM, "out of memory");
    int64_t r = DB_RUN(db, err, "INSERT INTO steps (job, step, result) VALUES ($1, $2, $3)",
                       db_text(row->id), db_int(row->steps_done), db_text(text));
    row->steps_done++;
    job_count_text(row, strlen(text));
    free(text);
    return r < 0 ? (int)r : 0;
}

static int step_set_checkpoint(struct db *db, struct job_row *row, const char *upload,
                               struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err, "SELECT 1 FROM uploads WHERE id = $1 AND job = $2",
                     db_text(upload), db_text(row->id));
    if (r < 0 || (r = db_next(&rows, err)) < 0)
        return r;
    if (r == 0)
        return error_set(err, EINVAL, "checkpoint: there is no upload %.40s of this job", upload);
    db_rows_done(&rows);
    return job_set_checkpoint(db, row, upload, err);
}

/* "log" of /step and /finish: {"offset", "text"}. */
static int attempt_add_log(struct db *db, struct attempt_change *c, struct job_row *row,
                           struct error *err)
{
    const json_t *log = json_object_get(c->body, "log"), *text = json_object_get(log, "text");
    json_int_t offset = json_get_integer(log, "offset");
    if (!json_is_string(text))
        return 0;
    if (offset < 0 || offset > INT64_MAX / 2)
        return error_set(err, EINVAL, "log.offset is out of range");
    /* The end of a step or of a job needs no room. */
    return files_add_log(db, c->base.jobs, row, json_string_value(text), json_string_length(text),
                         (uint64_t)offset, UINT64_MAX, err);
}

/* Before the change, for attempt_add_log. */
static int attempt_make_folder(struct jobs *j, const struct attempt_change *c, struct error *err)
{
    _cleanup_free_ char *path =
        job_id_is_valid(c->lease->job) ? job_path(c->lease->job, "agent.log") : NULL;
    if (!path || !json_is_object(json_object_get(c->body, "log")))
        return 0;
    if (jobs_lease_check(j, c->lease, NULL, NULL, NULL) < 0)
        return 0; /* the change says why */
    return folder_make_parents(j->folder, path, err);
}

static int step_run(struct db *db, struct job_change *change, struct error *err)
{
    struct attempt_change *c = (struct attempt_change *)change;
    const char *checkpoint = json_get_string(c->body, "checkpoint");
    int64_t step = json_get_integer(c->body, "step");
    struct job_row row;
    int r = job_fetch_leased(db, c->lease, &row, err);
    if (r < 0 || step < row.steps_done)
        return r;
    if (step > row.steps_done)
        return error_set(err, EINVAL, "step %lld is not the next one, which is %lld",
                         (long long)step, (long long)row.steps_done);
    r = step_add(db, &row, json_object_get(c->body, "result"), err);
    if (r == 0 && checkpoint)
        r = step_set_checkpoint(db, &row, checkpoint, err);
    if (r == 0)
        r = attempt_add_events(db, c, &row, err);
    if (r == 0)
        r = attempt_add_log(db, c, &row, err);
    return r < 0 ? r : job_save(db, change, &row, err);
}

static void attempt_read_body(struct attempt_change *c, const json_t *body)
{
    c->body = body;
    c->first = (uint64_t)json_get_integer(body, "first");
    c->events = json_object_get(body, "events");
}

int jobs_lease_step(struct jobs *j, const struct lease *l, const json_t *body, struct error *err)
{
    _cleanup_(attempt_free) struct attempt_change c = {.base = JOB_CHANGE(step_run), .lease = l};
    attempt_read_body(&c, body);
    int r = attempt_make_folder(j, &c, err);
    return r < 0 ? r : attempt_commit(j, &c, err);
}

/* --- the end of an attempt --- */

static int finish_store(struct db *db, struct attempt_change *c, struct job_row *row,
                        struct error *err)
{
    static const char *const MEMBERS[] = {"result", "usage", "plan", "resume"};
    const json_t *cost = json_object_get(c->body, "cost");
    const json_t *steps = json_object_get(c->body, "steps");
    int r = attempt_add_events(db, c, row, err);
    if (r == 0)
        r = attempt_add_log(db, c, row, err);
    for (size_t i = 0; i < json_array_size(steps) && r == 0; i++)
        r = step_add(db, row, json_array_get(steps, i), err);
    for (size_t i = 0; i < ARRAY_SIZE(MEMBERS) && r == 0; i++)
        r = outcome_set(db, row->id, MEMBERS[i], json_object_get(c->body, MEMBERS[i]), err);
    if (r < 0 || !json_is_number(cost))
        return r;
    double dollars = json_number_value(cost);
    int64_t n = DB_RUN(db, err, "UPDATE jobs SET cost = coalesce(cost, 0) + $2 WHERE id = $1",
                       db_text(row->id), db_real(dollars));
    if (n >= 0)
        n = DB_RUN(db, err,
                   "INSERT INTO users (name, cost) VALUES ($1, $2)"
                   " ON CONFLICT (name) DO UPDATE SET cost = users.cost + excluded.cost",
                   db_text(row->owner), db_real(dollars));
    return n < 0 ? (int)n : 0;
}

static int finish_run(struct db *db, struct job_change *change, struct error *err)
{
    struct attempt_change *c = (struct attempt_change *)change;
    const char *name = json_get_string_or(c->body, "state", "failed");
    _cleanup_free_ char *error = NULL;
    const char *line = json_get_string(c->body, "error");
    int state = job_state_of(name);
    struct job_row row;
    int r = job_fetch(db, NULL, c->lease->job, &row, err);
    if (r == 0 && row.ended_token == c->lease->token)
        return 0; /* the answer was lost */
    if (r == -ENOENT || (r == 0 && (row.state != JOB_RUNNING || row.attempt != c->lease->token)))
        return lease_lost(c->lease, err);
    if (r < 0)
        return r;
    bool release = json_get_bool(c->body, "release");
    if (!release && state < JOB_COMPLETED)
        return error_set(err, EINVAL, "state: '%.40s' is not the end of an attempt", name);
    const char *exit_reason =
        json_get_string_or(c->body, "exit_reason", strcmp(name, "failed") == 0 ? "error" : name);
    if (line && !(error = foreign_text(line, strlen(line), ERROR_LINE_MAX)))
        return error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; error && error[i]; i++)
        if (error[i] == '\n' || error[i] == '\t')
            error[i] = ' ';
    r = finish_store(db, c, &row, err);
    row.ended_token = c->lease->token;
    if (r < 0)
        return r;
    if (row.ending[0])
        return job_end_as(db, change, &row, row.ending, err);
    if (release)
        return job_requeue(db, change, &row, 0, err);
    if (state == JOB_FAILED && json_get_bool(c->body, "retry"))
        return job_fault(db, change, &row, exit_reason, error, err);
    return job_end(db, change, &row, (enum job_state)state, exit_reason, error, err);
}

int jobs_lease_finish(struct jobs *j, const struct lease *l, const json_t *body, struct error *err)
{
    _cleanup_(attempt_free) struct attempt_change c = {.base = JOB_CHANGE(finish_run), .lease = l};
    attempt_read_body(&c, body);
    int r = attempt_make_folder(j, &c, err);
    if (r == 0)
        r = attempt_commit(j, &c, err);
    return r < 0 ? r : files_sync_log(j, l->job, err);
}

static int resume_run(struct db *db, struct job_change *change, struct error *err)
{
    struct attempt_change *c = (struct attempt_change *)change;
    struct job_row row;
    int r = job_fetch_leased(db, c->lease, &row, err);
    return r < 0 ? r : outcome_set(db, row.id, "resume", json_object_get(c->body, "resume"), err);
}

int jobs_lease_resume(struct jobs *j, const struct lease *l, const json_t *body, struct error *err)
{
    struct attempt_change c = {.base = JOB_CHANGE(resume_run), .lease = l, .body = body};
    return attempt_commit(j, &c, err);
}

/* A live job's worker, or the server itself, has something to say. */
struct note_change {
    struct job_change base;
    const char *id, *type, *text;
};

static int note_run(struct db *db, struct job_change *change, struct error *err)
{
    struct note_change *c = (struct note_change *)change;
    struct job_row row;
    int r = job_fetch(db, NULL, c->id, &row, err);
    if (r == 0 && job_has_ended(&row))
        r = error_set(err, EALREADY, "job %s has ended", row.id);
    if (r == 0)
        r = job_event(db, &row, c->type, c->text, strlen(c->text), err);
    return r < 0 ? r : job_save(db, change, &row, err);
}

int jobs_note(struct jobs *j, const char *id, const json_t *event, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    int r = event_text(event, &text, err);
    if (r < 0)
        return r;
    struct note_change c = {.base = JOB_CHANGE(note_run),
                            .id = id,
                            .type = json_get_string(event, "type"),
                            .text = text};
    watch_touch(j->watches, id);
    return job_change_commit(j, &c.base, err);
}

int jobs_touch(struct jobs *j, const char *id)
{
    return watch_touch(j->watches, id);
}

int jobs_lease_check(struct jobs *j, const struct lease *l, char **ret_user, char **ret_kind,
                     struct error *err)
{
    struct db *db = store_reader(j->store, false, err);
    struct job_row row;
    int r = db ? job_fetch_leased(db, l, &row, err) : -EIO;
    store_reader_done(j->store, db);
    if (r < 0)
        return r;
    _cleanup_free_ char *user = strdup(row.owner), *kind = strdup(row.kind);
    if (!user || !kind)
        return error_set(err, ENOMEM, "out of memory");
    if (ret_user)
        *ret_user = TAKE_PTR(user);
    if (ret_kind)
        *ret_kind = TAKE_PTR(kind);
    return 0;
}
