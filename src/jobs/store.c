/*
 * Group commit: threads queue their changes and wait; the writer's thread takes all that wait,
 * applies each inside of a savepoint, commits once and wakes them. So one flush of the disk serves
 * everybody who came while the one before it was under way. Threads that were just woken often come
 * back at once: the writer gives as many as there were last time a moment (a quarter of a commit),
 * or two halves would take turns for ever. When the commit fails (the disk is full), the changes are
 * tried again one by one, so that each gets an answer of its own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"
#include "thread.h"
#include "banned.h"

#define BATCH_MAX  256
#define POSTED_MAX 10000
#define IDLE_MAX   16 /* readers that are kept open */
#define GATHER_MAX (2 * NS_PER_MS)

struct store {
    const struct db_driver *driver;
    char *where;
    struct db *writer;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct store_change *first, **last;
    size_t n_queued, n_posted;
    size_t wanted;     /* the writer is woken when so many are queued */
    size_t active;     /* threads that submitted lately */
    int64_t commit_ns; /* of the last batch */
    bool closing;
    struct store_statistics statistics;

    pthread_mutex_t readers_lock;
    struct db *idle[IDLE_MAX];
    size_t n_idle;
};

struct db_value db_text_n(const char *s, size_t n)
{
    return s ? (struct db_value){.type = DB_TEXT, .n = n, .text = s} : (struct db_value){0};
}

struct db_value db_text(const char *s)
{
    return db_text_n(s, s ? strlen(s) : 0);
}

int db_query(struct db *db, struct db_rows *ret, const char *sql, const struct db_value *values,
             size_t n, struct error *err)
{
    *ret = (struct db_rows){.db = db};
    return db->driver->query(db, ret, sql, values, n, err);
}

int db_next(struct db_rows *rows, struct error *err)
{
    return rows->db->driver->next(rows, err);
}

void db_rows_done(struct db_rows *rows)
{
    if (rows->statement)
        rows->db->driver->done(rows);
    rows->statement = NULL;
}

int64_t db_run(struct db *db, const char *sql, const struct db_value *values, size_t n,
               struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = db_query(db, &rows, sql, values, n, err);
    while (r == 0 && (r = db_next(&rows, err)) > 0)
        r = 0;
    return r < 0 ? r : db->driver->changed(db);
}

int64_t db_column_int(const struct db_rows *rows, unsigned i)
{
    return rows->column[i].type == DB_INT ? rows->column[i].i : 0;
}

const char *db_column_text(const struct db_rows *rows, unsigned i)
{
    return rows->column[i].type == DB_TEXT ? rows->column[i].text : NULL;
}

static int db_command(struct db *db, const char *sql, struct error *err)
{
    int64_t r = db_run(db, sql, NULL, 0, err);
    return r < 0 ? (int)r : 0;
}

static void db_rollback(struct db *db)
{
    if (db->driver->in_transaction(db))
        db_command(db, "ROLLBACK", NULL);
}

/* --- the writer --- */

static int change_apply(struct db *db, struct store_change *c)
{
    c->error = (struct error){0};
    int r = db_command(db, "SAVEPOINT one", &c->error);
    if (r < 0)
        return r;
    r = c->apply(db, c, &c->error);
    if (r < 0 && c->error.code)
        r = -c->error.code;
    if (!db->driver->in_transaction(db))
        return r < 0 ? r : error_set(&c->error, EIO, "the store ended the transaction");
    if (r < 0 && db_command(db, "ROLLBACK TO one", NULL) < 0)
        db_rollback(db);
    else if (db_command(db, "RELEASE one", r < 0 ? NULL : &c->error) < 0 && r == 0)
        r = -c->error.code;
    return r;
}

