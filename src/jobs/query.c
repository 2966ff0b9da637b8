/* What clients read: jobs, lists, events, figures. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "banned.h"

#define LIST_MAX    500
#define EVENT_BYTES (256u << 10)

/* --- a job as JSON --- */

#define JOB_COLUMNS                                                                                \
    "j.id, j.kind, j.state, j.title, j.owner, j.priority, j.labels, j.created_at, j.not_before,"   \
    " j.started_at, j.finished_at, j.attempt, j.max_attempts, j.steps_done, j.steps_total,"        \
    " o.plan, j.exit_reason, j.error, o.usage, j.cost, j.after_ids, j.worker, j.stored_bytes"
#define JOB_TABLES " FROM jobs j LEFT JOIN outcomes o ON o.job = j.id"

static json_t *column_json(const struct db_rows *rows, unsigned i, json_t *fallback)
{
    const char *text = db_column_text(rows, i);
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    if (!value)
        return fallback;
    json_decref(fallback);
    return value;
}

static json_t *column_string(const struct db_rows *rows, unsigned i)
{
    const char *text = db_column_text(rows, i);
    return text ? json_string(text) : json_null();
}

static json_t *job_json(const struct db_rows *rows)
{
    static const struct {
        const char *name;
        enum { TEXT, INTEGER, TIME, JSON, LIST, OBJECT, REAL } as;
    } members[] = {
        {"id", TEXT},
        {"kind", TEXT},
        {"state", TEXT},
        {"title", TEXT},
        {"user", TEXT},
        {"priority", INTEGER},
        {"labels", OBJECT},
        {"created_at", TIME},
        {"not_before", TIME},
        {"started_at", TIME},
        {"finished_at", TIME},
        {"attempt", INTEGER},
        {"max_attempts", INTEGER},
        {"steps_done", INTEGER},
        {"steps_total", INTEGER},
        {"plan", JSON},
        {"exit_reason", TEXT},
        {"error", TEXT},
        {"usage", JSON},
        {"cost", REAL},
        {"after", LIST},
        {"worker", TEXT},
        {"stored_bytes", INTEGER},
    };
    json_t *job = json_object();
    for (unsigned i = 0; job && i < ARRAY_SIZE(members); i++) {
        json_t *value = NULL;
        switch (members[i].as) {
        case TEXT:
            value = column_string(rows, i);
            break;
        case INTEGER:
            value = json_integer(db_column_int(rows, i));
            break;
        case TIME:
            value = jobs_time_json(db_column_int(rows, i));
            break;
        case REAL:
            value = rows->column[i].type == DB_REAL ? json_real(rows->column[i].real) : json_null();
            break;
        default:
            value = column_json(rows, i,
                                members[i].as == LIST     ? json_array()
                                : members[i].as == OBJECT ? json_object()
                                                          : json_null());
        }
        json_object_set_new(job, members[i].name, value);
    }
    return job;
}

int job_step_results(struct db *db, const char *id, json_t **ret, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    _cleanup_json_ json_t *list = json_array();
    int r = DB_QUERY(db, &rows, err, "SELECT result FROM steps WHERE job = $1 ORDER BY step",
                     db_text(id));
    while (r == 0 && (r = db_next(&rows, err)) > 0)
        r = json_array_append_new(list, column_json(&rows, 0, json_null())) < 0
                ? error_set(err, ENOMEM, "out of memory")
                : 0;
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}

static int job_read(struct db *db, const char *user, const char *id, json_t **ret,
                    struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r =
        DB_QUERY(db, &rows, err, "SELECT " JOB_COLUMNS JOB_TABLES " WHERE j.id = $1", db_text(id));
    if (r < 0 || (r = db_next(&rows, err)) < 0)
        return r;
    if (r == 0 || (user && strcmp(db_column_text(&rows, 4), user) != 0))
        return error_set(err, ENOENT, "there is no job %.40s", id);
    _cleanup_json_ json_t *job = job_json(&rows), *spec = NULL, *result = NULL;
    if (!job)
        return error_set(err, ENOMEM, "out of memory");
    r = job_fetch_json(db, "SELECT spec FROM specs WHERE job = $1", id, &spec, err);
    if (r == 0)
        r = job_fetch_json(db, "SELECT result FROM outcomes WHERE job = $1", id, &result, err);
    if (r == 0 && !result && strcmp(db_column_text(&rows, 1), "steps") == 0)
        r = job_step_results(db, id, &result, err);
    if (r < 0)
        return r;
    json_object_set_new(job, "spec", spec ? TAKE_PTR(spec) : json_null());
    json_object_set_new(job, "result", result ? TAKE_PTR(result) : json_null());
    *ret = TAKE_PTR(job);
    return 0;
}

