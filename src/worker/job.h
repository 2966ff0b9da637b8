/*
 * Inside of the worker: the process (worker.c), and a job under way with what it reports
 * (job_report.c), whatever its kind is.
 */
#pragma once

#include <pthread.h>

#include "box_options.h"
#include "server_client.h"
#include "session.h"
#include "worker.h"

struct job_outcome;
struct job_report;

struct job {
    struct job_lease lease; /* first */
    struct worker *worker;
    struct job *next; /* of all that the worker runs */
    bool live;
    bool timed_out;   /* why it is to end, beside those of the lease */
    bool keep_folder; /* a next attempt may need it */
    unsigned pins;    /* others that use it; guarded by the worker's lock */
    int folder_lock;
    int64_t began_ns; /* monotonic */
    struct job_report *report;
};

struct worker {
    struct worker_options options; /* name, folder and slots are complete */
    char name[200], host[128], *folder;
    struct server_client *client;
    struct channels *channels;
    int stop; /* an eventfd: no more jobs */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct job *jobs;
    unsigned n_jobs, n_live;
    int64_t lease_ns;
    struct error refused; /* the server wants no worker with this key */
    bool stopping, ended;

    pthread_mutex_t pool_lock;
    struct box_spec pool_spec;
    struct pool *pool; /* of boxes with the default options; opened by the first job */
};

/* A fresh box with the default options and an empty workspace. */
int worker_take_box(struct worker *w, struct box **ret, struct error *err);
void worker_give_box(struct worker *w, struct box *b);

/*
 * --- leases (renewal.c) ---
 */

/* Is the lease held, by this worker's clock? If not, its job ends. */
bool lease_is_held(struct job_lease *l);
void lease_lose(struct job_lease *l);
void lease_wake(struct job_lease *l); /* makes `cancel` readable */

/* The thread that renews the worker's leases. */
void *renewal_main(void *worker);

/* Makes the job's folder on this host: lease.folder. */
int job_make_folder(struct job *j, struct error *err);

/*
 * --- how a job ends ---
 */
struct job_outcome {
    bool failed;
    const char *exit_reason; /* NULL: "completed" */
    struct error error;      /* its text is shown; code 0: none */
    bool retry;              /* it was a fault: another attempt may succeed */
    json_t *steps;           /* results that /step has not sent */
    json_t *result, *usage, *plan;
    double cost; /* dollars; negative: not known */
};
void job_outcome_free(struct job_outcome *o);

/* A fault or a mistake, as `retry` says: for `return job_fail(…)`. */
int job_fail(struct job_outcome *o, const struct error *err, bool retry);

/* Mistakes of the user fail the job; anything else may go better in another attempt. */
bool job_error_is_fault(int code);

/* Kinds, on a thread of the job's own. */
void job_run_steps(struct job *j, struct job_outcome *ret);
void job_run_goal(struct job *j, struct job_outcome *ret);

/* The tool and its input for a step {"tool", …}, whose tool may also be shell, python or typescript.
 * *ret_input is a new reference. */
int step_call(const json_t *step, const char **ret_tool, json_t **ret_input, struct error *err);