/* True if the transaction was committed: then every change has its own result. */
static bool batch_commit(struct db *db, struct store_change **batch, size_t n, struct error *err)
{
    if (db->driver->begin(db, true, err) < 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        batch[i]->result = change_apply(db, batch[i]);
        if (!db->driver->in_transaction(db)) {
            *err = batch[i]->error;
            return false;
        }
    }
    if (db_command(db, "COMMIT", err) == 0)
        return true;
    db_rollback(db);
    return false;
}

static void change_done(struct store_change *c)
{
    if (c->result == 0 && c->committed)
        c->committed(c);
    if (c->posted)
        free(c);
    else
        sem_post(&c->done);
}

static void batch_run(struct store *s, struct store_change **batch, size_t n)
{
    struct error err = {0};
    int64_t from = clock_now();
    bool committed = batch_commit(s->writer, batch, n, &err);
    pthread_mutex_lock(&s->lock);
    s->statistics.commits++;
    s->statistics.changes += n;
    s->statistics.failures += !committed;
    s->commit_ns = clock_now() - from;
    s->statistics.commit_ns += s->commit_ns;
    s->active = n + s->n_queued;
    pthread_mutex_unlock(&s->lock);
    if (!committed && n > 1) {
        for (size_t i = 0; i < n; i++)
            batch_run(s, &batch[i], 1);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!committed) {
            batch[i]->result = err.code ? -err.code : -EIO;
            batch[i]->error = err;
        }
        change_done(batch[i]);
    }
}

/* Waits for changes: for the first, then shortly for as many as there may be. */
static void writer_wait(struct store *s)
{
    s->wanted = 1;
    while (!s->first && !s->closing)
        pthread_cond_wait(&s->wake, &s->lock);
    s->wanted = s->active < BATCH_MAX ? s->active : BATCH_MAX;
    int64_t most = s->commit_ns / 4 < GATHER_MAX ? s->commit_ns / 4 : GATHER_MAX;
    int64_t until = clock_now() + most;
    struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    while (s->n_queued < s->wanted && !s->closing)
        if (pthread_cond_timedwait(&s->wake, &s->lock, &at) != 0)
            break;
}

static void *writer_main(void *data)
{
    struct store *s = data;
    struct store_change *batch[BATCH_MAX];
    for (;;) {
        size_t n = 0;
        pthread_mutex_lock(&s->lock);
        writer_wait(s);
        for (; s->first && n < BATCH_MAX; n++) {
            batch[n] = s->first;
            s->first = s->first->next;
            s->n_posted -= batch[n]->posted;
        }
        s->n_queued -= n;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        if (n == 0)
            return NULL;
        batch_run(s, batch, n);
    }
}

static void change_queue(struct store *s, struct store_change *c)
{
    c->next = NULL;
    *s->last = c;
    s->last = &c->next;
    if (++s->n_queued >= s->wanted)
        pthread_cond_signal(&s->wake);
}

int store_change(struct store *s, struct store_change *c, struct error *err)
{
    c->posted = false;
    sem_init(&c->done, 0, 0);
    pthread_mutex_lock(&s->lock);
    change_queue(s, c);
    pthread_mutex_unlock(&s->lock);
    while (sem_wait(&c->done) < 0 && errno == EINTR) {
    }
    sem_destroy(&c->done);
    if (c->result < 0 && err)
        *err = c->error;
    return c->result;
}

bool store_post(struct store *s, struct store_change *c)
{
    LOCKED(&s->lock);
    if (s->n_posted >= POSTED_MAX) {
        free(c);
        return false;
    }
    c->posted = true;
    s->n_posted++;
    change_queue(s, c);
    return true;
}

void store_statistics(struct store *s, struct store_statistics *ret)
{
    LOCKED(&s->lock);
    *ret = s->statistics;
}

/* --- readers --- */