int jobs_get(struct jobs *j, const char *user, const char *id, json_t **ret, struct error *err)
{
    struct db *db = store_reader(j->store, true, err);
    int r = db ? job_read(db, user, id, ret, err) : -EIO;
    store_reader_done(j->store, db);
    return r;
}

/* --- lists --- */

/* A query that grows by conditions, each with its values. */
struct list_query {
    struct buf sql;
    struct db_value values[24];
    size_t n;
};

static void list_query_value(struct list_query *q, struct db_value v)
{
    if (q->n < ARRAY_SIZE(q->values))
        q->values[q->n++] = v;
    else
        q->sql.failed = true;
    buf_printf(&q->sql, "$%zu", q->n);
}

/* " AND column IN ($1, …)" of names separated by commas. */
static void list_query_names(struct list_query *q, const char *column, char *names)
{
    char *rest = NULL;
    if (!names)
        return;
    buf_printf(&q->sql, " AND %s IN (", column);
    bool first = true;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        buf_append_str(&q->sql, first ? "" : ", ");
        list_query_value(q, db_text(name));
        first = false;
    }
    buf_append_str(&q->sql, first ? "NULL)" : ")");
}

/* A pattern of LIKE that matches the text anywhere; a new string. */
static char *search_pattern(const char *text)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2048);
    buf_append_str(&b, "%");
    for (; *text; text++) {
        char c = *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
        if (c == '%' || c == '_' || c == '!')
            buf_append_str(&b, "!");
        buf_append(&b, &c, 1);
    }
    buf_append_str(&b, "%");
    return buf_cstr(&b) ? strdup(buf_cstr(&b)) : NULL;
}

static int list_read(struct db *db, struct list_query *q, unsigned limit, json_t **ret,
                     bool *ret_more, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    _cleanup_json_ json_t *list = json_array();
    bool more = false;
    char *sql = buf_cstr(&q->sql);
    if (!sql || !list)
        return error_set(err, q->sql.failed ? EINVAL : ENOMEM, "the query is too long");
    int r = db_query(db, &rows, sql, q->values, q->n, err);
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        r = 0;
        if ((more = json_array_size(list) == limit))
            break;
        if (json_array_append_new(list, job_json(&rows)) < 0)
            r = error_set(err, ENOMEM, "out of memory");
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(list);
    *ret_more = more;
    return 0;
}

int jobs_list(struct jobs *j, const struct job_query *q, json_t **ret, bool *ret_more,
              struct error *err)
{
    unsigned limit = q->limit < 1 ? 1 : q->limit > LIST_MAX ? LIST_MAX : q->limit;
    _cleanup_free_ char *states = q->state ? strdup(q->state) : NULL;
    _cleanup_free_ char *kinds = q->kind ? strdup(q->kind) : NULL;
    _cleanup_free_ char *label = q->label ? strdup(q->label) : NULL;
    _cleanup_free_ char *pattern = q->search ? search_pattern(q->search) : NULL;
    char *value = label ? strchr(label, '=') : NULL;
    struct list_query list = {.sql = BUF_INIT(4096)};
    if (label && !value)
        return error_set(err, EINVAL, "label: '%.80s' is not key=value", label);
    if (q->search && !pattern)
        return error_set(err, EINVAL, "search: the text is too long");
    buf_append_str(&list.sql, "SELECT " JOB_COLUMNS JOB_TABLES " WHERE j.id > ''");
    if (q->user) {
        buf_append_str(&list.sql, " AND j.owner = ");
        list_query_value(&list, db_text(q->user));
    }
    /* Of one user, or in several states: the jobs in their order, not by the index of states. */
    list_query_names(
        &list, q->user || (states && strchr(states, ',')) ? "coalesce(j.state, '')" : "j.state",
        states);
    list_query_names(&list, "j.kind", kinds);
    if (pattern) {
        buf_append_str(&list.sql, " AND lower(j.title || ' ' || j.id || ' ' ||"
                                  " coalesce(j.labels, '')) LIKE ");
        list_query_value(&list, db_text(pattern));
        buf_append_str(&list.sql, " ESCAPE '!'");
    }
    if (label) {
        *value++ = 0;
        buf_append_str(&list.sql, " AND j.id IN (SELECT job FROM labels WHERE name = ");
        list_query_value(&list, db_text(label));
        buf_append_str(&list.sql, " AND value = ");
        list_query_value(&list, db_text(value));
        buf_append_str(&list.sql, ")");
    }
    if (q->before) {
        buf_append_str(&list.sql, " AND j.id < ");
        list_query_value(&list, db_text(q->before));
    }
    buf_append_str(&list.sql, " ORDER BY j.id DESC LIMIT ");
    list_query_value(&list, db_int(limit + 1));
    struct db *db = store_reader(j->store, false, err);
    int r = db ? list_read(db, &list, limit, ret, ret_more, err) : -EIO;
    store_reader_done(j->store, db);
    buf_free(&list.sql);
    return r;
}

