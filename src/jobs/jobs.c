/*
 * Jobs: opening the folder, IDs and times, and how a change becomes durable.
 *
 *     store.c, sqlite.c, schema.c   the database and its writer
 *     job_state.c                   what a job's states are and how they follow each other
 *     submit.c, ending.c, query.c   what clients ask for
 *     queue.c, attempt.c            what workers ask for
 *     watch.c, reaper.c             leases, timers, and what happens when they run out
 *     folder.c, files.c             the folder's files
 *     keys.c, users.c               keys; users and the audit log
 *
 * A change runs on the store's writer (store.h) and collects its effects on what is kept in memory
 * (watch.c), which are applied in the order of the commits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "jobs_internal.h"
#include "weaken.h"
#include "banned.h"

#define LEASE_MS 15000

/* --- times --- */

int64_t jobs_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / NS_PER_MS;
#ifdef HUTCH_WEAKEN
    const char *path = getenv("HUTCH_CLOCK_OFFSET_MS");
    _cleanup_buf_ struct buf text = BUF_INIT(64);
    if (path && io_read_file(AT_FDCWD, path, &text) == 0 && buf_cstr(&text))
        ms += strtoll(buf_cstr(&text), NULL, 10);
#endif
    return ms;
}

void time_format(int64_t ms, char ret[32])
{
    struct tm tm;
    time_t s = ms / 1000;
    gmtime_r(&s, &tm);
    size_t n = strftime(ret, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ret + n, 32 - n, ".%03dZ", (int)(ms % 1000));
}

json_t *jobs_time_json(int64_t ms)
{
    char text[32];
    if (ms == 0)
        return json_null();
    time_format(ms, text);
    return json_string(text);
}

int64_t time_parse(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int ms = 0;
    if (rest && *rest == '.') {
        int scale = 100;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, scale /= 10)
            ms += (*rest - '0') * scale;
    }
    if (!rest)
        return -1;
    int64_t s = timegm(&tm);
    rest = strptime(rest, "%z", &tm); /* also Z */
    if (!rest || *rest || s < 0)
        return -1;
    return (s - tm.tm_gmtoff) * 1000 + ms;
}

/* --- IDs --- */

static const char BASE32[] = "0123456789abcdefghjkmnpqrstvwxyz";
#define RANDOM_BITS 50

void job_id_make(struct jobs *j, char ret[JOB_ID_LEN + 1])
{
    uint64_t ms = (uint64_t)jobs_now(), fresh;
    randombytes_buf(&fresh, sizeof fresh);
    fresh &= (1ull << RANDOM_BITS) - 1;
    pthread_mutex_lock(&j->id_lock);
    if (ms <= j->id_ms) { /* within a millisecond, or the clock went back: counts on */
        ms = j->id_ms;
        fresh = j->id_random + 1 + (fresh >> 20);
        if (fresh >> RANDOM_BITS) {
            fresh &= (1ull << RANDOM_BITS) - 1;
            ms++;
        }
    }
    j->id_ms = ms;
    j->id_random = fresh;
    pthread_mutex_unlock(&j->id_lock);
    for (int i = 9; i >= 0; i--, ms >>= 5, fresh >>= 5) {
        ret[i] = BASE32[ms & 31];
        ret[i + 10] = BASE32[fresh & 31];
    }
    ret[JOB_ID_LEN] = 0;
}

/* Goes on behind the last ID of the store: the clock may have gone back since. */
static int job_id_resume(struct jobs *j, struct db *db, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int r = DB_QUERY(db, &rows, err, "SELECT max(id) FROM jobs WHERE id > $1", db_text(""));
    if (r < 0 || (r = db_next(&rows, err)) <= 0)
        return r;
    const char *id = db_column_text(&rows, 0);
    for (size_t i = 0; id && i < 10; i++)
        j->id_ms = j->id_ms << 5 | (uint64_t)(strchr(BASE32, id[i]) - BASE32);
    j->id_random = (1ull << RANDOM_BITS) - 1;
    return 0;
}

bool job_id_is_valid(const char *id)
{
    return strlen(id) == JOB_ID_LEN && strspn(id, BASE32) == JOB_ID_LEN;
}

/* --- changes --- */