struct db *store_reader(struct store *s, bool snapshot, struct error *err)
{
    struct db *db = NULL;
    pthread_mutex_lock(&s->readers_lock);
    if (s->n_idle > 0)
        db = s->idle[--s->n_idle];
    pthread_mutex_unlock(&s->readers_lock);
    if (!db && s->driver->open(s->where, &db, err) < 0)
        return NULL;
    if (snapshot && s->driver->begin(db, false, err) < 0) {
        s->driver->close(db);
        return NULL;
    }
    return db;
}

void store_reader_done(struct store *s, struct db *db)
{
    if (!db)
        return;
    db_rollback(db);
    pthread_mutex_lock(&s->readers_lock);
    if (s->n_idle < IDLE_MAX)
        s->idle[s->n_idle++] = TAKE_PTR(db);
    pthread_mutex_unlock(&s->readers_lock);
    if (db)
        s->driver->close(db);
}

/* --- opening --- */

static int migration_run(struct db *db, const struct migration *m, size_t n, struct error *err)
{
    int r = db->driver->begin(db, true, err);
    _cleanup_rows_ struct db_rows rows = {0};
    if (r == 0)
        r = DB_QUERY(db, &rows, err, "SELECT number FROM migrations WHERE number = $1",
                     db_int(m->number));
    int known = r == 0 ? db_next(&rows, err) : r;
    db_rows_done(&rows);
    r = known < 0 ? known : 0;
    for (size_t i = 0; i < n && r == 0 && known == 0; i++)
        r = db_command(db, m[i].sql, err);
    if (r == 0 && known == 0 &&
        DB_RUN(db, err, "INSERT INTO migrations (number) VALUES ($1)", db_int(m->number)) < 0)
        r = -EIO;
    if (r == 0)
        r = db_command(db, "COMMIT", err);
    db_rollback(db);
    return r;
}

static int store_migrate(struct db *db, struct error *err)
{
    int r =
        db_command(db, "CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY)", err);
    size_t n;
    unsigned newest = 0;
    for (const struct migration *m = MIGRATIONS; m->number && r == 0; m += n) {
        for (n = 1; m[n].number == m->number;)
            n++;
        newest = m->number;
        r = migration_run(db, m, n, err);
    }
    if (r < 0)
        return error_wrap(err, "cannot bring the store up to date");
    _cleanup_rows_ struct db_rows rows = {0};
    r = DB_QUERY(db, &rows, err, "SELECT number FROM migrations WHERE number > $1", db_int(newest));
    if (r == 0 && (r = db_next(&rows, err)) > 0)
        return error_set(err, EINVAL, "the store was written by a newer hutch; upgrade this one");
    return r;
}

int job_store_open(const char *url, struct store **ret, struct error *err)
{
    static const struct db_driver *const drivers[] = {&SQLITE};
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "out of memory");
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->readers_lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->last = &s->first;
    for (size_t i = 0; i < ARRAY_SIZE(drivers); i++)
        if (strncmp(url, drivers[i]->scheme, strlen(drivers[i]->scheme)) == 0)
            s->driver = drivers[i];
    int r = 0;
    if (!s->driver)
        r = error_set(err, EINVAL, "the store '%s' is of no known kind; use sqlite:PATH", url);
    else if (!(s->where = strdup(url + strlen(s->driver->scheme))))
        r = error_set(err, ENOMEM, "out of memory");
    if (r == 0)
        r = s->driver->open(s->where, &s->writer, err);
    if (r == 0)
        r = store_migrate(s->writer, err);
    if (r == 0 && (r = thread_start(&s->thread, NULL, writer_main, s)) < 0)
        error_errno(err, -r, "cannot start the store's thread");
    s->has_thread = r == 0;
    if (r < 0) {
        store_close(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct store *store_close(struct store *s)
{
    if (!s)
        return NULL;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    while (s->n_idle > 0)
        s->driver->close(s->idle[--s->n_idle]);
    if (s->writer)
        s->driver->close(s->writer);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->readers_lock);
    pthread_mutex_destroy(&s->lock);
    free(s->where);
    free(s);
    return NULL;
}