/* --- events --- */

int jobs_events(struct jobs *j, const char *user, const char *id, uint64_t after, unsigned max,
                void (*each)(void *data, uint64_t seq, const char *type, const char *text,
                             size_t n),
                void *data, bool *ret_ended, struct error *err)
{
    struct db *db = store_reader(j->store, true, err);
    _cleanup_rows_ struct db_rows rows = {0};
    struct job_row row;
    uint64_t last = after;
    size_t bytes = 0;
    if (after > INT64_MAX)
        after = INT64_MAX;
    int r = db ? job_fetch(db, user, id, &row, err) : -EIO;
    if (r == 0)
        r = DB_QUERY(db, &rows, err,
                     "SELECT seq, type, text FROM events WHERE job = $1 AND seq > $2"
                     " ORDER BY seq LIMIT $3",
                     db_text(id), db_int((int64_t)after), db_int(max));
    while (r == 0 && bytes < EVENT_BYTES && (r = db_next(&rows, err)) > 0) {
        last = (uint64_t)db_column_int(&rows, 0);
        each(data, last, db_column_text(&rows, 1), db_column_text(&rows, 2), rows.column[2].n);
        bytes += rows.column[2].n;
        r = 0;
    }
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    if (r == 0)
        *ret_ended = job_has_ended(&row) && last >= (uint64_t)row.last_event;
    return r;
}

/* --- figures --- */

static int probe_run(struct db *db, struct job_change *c, struct error *err)
{
    int64_t r = DB_RUN(db, err,
                       "INSERT INTO probe (id, time) VALUES (1, $1)"
                       " ON CONFLICT (id) DO UPDATE SET time = excluded.time",
                       db_int(jobs_now()));
    return r < 0 ? (int)r : 0;
}

int jobs_health(struct jobs *j, json_t **ret, struct error *err)
{
    struct job_change probe = JOB_CHANGE(probe_run);
    struct store_statistics s;
    int r = job_change_commit(j, &probe, err);
    if (r < 0)
        return r;
    store_statistics(j->store, &s);
    _cleanup_json_ json_t *figures = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f}", "scheduled", 0, "running", 0, "completed",
        0, "failed", 0, "cancelled", 0, "commits", (json_int_t)s.commits, "changes",
        (json_int_t)s.changes, "commit_ms", (double)s.commit_ns / 1e6 / (double)s.commits, "batch",
        (double)s.changes / (double)s.commits);
    struct db *db = store_reader(j->store, false, err);
    _cleanup_rows_ struct db_rows rows = {0};
    r = !figures ? error_set(err, ENOMEM, "out of memory")
        : db ? db_query(db, &rows, "SELECT state, count(*) FROM jobs GROUP BY state", NULL, 0, err)
             : -EIO;
    while (r == 0 && (r = db_next(&rows, err)) > 0)
        r = json_object_set_new(figures, db_column_text(&rows, 0),
                                json_integer(db_column_int(&rows, 1))) < 0
                ? error_set(err, ENOMEM, "out of memory")
                : 0;
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    if (r == 0)
        *ret = TAKE_PTR(figures);
    return r;
}
