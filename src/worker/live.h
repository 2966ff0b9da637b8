/*
 * Live jobs in a worker: each has a channel to the server (channel.c) on which calls come. A call
 * runs on a thread of its own; the calls of one live job run at once, so its kind locks what it
 * must. docs/control-plane.md has the protocol.
 *
 * A kind of live job is a row: live_box.c, live_session.c, live_gym.c, live_mcp.c. LIVE_KINDS in
 * live.c lists them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "text.h"

struct worker; /* the process, worker.h */
struct job_lease;
struct live_job;  /* a lease of a live job, with its channel */
struct live_call; /* one call */

struct live_op {
    const char *name;
    /* Runs the call and ends it by one of call_end, call_fail, call_problem (without one it ends
     * with status 200 and null). */
    void (*run)(struct live_call *c);
};

struct live_kind {
    const char *name; /* "box" */
    /* Makes what the job holds, from its lease; *ret_state is given to the calls. Runs once before
     * the first call. An error fails the job (faults are tried again: err->code EIO, ENOMEM). */
    int (*open)(struct live_job *l, void **ret_state, struct error *err);
    /* Ends it: no call is under way any more. `keep`: the job was not cancelled (the worker shuts
     * down, or lost the lease) and goes on elsewhere, so what outlives the process (a kept box, a
     * history) stays. */
    void (*close)(struct live_job *l, void *state, bool keep);
    const struct live_op *ops; /* ended by a row without a name */
};

extern const struct live_kind LIVE_BOX, LIVE_SESSION, LIVE_GYM, LIVE_MCP;

/*
 * Runs a leased live job, on the thread of the caller, until its lease's `cancel` is readable: opens
 * its kind, serves its channel, closes it. 0: it was ended from outside (l->cancelled, l->lost, or
 * the worker shuts down); else why it failed, for /finish: EIO, ENOMEM and EAGAIN are faults, which
 * are tried again.
 */
int live_run(struct worker *w, struct job_lease *l, struct error *err);

/* --- the job --- */

const char *live_job_id(const struct live_job *l);
const char *live_job_user(const struct live_job *l);
const json_t *live_job_spec(const struct live_job *l);   /* the submission */
const json_t *live_job_resume(const struct live_job *l); /* of an earlier attempt; or NULL */
struct worker *live_job_worker(const struct live_job *l);
const char *live_job_folder(
    const struct live_job *l); /* of its own, on this host; removed at the end */
struct job_lease *live_job_lease(const struct live_job *l); /* for the calls of worker.h */
int live_job_cancel(const struct live_job *l);              /* readable once the job is to end */

/* Stores what a next attempt needs (taken over). Blocks until it is durable. */
int live_job_set_resume(struct live_job *l, json_t *resume, struct error *err);
/* Appends an event to the job's events (taken over). Never blocks for long. */
void live_job_note(struct live_job *l, json_t *event);
/* A job that the server made for this worker (a fork): runs it with this state; its kind's open()
 * is not called. `id` and `token` come in the call's input. `resume` as in live_job_set_resume(),
 * taken over; NULL: none. On failure the state stays the caller's. */
int live_job_adopt(struct live_job *from, const char *id, unsigned token, const json_t *spec,
                   json_t *resume, void *state, struct error *err);

/* --- the call --- */

struct live_job *call_job(const struct live_call *c);
void *call_state(const struct live_call *c);   /* of the kind */
json_t *call_input(const struct live_call *c); /* borrowed; an object */
const char *call_user(const struct live_call *c);
int call_cancel(const struct live_call *c); /* readable once nobody waits for it any more */

/* Both wait for credit, so that a slow client slows the call down: -ECANCELED once nobody waits for
 * it any more. An event may be as large as LIVE_EVENT_MAX; n 0: the end of the data. */
#define LIVE_EVENT_MAX (512u << 10)
int call_event(struct live_call *c, json_t *event); /* taken over */
int call_send(struct live_call *c, const void *data, size_t n);
/* Sends as much as there is credit for, and waits for nothing: the number of bytes, or -ECANCELED. */
ssize_t call_send_now(struct live_call *c, const void *data, size_t n);
/* The next data of the client: 1 with the buffer replaced, 0 at its end or (timeout_ms) when nothing
 * came, -ECANCELED. */
int call_receive(struct live_call *c, struct buf *ret, int timeout_ms, bool *ret_end);
/* For threads that wait for several things: readable while there is data to receive; and readable
 * once there is credit again after call_send_now() had too little. Both once it was cancelled. */
int call_fd(const struct live_call *c);
int call_credit_fd(const struct live_call *c);

void call_end(struct live_call *c, json_t *body); /* status 200; taken over */
void call_problem(struct live_call *c, int status, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void call_fail(struct live_call *c, const struct error *err); /* by its errno: ENOENT 404, … */
