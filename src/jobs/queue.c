/*
 * Which job a worker gets: the one of the highest priority; among these one of the user with the
 * fewest that run; of that user's the oldest. Users at their limit wait.
 *
 * The users with ready jobs are found by stepping through the index of ready jobs from one user to
 * the next, so a lease costs as much as there are users, however many jobs wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "jobs_internal.h"
#include "banned.h"

#define SLOTS_MAX  64   /* in one answer */
#define LEASES_MAX 1000 /* in one renewal */

struct candidate {
    char owner[USER_NAME_MAX + 1];
    int64_t running, limit;
    char job[JOB_ID_LEN + 1]; /* "": no more */
    int64_t priority;
};

struct lease_change {
    struct job_change base;
    const struct lease_request *q;
    struct lease_grant {
        char job[JOB_ID_LEN + 1];
        unsigned token;
    } grants[SLOTS_MAX];
    size_t n;
    struct candidate *candidates;
    size_t n_candidates, room;
};

static int candidates_list(struct db *db, struct lease_change *c, bool live, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    c->n_candidates = 0;
    int r =
        DB_QUERY(db, &rows, err,
                 "WITH RECURSIVE waiting (owner) AS ("
                 "SELECT * FROM (SELECT owner FROM jobs WHERE ready = 1 AND live = $1"
                 " ORDER BY owner LIMIT 1) first"
                 " UNION ALL SELECT (SELECT j.owner FROM jobs j WHERE j.ready = 1 AND j.live = $1"
                 " AND j.owner > waiting.owner ORDER BY j.owner LIMIT 1)"
                 " FROM waiting WHERE waiting.owner IS NOT NULL)"
                 " SELECT w.owner, (SELECT count(*) FROM jobs r WHERE r.owner = w.owner"
                 " AND r.state = 'running' AND r.live = $1),"
                 " CASE WHEN $1 = 0 THEN coalesce(u.running_limit, 0) ELSE 0 END"
                 " FROM waiting w LEFT JOIN users u ON u.name = w.owner WHERE w.owner IS NOT NULL",
                 db_int(live));
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        r = 0;
        if (!ARRAY_GROW(c->candidates, c->n_candidates, c->room))
            return error_set(err, ENOMEM, "out of memory");
        struct candidate *one = &c->candidates[c->n_candidates++];
        *one = (struct candidate){.running = db_column_int(&rows, 1),
                                  .limit = db_column_int(&rows, 2)};
        snprintf(one->owner, sizeof one->owner, "%s", db_column_text(&rows, 0));
    }
    return r;
}

static int candidate_find_job(struct db *db, struct candidate *one, bool live, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    one->job[0] = 0;
    int r = DB_QUERY(db, &rows, err,
                     "SELECT id, priority FROM jobs WHERE ready = 1 AND live = $1 AND owner = $2"
                     " ORDER BY priority DESC, id LIMIT 1",
                     db_int(live), db_text(one->owner));
    if (r < 0 || (r = db_next(&rows, err)) <= 0)
        return r;
    snprintf(one->job, sizeof one->job, "%s", db_column_text(&rows, 0));
    one->priority = db_column_int(&rows, 1);
    return 0;
}

static bool candidate_is_before(const struct candidate *a, const struct candidate *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->running != b->running)
        return a->running < b->running;
    return strcmp(a->job, b->job) < 0;
}

static struct candidate *candidate_choose(struct lease_change *c)
{
    struct candidate *best = NULL;
    for (size_t i = 0; i < c->n_candidates; i++) {
        struct candidate *one = &c->candidates[i];
        bool may = one->job[0] && (one->limit == 0 || one->running < one->limit);
        if (may && (!best || candidate_is_before(one, best)))
            best = one;
    }
    return best;
}

