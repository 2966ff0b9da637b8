/*
 * The worker: leases jobs from a server and runs them, each on a thread of its own. All it needs is
 * the server's URL and a key, or the path of the server's socket on this host.
 *
 * worker.c leases, renews and stops; job_run.c runs steps, goal.c a goal; live.h what stays. The
 * server is asked through server_client.c, which repeats what a broken connection lost.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "text.h"

struct worker;

struct worker_options {
    const char *server; /* http://…, https://…, or unix:PATH */
    const char *key;    /* NULL: none is needed on a socket */
    const char *name;   /* NULL: made of the host's name and the process */
    const char *folder; /* where its jobs have theirs; NULL: beneath the state folder */
    unsigned slots, live_slots;
};

/* Runs until `cancel` is readable: then it takes no more jobs, gives back what it has and ends. */
int worker_run(const struct worker_options *o, int cancel, struct error *err);

/* A leased job. */
struct job_lease {
    char *id, *user, *kind;
    unsigned token;
    json_t *spec, *results, *resume; /* of the LEASE; resume may be NULL */
    unsigned steps_done;
    bool has_checkpoint;
    uint64_t log_size;
    int64_t deadline_ns; /* monotonic; 0: none */
    char *folder;        /* of its own, removed at the end */
    int cancel;          /* an eventfd: readable once the job is to end */
    /* Why, set before it is readable; neither: the worker shuts down, or the job's time is over. */
    _Atomic bool lost, cancelled;
    _Atomic int64_t held_until_ns; /* monotonic */
    void *adopted; /* of a live job: what worker_adopt was given; NULL: leased as usual */
};

const char *worker_name(const struct worker *w);
const struct worker_options *worker_options(const struct worker *w);
/* What the channels of its live jobs share: made by channels_open() before the first job, freed by
 * channels_close() after the last (channel.h). */
struct channels *worker_channels(const struct worker *w);

/* A live job that the server leased to this worker by itself (a fork of `from`, whose kind and user
 * it has): adds its lease and starts its thread, as if it had come as a LEASE. live_run() finds
 * `adopted` and `resume` (taken over; or NULL) in the lease; on failure `adopted` stays the
 * caller's. */
int worker_adopt(struct worker *w, const struct job_lease *from, const char *id, unsigned token,
                 const json_t *spec, json_t *resume, void *adopted, struct error *err);

/* --- the server (server_client.c); from any thread --- */

/* One request of the workers' protocol, repeated while the server cannot be reached and the lease
 * may still be held. `path` is "step", "finish", …: beneath /v1/worker/jobs/ID. -ESTALE: the lease
 * is lost. ret_answer may be NULL. */
int server_post(struct worker *w, const struct job_lease *l, const char *path, json_t *body,
                json_t **ret_answer, struct error *err);
/* Sends a file of hutch's own (never one of a box): `size` bytes of fd from its beginning. */
int server_put(struct worker *w, const struct job_lease *l, const char *path, const char *kind,
               uint64_t offset, int fd, uint64_t size, json_t **ret_answer, struct error *err);
/* "workspace", "checkpoint" or "memory" into an unnamed file, from whose beginning
 * it is read: *ret_fd -1 if there is none. */
int server_get(struct worker *w, const struct job_lease *l, const char *what, int *ret_fd,
               char ret_type[32], struct error *err);

/* --- what jobs of several kinds need --- */

/* Fetches the workspace that a job begins with into FOLDER/workspace: an upload, a git URL, or the
 * result of another job (workspace.c). ret_path: a new string; NULL: it begins empty. The commit of a
 * git URL is stored as "commit" of lease.resume, which later /resume requests must keep. */
int workspace_prepare(struct worker *w, struct job_lease *l, char **ret_path, struct error *err);

/* Opens the box options of a job's spec ("box"), resolved, on that workspace; see box_options.h. */
struct box_spec;
int job_box_spec(const struct job_lease *l, const char *workspace, bool agent, struct box_spec *ret,
                 struct error *err);
