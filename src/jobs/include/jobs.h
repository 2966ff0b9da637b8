/*
 * Jobs: submitted, queued, leased to workers, ended. docs/control-plane.md describes them; its words
 * are used here without further explanation.
 *
 * Everything is kept in a store (store.h) and a folder. What a call changed is durable when it
 * returns; changes of several threads are committed together, so many threads should call at once.
 * Any thread may call anything. Every call returns 0 or a negative errno with one line in `err`:
 * -ENOENT: there is no such job (or it is another user's); -ESTALE: the lease is lost; -EBUSY: a
 * limit of the user; -EALREADY: the job has ended; -EINVAL: a mistake of the caller; -EIO, -ENOSPC:
 * the disk, and nothing was changed.
 *
 * Times are in milliseconds of the real-time clock, 0: none. Leases are counted on the monotonic
 * clock, so that a clock that jumps ends none.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "text.h"

#define JOB_ID_LEN 20

struct jobs;

struct jobs_options {
    const char *data;  /* the folder; made if need be (0700) */
    const char *store; /* sqlite:PATH; NULL: hutch.db in the folder */
    int64_t keep_ms;   /* ended jobs are removed after that; 0: never */
    int64_t lease_ms;  /* 0: 15 s */
    bool keys_only;    /* keys, users and the audit log: also while a server has the folder open */
    /* An event was appended to this job, or it changed. Called from any thread, under no lock. */
    void (*changed)(void *data, const char *job);
    void *changed_data;
};

/* Only one process at a time opens a folder's jobs: -EBUSY. Jobs that were running keep their leases
 * for lease_ms, so that workers can go on after a restart of the server. */
int jobs_open(const struct jobs_options *o, struct jobs **ret, struct error *err);
struct jobs *jobs_close(struct jobs *j);

/* Milliseconds of the real-time clock. Tests move it by HUTCH_CLOCK_OFFSET_MS's file. */
int64_t jobs_now(void);

/* "2026-11-18T19:54:03.123Z"; JSON null for 0. */
json_t *jobs_time_json(int64_t ms);

/* --- clients ---
 *
 * `user` NULL: any (an admin). A job of another user does not exist. */

struct job_submission {
    const char *user;
    const char *kind;        /* "steps", "goal", "session", "box", "gym", "mcp" */
    const json_t *spec;      /* as docs/control-plane.md describes; its form has been checked */
    const char *idempotency; /* the client's key; NULL: none */
    int64_t ttl_ms;          /* of a live job: it ends when it was idle so long; 0: none */
    const char *leased_to;   /* a live job that this worker already runs (a fork); NULL */
    uint64_t max_live;   /* of the user, 0: no limit: live jobs that exist at once (-EBUSY)… */
    uint64_t max_stored; /* …and bytes (-EDQUOT). How many run at once, the queue limits. */
};
/* *ret_existed: it is the job of an earlier submission with the same key (and the same spec; else
 * -EEXIST). Checks that jobs in `after`, `memory_from` and `workspace` are the user's. */
int jobs_submit(struct jobs *j, const struct job_submission *s, char ret_id[JOB_ID_LEN + 1],
                bool *ret_existed, struct error *err);

/* The job as clients read it: a new reference. */
int jobs_get(struct jobs *j, const char *user, const char *id, json_t **ret, struct error *err);

struct job_query {
    const char *user;   /* NULL: all */
    const char *state;  /* NULL: all; or several, separated by commas */
    const char *kind;   /* likewise */
    const char *search; /* in titles, IDs and labels */
    const char *label;  /* "key=value" */
    const char *before; /* an ID: older ones only */
    unsigned limit;     /* 1 … 500 */
};
/* Newest first, without `spec` and `result`. *ret_more: there are older ones. */
int jobs_list(struct jobs *j, const struct job_query *q, json_t **ret, bool *ret_more,
              struct error *err);

/* A scheduled job ends at once; a running one when its worker has killed it, or lost its lease. 0
 * also if it was cancelled before; -EALREADY: it has ended in another way. */
int jobs_cancel(struct jobs *j, const char *user, const char *id, struct error *err);

/* Removes an ended job with its folder: -EBUSY while it runs. */
int jobs_remove(struct jobs *j, const char *user, const char *id, struct error *err);

/* A new job with the same spec. */
int jobs_repeat(struct jobs *j, const char *user, const char *id, char ret_id[JOB_ID_LEN + 1],
                struct error *err);

/* Events behind number `after`, at most `max` of them and about 256 KiB, as JSON texts: calls `each`
 * with the number and the object's text. *ret_ended: the job has ended and these are the last. */
int jobs_events(struct jobs *j, const char *user, const char *id, uint64_t after, unsigned max,
                void (*each)(void *data, uint64_t seq, const char *type, const char *text,
                             size_t n),
                void *data, bool *ret_ended, struct error *err);

/* Opens a file of the job for reading: "agent.log", "memory.json", "diff", "files/PATH". -ENOENT
 * without a text: there is none (yet). */
int jobs_file_open(struct jobs *j, const char *user, const char *id, const char *path, int *ret_fd,
                   uint64_t *ret_size, struct error *err);