static int lease_grant(struct db *db, struct lease_change *c, const char *id, struct error *err)
{
    struct job_row row;
    int64_t now = jobs_now();
    int r = job_fetch(db, NULL, id, &row, err);
    if (r < 0)
        return r;
    row.attempt++;
    _cleanup_json_ json_t *event =
        json_pack("{s:s, s:s, s:s}", "type", "state", "state", "running", "worker", c->q->worker);
    _cleanup_free_ char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
    r = text ? job_event(db, &row, "state", text, strlen(text), err)
             : error_set(err, ENOMEM, "out of memory");
    row.attempt_events = 0;
    if (r == 0)
        r = job_save(db, &c->base, &row, err);
    if (r < 0)
        return r;
    if (DB_RUN(db, err,
               "UPDATE jobs SET state = 'running', ready = 0, worker = $2, attempt = $3,"
               " started_at = CASE WHEN started_at = 0 THEN $4 ELSE started_at END WHERE id = $1",
               db_text(id), db_text(c->q->worker), db_int(row.attempt), db_int(now)) < 0)
        return -EIO;
    struct lease_grant *grant = &c->grants[c->n++];
    memcpy(grant->job, row.id, sizeof grant->job);
    grant->token = row.attempt;
    struct effect e = {.kind = EFFECT_LEASED,
                       .token = row.attempt,
                       .worker = c->q->worker,
                       .deadline_ms = row.timeout_ms};
    return job_change_effect(&c->base, row.id, e, err);
}

static int lease_choose(struct db *db, struct lease_change *c, bool live, unsigned slots,
                        struct error *err)
{
    int r = slots > 0 ? candidates_list(db, c, live, err) : 0;
    if (slots == 0)
        return 0;
    for (size_t i = 0; i < c->n_candidates && r == 0; i++)
        r = candidate_find_job(db, &c->candidates[i], live, err);
    while (r == 0 && slots > 0 && c->n < SLOTS_MAX) {
        struct candidate *one = candidate_choose(c);
        if (!one)
            break;
        r = lease_grant(db, c, one->job, err);
        one->running++;
        slots--;
        if (r == 0)
            r = candidate_find_job(db, one, live, err);
    }
    return r;
}

static int lease_run(struct db *db, struct job_change *change, struct error *err)
{
    struct lease_change *c = (struct lease_change *)change;
    c->n = 0;
    int r = lease_choose(db, c, false, c->q->slots, err);
    return r < 0 ? r : lease_choose(db, c, true, c->q->live_slots, err);
}

/* --- the LEASE object --- */

static uint64_t log_size(struct jobs *j, const char *id)
{
    _cleanup_free_ char *path = job_path(id, "agent.log");
    _cleanup_fd_ int fd = -1;
    struct stat st;
    if (!path || folder_open_file(j->folder, path, O_RDONLY, &fd) < 0 || fstat(fd, &st) < 0)
        return 0;
    return (uint64_t)st.st_size;
}

static int lease_json(struct jobs *j, struct db *db, const struct lease_grant *grant, json_t **ret,
                      struct error *err)
{
    struct job_row row;
    _cleanup_json_ json_t *spec = NULL, *results = NULL, *resume = NULL;
    int r = job_fetch(db, NULL, grant->job, &row, err);
    if (r == 0)
        r = job_fetch_json(db, "SELECT spec FROM specs WHERE job = $1", grant->job, &spec, err);
    if (r == 0)
        r = job_fetch_json(db, "SELECT resume FROM outcomes WHERE job = $1", grant->job, &resume,
                           err);
    if (r == 0)
        r = job_step_results(db, grant->job, &results, err);
    if (r < 0)
        return r;
    int64_t left = watch_deadline_ms(j->watches, grant->job);
    json_t *lease =
        json_pack("{s:s, s:i, s:s, s:s, s:O?, s:I, s:O, s:b, s:I, s:o, s:I, s:O?}", "job", row.id,
                  "token", (int)grant->token, "kind", row.kind, "user", row.owner, "spec", spec,
                  "steps_done", (json_int_t)row.steps_done, "results", results, "has_checkpoint",
                  row.checkpoint[0] != 0, "log_size", (json_int_t)log_size(j, row.id),
                  "deadline_ms", left == INT64_MAX ? json_null() : json_integer(left), "lease_ms",
                  (json_int_t)j->lease_ms, "resume", resume);
    if (!lease)
        return error_set(err, ENOMEM, "out of memory");
    if (!resume)
        json_object_set_new(lease, "resume", json_null());
    *ret = lease;
    return 0;
}

