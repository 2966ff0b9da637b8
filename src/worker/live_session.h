/* Inside of a session: its folder, its events, its operations (live_session.c). */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "box_options.h"
#include "live.h"
#include "settings.h"
#include "text.h"
#include "worker.h"

#define SESSION_NAME_MAX 32 /* the ID of a job */

/* --- session_home.c --- */

/*
 * What a session and its forks share: a folder on the worker's host that outlives the worker, named
 * after the first of them, and what agents borrow.
 *
 *     ROOT/sessions/JOB/           ROOT: the worker's folder, or $XDG_STATE_HOME/hutch
 *         workspace/   what the boxes show; changed by `apply` only
 *         histories/   one per session
 *         members/JOB  one per session; not empty while a message is answered
 *         system.md
 */
struct session_home {
    atomic_uint refs;
    char name[SESSION_NAME_MAX];
    char *top; /* the folder of all homes */
    char *folder, *workspace, *histories, *members;
    char *system; /* NULL: the built-in system prompt */
    char *model;  /* NULL: the configured one */
    struct settings *settings;
    struct box_spec box;
    struct agent_options agent; /* for agent_open */
};

/* A new folder with the workspace that the job names; or that of an earlier attempt. -ENOENT: it is
 * not on this host. */
int session_home_new(const struct live_job *l, struct session_home **ret, struct error *err);
int session_home_find(const struct live_job *l, const char *name, struct session_home **ret,
                      struct error *err);
struct session_home *session_home_ref(struct session_home *h);
struct session_home *session_home_free(struct session_home *h); /* drops one reference */

/* Its member's file: a descriptor. *ret_interrupted: the worker ended while a message was answered. */
int session_home_join(struct session_home *h, const char *job, int *ret_fd, bool *ret_interrupted,
                      struct error *err);
/* The folder is removed with its last member. */
void session_home_leave(struct session_home *h, const char *job);

/* The workspace as a tar, in a file without a name. */
int session_home_tar(const struct session_home *h, int *ret_fd, struct error *err);

/* --- session_events.c --- */

/* Passes the events of a session on: to the client of the present call as they come, and to the
 * events of the job, where pieces of text are merged to paragraphs. */
struct session_events {
    struct live_job *job;   /* NULL: not known yet; what comes is dropped */
    struct live_call *call; /* NULL: only the job's events */
    struct buf text;        /* not stored yet */
    enum agent_event_kind text_kind;
    enum model_stop stop; /* of the last turn */
    char why[256];
};
#define SESSION_TEXT_MAX 8192

void session_events_agent(struct session_events *v, const struct agent_event *e);
/* Takes the event over. `store`: also as an event of the job. */
void session_events_send(struct session_events *v, json_t *event, bool store);
void session_events_log(struct session_events *v, const char *text);

/* A copy that is at most `max` bytes long as text: of long strings the beginning is left, of more
 * than that the members "input", "data" and "changes" are dropped. NULL: no memory. */
json_t *event_trimmed(const json_t *event, size_t max);

/* --- session_history.c --- */

/* The conversation from message `from` on, as {"items", "next"}: what a page shows. */
int session_conversation(const struct session_home *h, const char *history, size_t from,
                         json_t **ret, struct error *err);
