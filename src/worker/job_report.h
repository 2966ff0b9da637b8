/*
 * What a job reports while it runs: events, lines of agent.log, and the actions of memory.json; and
 * its end. A report belongs to one attempt.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "job.h"

struct job_report *job_report_new(struct job *j); /* NULL: no memory */
struct job_report *job_report_free(struct job_report *r);

/* Adds an event (taken over; NULL is dropped). It is sent soon: by the worker's thread for events,
 * or with the next request of the job. */
void job_event(struct job *j, json_t *event);

/* The same for an event that is true only once the server has the next /step or /finish: it is sent
 * with that, never before. At most one at a time. */
void job_event_of_post(struct job *j, json_t *event);

/* Adds a line to agent.log, and the action to memory.json. `input` is borrowed. */
void job_action(struct job *j, const char *tool, const json_t *input, double seconds, bool failed,
                const char *text, size_t n);
/* A line of another kind. */
void job_log(struct job *j, const char *fmt, ...) PRINTF(2, 3);

/* An action of an earlier attempt, for memory.json only. */
void job_remember(struct job *j, const char *tool, const json_t *input, const json_t *result);

/* Are there events that nobody has sent for a while? Called under the worker's lock. */
bool job_report_is_due(struct job *j);
/* Tries once to send them. */
int job_report_send(struct job *j);

/* POST /step or /finish with all events and lines of the log so far. Takes the body over. */
int job_report_post(struct job *j, const char *path, json_t *body, struct error *err);

/* The job's end: its files and /finish; nothing, once the lease is lost. */
void job_report_finish(struct job *j, struct job_outcome *o);
