/* Users: their limits and what they store and cost. And the audit log. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "banned.h"

#define AUDIT_LIST_MAX 500

int user_name_check(const char *user, struct error *err)
{
    size_t n = user ? strlen(user) : 0;
    if (n == 0 || n > USER_NAME_MAX || !utf8_valid((const uint8_t *)user, n))
        return error_set(err, EINVAL, "the name of a user has 1 to %d bytes", USER_NAME_MAX);
    for (size_t i = 0, step; i < n; i += step) {
        step = utf8_character((const uint8_t *)user + i, n - i);
        if (utf8_is_control((const uint8_t *)user + i, step))
            return error_set(err, EINVAL, "the name of a user has no control characters");
    }
    return 0;
}

int user_add_stored(struct db *db, const char *user, int64_t bytes, uint64_t limit,
                    struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err,
                     "INSERT INTO users (name, stored_bytes) VALUES ($1, $2) ON CONFLICT (name)"
                     " DO UPDATE SET stored_bytes = users.stored_bytes + excluded.stored_bytes"
                     " RETURNING stored_bytes, stored_limit",
                     db_text(user), db_int(bytes));
    if (r < 0 || (r = db_next(&rows, err)) < 0)
        return r;
    if (limit == 0)
        limit = (uint64_t)db_column_int(&rows, 1);
    if (bytes < 0 || limit == 0 || (uint64_t)db_column_int(&rows, 0) <= limit)
        return 0;
    return error_set(err, EDQUOT, "%s stores more than the limit of %llu bytes; remove old jobs",
                     user, (unsigned long long)limit);
}

int users_list(struct jobs *j, json_t **ret, struct error *err)
{
    _cleanup_json_ json_t *list = json_array();
    struct db *db = store_reader(j->store, false, err);
    _cleanup_rows_ struct db_rows rows = {0};
    int r = !list ? error_set(err, ENOMEM, "out of memory")
            : db  ? db_query(db, &rows,
                             "SELECT u.name, u.running_limit, u.live_limit, u.second_limit,"
                              " u.stored_limit, u.stored_bytes, (SELECT count(*) FROM jobs j"
                              " WHERE j.owner = u.name), u.cost FROM users u ORDER BY u.name",
                             NULL, 0, err)
                  : -EIO;
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        json_t *user = json_pack(
            "{s:s, s:{s:I, s:I, s:I, s:I}, s:I, s:I, s:f}", "name", db_column_text(&rows, 0),
            "limits", "running", (json_int_t)db_column_int(&rows, 1), "live",
            (json_int_t)db_column_int(&rows, 2), "per_second", (json_int_t)db_column_int(&rows, 3),
            "stored", (json_int_t)db_column_int(&rows, 4), "stored_bytes",
            (json_int_t)db_column_int(&rows, 5), "jobs", (json_int_t)db_column_int(&rows, 6),
            "cost", rows.column[7].real);
        r = json_array_append_new(list, user) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
    }
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}

struct user_change {
    struct job_change base;
    const char *user;
    const json_t *limits;
};

static int user_set_run(struct db *db, struct job_change *change, struct error *err)
{
    static const struct {
        const char *member, *sql;
    } LIMITS[] = {
        {"running", "UPDATE users SET running_limit = $2 WHERE name = $1"},
        {"live", "UPDATE users SET live_limit = $2 WHERE name = $1"},
        {"per_second", "UPDATE users SET second_limit = $2 WHERE name = $1"},
        {"stored", "UPDATE users SET stored_limit = $2 WHERE name = $1"},
    };
    struct user_change *c = (struct user_change *)change;
    int64_t r = DB_RUN(db, err, "INSERT INTO users (name) VALUES ($1) ON CONFLICT DO NOTHING",
                       db_text(c->user));
    for (size_t i = 0; i < ARRAY_SIZE(LIMITS) && r >= 0; i++) {
        const json_t *value = json_object_get(c->limits, LIMITS[i].member);
        if (value && (!json_is_integer(value) || json_integer_value(value) < 0))
            return error_set(err, EINVAL, "%s: a limit is a number, and 0 is none",
                             LIMITS[i].member);
        if (value)
            r = DB_RUN(db, err, LIMITS[i].sql, db_text(c->user), db_int(json_integer_value(value)));
    }
    if (r < 0)
        return (int)r;
    /* Perhaps another job may run now. */
    return job_change_effect(change, "", (struct effect){.kind = EFFECT_READY}, err);
}