static int leases_json(struct jobs *j, const struct lease_change *c, json_t *list,
                       struct error *err)
{
    struct db *db = store_reader(j->store, false, err);
    int r = db ? 0 : -EIO;
    for (size_t i = 0; i < c->n && r == 0; i++) {
        json_t *lease = NULL;
        r = lease_json(j, db, &c->grants[i], &lease, err);
        if (r == 0 && json_array_append_new(list, lease) < 0)
            r = error_set(err, ENOMEM, "out of memory");
        if (r == -ENOENT) /* removed meanwhile */
            r = 0;
    }
    store_reader_done(j->store, db);
    return r;
}

/* --- waiting --- */

/* 0: something happened, or the time is over. */
static int waiter_wait(struct waiter *waiter, int64_t deadline, int cancel, struct error *err)
{
    eventfd_t n;
    int r = cancel_wait(waiter->fd, POLLIN, clock_poll_ms(deadline), cancel);
    eventfd_read(waiter->fd, &n);
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "interrupted");
    return r < 0 ? error_errno(err, -r, "cannot wait for jobs") : 0;
}

int jobs_lease(struct jobs *j, const struct lease_request *q, json_t **ret, struct error *err)
{
    int64_t deadline = clock_now() + q->wait_ms * NS_PER_MS;
    struct lease_change c = {.base = JOB_CHANGE(lease_run), .q = q};
    struct waiter waiter;
    _cleanup_json_ json_t *list = json_array();
    if (!*q->worker || strlen(q->worker) > USER_NAME_MAX)
        return error_set(err, EINVAL, "the name of a worker has 1 to %d bytes", USER_NAME_MAX);
    int r = list ? waiter_begin(j->watches, &waiter, true, err)
                 : error_set(err, ENOMEM, "out of memory");
    if (r < 0)
        return r;
    for (;;) {
        r = job_change_commit(j, &c.base, err);
        if (r < 0 || c.n > 0 || clock_now() >= deadline)
            break;
        if ((r = waiter_wait(&waiter, deadline, q->cancel, err)) < 0)
            break;
    }
    waiter_end(j->watches, &waiter);
    if (r == 0)
        r = leases_json(j, &c, list, err);
    free(c.candidates);
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}

/* The states of all leases; *ret_all_held. */
static json_t *renew_once(struct jobs *j, const char *worker, const json_t *leases,
                          bool *ret_all_held)
{
    static const char *const NAMES[] = {"held", "lost", "cancel"};
    json_t *answer = json_array(), *lease;
    size_t i;
    *ret_all_held = true;
    json_array_foreach(leases, i, lease)
    {
        const char *job = json_get_string_or(lease, "job", "");
        enum lease_state state =
            watch_renew(j->watches, job, (unsigned)json_get_integer(lease, "token"), worker);
        *ret_all_held &= state == LEASE_HELD;
        json_array_append_new(answer, json_pack("{s:s, s:s}", "job", job, "state", NAMES[state]));
    }
    return answer;
}

int jobs_renew(struct jobs *j, const char *worker, const json_t *leases, int wait_ms, int cancel,
               json_t **ret, struct error *err)
{
    int64_t longest = j->lease_ms / 2; /* they must not end while the worker waits */
    int64_t deadline = clock_now() + (wait_ms < longest ? wait_ms : longest) * NS_PER_MS;
    struct waiter waiter;
    bool all_held;
    if (json_array_size(leases) > LEASES_MAX)
        return error_set(err, EINVAL, "more than %d leases", LEASES_MAX);
    int r = waiter_begin(j->watches, &waiter, false, err);
    if (r < 0)
        return r;
    json_t *answer;
    for (;;) {
        answer = renew_once(j, worker, leases, &all_held);
        if (!answer || !all_held || clock_now() >= deadline)
            break;
        r = waiter_wait(&waiter, deadline, cancel, err);
        json_decref(answer);
        if (r < 0)
            break;
    }
    waiter_end(j->watches, &waiter);
    if (r < 0)
        return r;
    if (!answer)
        return error_set(err, ENOMEM, "out of memory");
    *ret = answer;
    return 0;
}

void jobs_worker_lost(struct jobs *j, const char *worker)
{
    watches_lose_worker(j->watches, worker);
}
