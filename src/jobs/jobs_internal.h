/* What the files of this layer share. */
#pragma once

#include <pthread.h>
#include <sodium.h>

#include "jobs.h"
#include "json.h"
#include "store.h"
#include "thread.h"

#define USER_NAME_MAX 128
#define TOKEN_MAX     INT32_MAX
#define JOB_TEXT_MAX  (128LL << 20) /* bytes of a job's events and results */

enum job_state { JOB_SCHEDULED, JOB_RUNNING, JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED };
const char *job_state_name(enum job_state s);
int job_state_of(const char *name); /* -1: none */

struct watches;
struct key_cache;

struct jobs {
    int64_t keep_ms, lease_ms;
    void (*changed)(void *data, const char *job);
    void *changed_data;
    int folder, lock_file; /* descriptors */
    struct store *store;
    struct watches *watches; /* NULL: keys only */
    struct key_cache *key_cache;

    pthread_mutex_t id_lock;
    uint64_t id_ms, id_random; /* of the last one */
};

/* A new ID, larger than all before, also when the clock goes back. */
void job_id_make(struct jobs *j, char ret[JOB_ID_LEN + 1]);
bool job_id_is_valid(const char *id);
void time_format(int64_t ms, char ret[32]);
int64_t time_parse(const char *rfc3339); /* -1: it is none */

/* --- changes --- */

/* What a change means for the leases and timers in memory, once it is committed. */
enum effect_kind {
    EFFECT_CHANGED, /* an event was appended */
    EFFECT_READY,   /* a worker may take it */
    EFFECT_LIVE,    /* a live job exists: ms is its ttl */
    EFFECT_LEASED,
    EFFECT_WAITING, /* its attempt ended: it is ready again after ms */
    EFFECT_CANCEL,
    EFFECT_ENDED,
};

struct effect {
    enum effect_kind kind;
    char job[JOB_ID_LEN + 1];
    unsigned token;
    const char *worker; /* borrowed until the change returns */
    int64_t ms, deadline_ms;
};

/* A store_change that knows its effects. Each kind of change begins with this struct. */
struct job_change {
    struct store_change base;
    struct jobs *jobs;
    int (*run)(struct db *db, struct job_change *c, struct error *err);
    struct effect *effects;
    size_t n_effects, room;
};
/* Runs it, waits until it is durable, and wakes the threads that wait for its effects. */
int job_change_commit(struct jobs *j, struct job_change *c, struct error *err);
int job_change_effect(struct job_change *c, const char *job, struct effect e, struct error *err);

#define JOB_CHANGE(function) ((struct job_change){.run = (function)})

/* --- a job's row (job_state.c); within a change --- */

struct job_row {
    char id[JOB_ID_LEN + 1], owner[USER_NAME_MAX + 1], kind[16], ending[16];
    char checkpoint[JOB_ID_LEN + 1], workspace_upload[JOB_ID_LEN + 1];
    char workspace_job[JOB_ID_LEN + 1], memory_from[JOB_ID_LEN + 1];
    enum job_state state;
    bool live;
    unsigned attempt;
    int64_t max_attempts, failures, ended_token, timeout_ms, started_at, ttl_ms, keep_ms;
    int64_t steps_done, steps_total, last_event, attempt_events, stored_bytes, text_bytes;
    int64_t text_added; /* to the user's stored bytes by the next job_save */
};

static inline bool job_has_ended(const struct job_row *row)
{
    return row->state >= JOB_COMPLETED;
}

/* user NULL: any. -ENOENT. */
int job_fetch(struct db *db, const char *user, const char *id, struct job_row *ret,
              struct error *err);
/* The row, if the lease is held; else -ESTALE. */
int job_fetch_leased(struct db *db, const struct lease *l, struct job_row *ret, struct error *err);
int lease_lost(const struct lease *l, struct error *err);

/* A JSON text of the job, by a query with its ID: NULL if there is no row or it is null. */
int job_fetch_json(struct db *db, const char *sql, const char *id, json_t **ret, struct error *err);

/* Appends an event; the number is kept in the row, for job_save. `body` is the text of an object
 * without seq, time and attempt. Beyond what a job may have, one event says so and the rest is
 * dropped. */
int job_event(struct db *db, struct job_row *row, const char *type, const char *body, size_t n,
              struct error *err);
int job_log(struct db *db, struct job_row *row, struct error *err, const char *fmt, ...)
    PRINTF(4, 5);
/* Writes the counts and names that may have changed in the row. */
int job_save(struct db *db, struct job_change *c, struct job_row *row, struct error *err);
void job_count_text(struct job_row *row, size_t n);
/* Makes an upload of the job its checkpoint ("": none), and the others garbage. */
int job_set_checkpoint(struct db *db, struct job_row *row, const char *upload, struct error *err);

/* Ends it, and what depends on it. */
int job_end(struct db *db, struct job_change *c, struct job_row *row, enum job_state state,
            const char *exit_reason, const char *error, struct error *err);