int job_change_effect(struct job_change *c, const char *job, struct effect e, struct error *err)
{
    if (!ARRAY_GROW(c->effects, c->n_effects, c->room))
        return error_set(err, ENOMEM, "out of memory");
    snprintf(e.job, sizeof e.job, "%s", job);
    c->effects[c->n_effects++] = e;
    return 0;
}

static int job_change_apply(struct db *db, struct store_change *base, struct error *err)
{
    struct job_change *c = (struct job_change *)base;
    c->n_effects = 0;
    return c->run(db, c, err);
}

static void job_change_committed(struct store_change *base)
{
    struct job_change *c = (struct job_change *)base;
    if (c->jobs->watches)
        watches_apply(c->jobs->watches, c->effects, c->n_effects);
}

int job_change_commit(struct jobs *j, struct job_change *c, struct error *err)
{
    c->jobs = j;
    c->base.apply = job_change_apply;
    c->base.committed = job_change_committed;
    int r = store_change(j->store, &c->base, err);
    for (size_t i = 0; r == 0 && j->changed && i < c->n_effects; i++)
        if (c->effects[i].job[0])
            j->changed(j->changed_data, c->effects[i].job);
    free(c->effects);
    c->effects = NULL;
    c->n_effects = c->room = 0;
    return r;
}

/* --- opening --- */

static int jobs_open_folder(struct jobs *j, const struct jobs_options *o, struct error *err)
{
    static const char *const FOLDERS[] = {UPLOADS, "jobs", "tmp"};
    _cleanup_free_ char *path = strdup(o->data);
    if (!path)
        return error_set(err, ENOMEM, "out of memory");
    int r = ownfile_make_folders(path);
    if (r == 0 && (j->folder = open(o->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = -errno;
    if (r < 0)
        return error_errno(err, -r, "cannot open the data folder %s", o->data);
    if (o->keys_only)
        return 0;
    j->lock_file = openat(j->folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (j->lock_file < 0)
        return error_errno(err, errno, "cannot open %s/lock", o->data);
    if (flock(j->lock_file, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, EBUSY, "another server has the data folder %s open", o->data);
    folder_remove(j->folder, "tmp"); /* what a crash left behind */
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS); i++)
        if (mkdirat(j->folder, FOLDERS[i], 0700) < 0 && errno != EEXIST)
            return error_errno(err, errno, "cannot make %s/%s", o->data, FOLDERS[i]);
    return 0;
}

int jobs_open(const struct jobs_options *o, struct jobs **ret, struct error *err)
{
    struct jobs *j = calloc(1, sizeof *j);
    if (!j)
        return error_set(err, ENOMEM, "out of memory");
    j->folder = j->lock_file = -1;
    j->keep_ms = o->keep_ms;
    j->lease_ms = o->lease_ms ? o->lease_ms : LEASE_MS;
    j->changed = o->changed;
    j->changed_data = o->changed_data;
    pthread_mutex_init(&j->id_lock, NULL);
    j->key_cache = key_cache_new();
    int r = sodium_init() < 0 || !j->key_cache ? error_set(err, ENOMEM, "out of memory")
                                               : jobs_open_folder(j, o, err);
    _cleanup_free_ char *url =
        o->store ? strdup(o->store) : str_printf("sqlite:%s/hutch.db", o->data);
    if (r == 0)
        r = url ? job_store_open(url, &j->store, err) : error_set(err, ENOMEM, "out of memory");
    struct db *db = r == 0 ? store_reader(j->store, true, err) : NULL;
    if (r == 0)
        r = db ? job_id_resume(j, db, err) : -EIO;
    if (r == 0 && !o->keys_only)
        uploads_clean(j, db);
    if (r == 0 && !o->keys_only)
        r = watches_start(j, db, err);
    if (db)
        store_reader_done(j->store, db);
    if (r < 0) {
        jobs_close(j);
        return r;
    }
    *ret = j;
    return 0;
}

struct jobs *jobs_close(struct jobs *j)
{
    if (!j)
        return NULL;
    watches_stop(j->watches);
    store_close(j->store);
    j->watches = watches_free(j->watches);
    key_cache_free(j->key_cache);
    cleanup_close(&j->folder);
    cleanup_close(&j->lock_file);
    pthread_mutex_destroy(&j->id_lock);
    free(j);
    return NULL;
}