int users_set(struct jobs *j, const char *user, const json_t *limits, struct error *err)
{
    struct user_change c = {.base = JOB_CHANGE(user_set_run), .user = user, .limits = limits};
    int r = user_name_check(user, err);
    return r < 0 ? r : job_change_commit(j, &c.base, err);
}

/* --- the audit log --- */

struct audit_change {
    struct store_change base; /* first: the store frees it */
    char id[JOB_ID_LEN + 1];
    int64_t time;
    int status;
    const char *user, *key, *address, *action, *object; /* in `text`, or NULL */
    char text[];
};

static int audit_run(struct db *db, struct store_change *change, struct error *err)
{
    struct audit_change *c = (struct audit_change *)change;
    int64_t r =
        DB_RUN(db, err,
               "INSERT INTO audit (id, time, owner, key, address, action, object, status)"
               " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
               db_text(c->id), db_int(c->time), db_text(c->user), db_text(c->key),
               db_text(c->address), db_text(c->action), db_text(c->object), db_int(c->status));
    return r < 0 ? (int)r : 0;
}

void audit_add(struct jobs *j, const char *user, const char *key, const char *address,
               const char *action, const char *object, int status)
{
    const char *texts[] = {user, key, address, action, object};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        n += texts[i] ? strlen(texts[i]) + 1 : 0;
    struct audit_change *c = calloc(1, sizeof *c + n);
    if (!c)
        return;
    char *at = c->text;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        size_t size = texts[i] ? strlen(texts[i]) + 1 : 0;
        const char *copy = size ? memcpy(at, texts[i], size) : NULL;
        texts[i] = copy;
        at += size;
    }
    *c = (struct audit_change){.base.apply = audit_run,
                               .time = jobs_now(),
                               .status = status,
                               .user = texts[0],
                               .key = texts[1],
                               .address = texts[2],
                               .action = texts[3] ? texts[3] : "",
                               .object = texts[4]};
    job_id_make(j, c->id);
    store_post(j->store, &c->base);
}

int audit_list(struct jobs *j, const char *before, unsigned limit, json_t **ret, struct error *err)
{
    _cleanup_json_ json_t *list = json_array();
    struct db *db = store_reader(j->store, false, err);
    _cleanup_rows_ struct db_rows rows = {0};
    int r = !list ? error_set(err, ENOMEM, "out of memory")
            : db
                ? DB_QUERY(db, &rows, err,
                           "SELECT id, time, owner, key, address, action, object, status FROM audit"
                           " WHERE id < $1 ORDER BY id DESC LIMIT $2",
                           db_text(before ? before : "~"),
                           db_int(limit > AUDIT_LIST_MAX ? AUDIT_LIST_MAX : limit))
                : -EIO;
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        json_t *line =
            json_pack("{s:s, s:o, s:s?, s:s?, s:s?, s:s, s:s?, s:I}", "id",
                      db_column_text(&rows, 0), "time", jobs_time_json(db_column_int(&rows, 1)),
                      "user", db_column_text(&rows, 2), "key", db_column_text(&rows, 3), "address",
                      db_column_text(&rows, 4), "action", db_column_text(&rows, 5), "object",
                      db_column_text(&rows, 6), "status", (json_int_t)db_column_int(&rows, 7));
        r = json_array_append_new(list, line) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
    }
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}