/* Ends a job as `ending` says: "cancelled", "timeout" or "idle". */
int job_end_as(struct db *db, struct job_change *c, struct job_row *row, const char *ending,
               struct error *err);
/* Makes it run again after `backoff_ms`. */
int job_requeue(struct db *db, struct job_change *c, struct job_row *row, int64_t backoff_ms,
                struct error *err);
int64_t job_backoff_ms(int64_t failures);
/* A fault ended the attempt: again, unless it was the last one. */
int job_fault(struct db *db, struct job_change *c, struct job_row *row, const char *exit_reason,
              const char *error, struct error *err);
/* Sets why a running job is to end; its worker hears of it. */
int job_set_ending(struct db *db, struct job_change *c, struct job_row *row, const char *ending,
                   struct error *err);

/* (ending.c) Removes an ended job; -EBUSY if it has not, or if another job needs its files. */
int job_remove(struct db *db, struct job_change *c, struct job_row *row, struct error *err);
int upload_drop_unused(struct db *db, const char *id, struct error *err);
/* The results of the finished steps. */
int job_step_results(struct db *db, const char *id, json_t **ret, struct error *err);

/* --- files (folder.c) --- */

#define UPLOADS "uploads"

/* The path of a job's file, or of its folder for "". */
char *job_path(const char *id, const char *name);
/* Folders of the data folder are made as needed. Paths are valid; links are never followed. */
int folder_make_parents(int folder, const char *path, struct error *err);
int folder_open_file(int folder, const char *path, int flags, int *ret_fd);
/* Gives an unnamed file a name that no other file has; its bytes are durable then. */
int folder_adopt(int folder, int fd, const char *path, uint64_t *ret_size, struct error *err);
/* Renames, over a file that is there; durable. */
int folder_replace(int folder, const char *from, const char *to, struct error *err);
/* A file or a folder with all that is in it; 0 also if there is none. */
int folder_remove(int folder, const char *path);

/* Removes uploads that a crash left without a row; before there are new ones. */
void uploads_clean(struct jobs *j, struct db *db);
/* Makes agent.log durable. */
int files_sync_log(struct jobs *j, const char *id, struct error *err);
/* Appends to it within a change; the job's folder exists. `max`: bytes that the user may store; 0:
 * as its limit says. */
int files_add_log(struct db *db, struct jobs *j, struct job_row *row, const void *text, size_t n,
                  uint64_t offset, uint64_t max, struct error *err);

int garbage_add(struct db *db, const char *path, struct error *err);

/* --- users --- */

/* Adds to what the user stores. -EDQUOT beyond `limit`, or the user's own if it is 0. */
#define NO_LIMIT UINT64_MAX
int user_add_stored(struct db *db, const char *user, int64_t bytes, uint64_t limit,
                    struct error *err);
int user_name_check(const char *user, struct error *err);

/* --- memory: leases, timers, and who waits (watch.c) --- */

/* Reads what the store says, and starts the reaper's thread. */
int watches_start(struct jobs *j, struct db *db, struct error *err);
void watches_stop(struct watches *w);
struct watches *watches_free(struct watches *w);
void watches_apply(struct watches *w, const struct effect *effects, size_t n);

/* A thread that waits: its descriptor becomes readable when something happened. */
struct waiter {
    struct waiter *next, **prev;
    int fd;
    bool for_lease; /* a job is ready; else: a lease ended or is to end */
};
int waiter_begin(struct watches *w, struct waiter *ret, bool for_lease, struct error *err);
void waiter_end(struct watches *w, struct waiter *waiter);

enum lease_state { LEASE_HELD, LEASE_LOST, LEASE_CANCEL };
/* Makes it last for lease_ms from now, if it is held. */
enum lease_state watch_renew(struct watches *w, const char *job, unsigned token,
                             const char *worker);
int64_t watch_deadline_ms(struct watches *w, const char *job); /* left; INT64_MAX: none */
int watch_touch(struct watches *w, const char *job);
void watches_lose_worker(struct watches *w, const char *worker);
bool watch_ran_long(struct watches *w,
                    const char *job); /* a live job: its attempt was no failure */

/* What is due. The reaper asks, changes the store, and the change's effects update the watch. */
enum due_kind { DUE_LOST, DUE_READY, DUE_TIMEOUT, DUE_IDLE, DUE_FORCE };
struct due {
    char job[JOB_ID_LEN + 1];
    unsigned token;
    enum due_kind kind;
};
/* Up to `max`, in *ret_n; when there are none it waits at most `timeout_ms` for one, or until
 * watches_stop. False: stop. */
bool watches_due(struct watches *w, struct due *ret, size_t max, int64_t timeout_ms, size_t *ret_n);
/* The reaper waits; false: stop. */
bool watches_pause(struct watches *w, int64_t ms);
/* Is it still so? From then on the lease counts as lost. */
bool watch_is_due(struct watches *w, const struct due *d);

void *reaper_main(void *jobs); /* reaper.c */

/* --- keys --- */

struct key_cache *key_cache_new(void);
struct key_cache *key_cache_free(struct key_cache *c);
