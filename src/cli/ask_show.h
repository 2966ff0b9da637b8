/*
 * What `hutch ask` shows of an agent at work: the model's words on stdout as they come, everything
 * else in short lines on stderr; or with --json one event per line on stdout (docs/agent.md).
 */
#pragma once

#include "agent.h"
#include "harmless.h"

struct ask_show {
    bool json;
    bool terminal;                /* stdout is one: what comes from strangers is made harmless */
    bool middle;                  /* of a line, on stdout */
    struct harmless pieces;       /* of the model's words */
    struct agent_changes changes; /* of the last turn */
    json_t *attempts;             /* how each did, for the last event; or NULL */
    bool done;
    enum model_stop stop;
    char why[256];
};

void ask_show_init(struct ask_show *s, bool json);
void ask_show_free(struct ask_show *s);

/* Fits agent_sink.event. */
void ask_show_event(void *data, const struct agent_event *e);
/* Fits attempts_sink.event. */
void ask_show_attempt(void *data, unsigned attempt, const struct agent_event *e);

void ask_show_session(struct ask_show *s, struct agent *a, bool resumed);
void ask_show_changes(struct ask_show *s);
void ask_show_error(struct ask_show *s, const struct error *err);

/* How it all ended. */
struct ask_end {
    struct agent *agent;
    bool applied;
    int conflicts;
    int status;
};
void ask_show_end(struct ask_show *s, const struct ask_end *e);

/* ask_json.c: prints one event as a line on stdout, and drops it. */
#define ATTEMPT_NONE (~0u)
void ask_json_print(json_t *event, unsigned attempt);
json_t *ask_json_event(const struct agent_event *e); /* NULL: it is none of the types */
json_t *ask_json_changes(const struct agent_changes *c);