/* [{"path", "size"}, …] of its artifacts. */
int jobs_files(struct jobs *j, const char *user, const char *id, json_t **ret, struct error *err);

/* Takes over a spooled upload (an unnamed file in the data folder, see jobs_spool) that a job can
 * name as its workspace; it is removed after a day if none does. `type`: "tar" or "zip". */
int jobs_spool(struct jobs *j, int *ret_fd, struct error *err);
int jobs_upload(struct jobs *j, const char *user, int fd, const char *type, uint64_t max_stored,
                char ret_id[JOB_ID_LEN + 1], struct error *err);
int jobs_upload_remove(struct jobs *j, const char *user, const char *id, struct error *err);

/* --- workers --- */

struct lease_request {
    const char *worker;
    unsigned slots, live_slots; /* how many jobs of steps and goals, and live ones, it takes now */
    const json_t *tasks;        /* gym tasks that it has ready; or NULL */
    int wait_ms;                /* for a job to be there */
    int cancel;                 /* ends the wait when it becomes readable; -1: none */
};
/* An array of LEASE objects, perhaps empty. By priority, then in the order of submission, fair
 * between users. */
int jobs_lease(struct jobs *j, const struct lease_request *q, json_t **ret, struct error *err);

/* `leases` is [{"job", "token"}, …]; the answer has their states. */
int jobs_renew(struct jobs *j, const char *worker, const json_t *leases, int wait_ms, int cancel,
               json_t **ret, struct error *err);

/* A worker of this host has died: its leases end now. */
void jobs_worker_lost(struct jobs *j, const char *worker);

struct lease {
    const char *job;
    unsigned token;
};
/* 0 if the lease is held; ret_user and ret_kind may be NULL and are borrowed by nobody: free them. */
int jobs_lease_check(struct jobs *j, const struct lease *l, char **ret_user, char **ret_kind,
                     struct error *err);
int jobs_lease_events(struct jobs *j, const struct lease *l, uint64_t first, const json_t *events,
                      uint64_t *ret_next, struct error *err);
/* `body` is that of the request /step, /finish, /resume. */
int jobs_lease_step(struct jobs *j, const struct lease *l, const json_t *body, struct error *err);
int jobs_lease_finish(struct jobs *j, const struct lease *l, const json_t *body, struct error *err);
int jobs_lease_resume(struct jobs *j, const struct lease *l, const json_t *body, struct error *err);
/* Takes a spooled file over. ret_upload: for kind "checkpoint". */
int jobs_lease_file(struct jobs *j, const struct lease *l, const char *kind, const char *path,
                    uint64_t offset, int fd, char ret_upload[JOB_ID_LEN + 1], struct error *err);
/* what: "workspace", "checkpoint", "memory". *ret_fd -1: there is none. ret_type: "tar", "zip",
 * "json". */
int jobs_lease_open(struct jobs *j, const struct lease *l, const char *what, int *ret_fd,
                    const char **ret_type, struct error *err);

/* A live job was used: its idle time begins again. */
int jobs_touch(struct jobs *j, const char *id);
/* The same, and an event is appended to it (borrowed). */
int jobs_note(struct jobs *j, const char *id, const json_t *event, struct error *err);

/* --- keys, users, audit --- */

enum role { ROLE_NONE, ROLE_READ, ROLE_USER, ROLE_ADMIN, ROLE_WORKER };
const char *role_name(enum role r); /* "read-only", "user", "admin", "worker" */
enum role role_of(const char *name);

struct user_limits {     /* 0: none */
    uint64_t running;    /* jobs at once */
    uint64_t live;       /* boxes, sessions, environments and MCP clients together */
    uint64_t per_second; /* requests */
    uint64_t stored;     /* bytes */
};

struct api_key {
    char id[JOB_ID_LEN + 1];
    char *name, *user;
    enum role role;
    struct user_limits limits; /* of its user */
};
void api_key_free(struct api_key *k);

/* A new key's text, "hutch_ID_SECRET", is shown once: only an Argon2id hash of it is kept. */
int keys_new(struct jobs *j, const char *name, const char *user, enum role role, char **ret_key,
             struct error *err);
/* -ENOENT: not a key. Slow the first time (Argon2); then answers from memory, until it is removed. */
int keys_check(struct jobs *j, const char *text, struct api_key *ret, struct error *err);
int keys_list(struct jobs *j, json_t **ret, struct error *err);
int keys_remove(struct jobs *j, const char *id_or_name, struct error *err);
bool keys_any(struct jobs *j); /* was there ever one? */
/* [{"name", "limits", "stored_bytes", "jobs", "cost"}, …]; sets the members of `limits` given. */
int users_list(struct jobs *j, json_t **ret, struct error *err);
int users_set(struct jobs *j, const char *user, const json_t *limits, struct error *err);

/* One line of the audit log: who did what to what. Never fails the request. */
void audit_add(struct jobs *j, const char *user, const char *key, const char *address,
               const char *action, const char *object, int status);
int audit_list(struct jobs *j, const char *before, unsigned limit, json_t **ret, struct error *err);

/* For /metrics and /readyz: {"scheduled", "running", "completed", …, "commits", "commit_ms",
 * "batch"}; fails if the store cannot write. */
int jobs_health(struct jobs *j, json_t **ret, struct error *err);
