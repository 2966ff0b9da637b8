/* What the files of the desk share. */
#pragma once

#include "desk.h"

struct desk {
    const struct tui_options *o;
    struct agent_options options; /* with what was chosen since */
    struct desk_sink sink;
    struct agent *agent;   /* NULL before JOB_OPEN */
    pthread_mutex_t lock;  /* for replacing `agent`, which desk_interrupt() uses */
    int cancel;            /* an eventfd: readable once the job under way is to end */
    _Atomic bool stopping; /* the same, for who asks afterwards */
    unsigned attempts;     /* for each thing said; 0 or 1: one */
    char *test;
    unsigned shells;   /* commands of the person's own so far */
    char shell_id[16]; /* of the one under way, as of a call: it begins with a ! */
};

/* How the files of the desk do their jobs: 0 or a negative errno with the text set. */
int desk_open(struct desk *d, struct answer *a, struct error *err);
int desk_say(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_attempts(struct desk *d, const char *words, struct answer *a, struct error *err);
int desk_set_attempts(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_shell(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_load(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_fork(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_sessions(struct desk *d, struct answer *a, struct error *err);
int desk_export(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_undo(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_files(struct desk *d, struct answer *a, struct error *err);
int desk_diff(struct desk *d, struct answer *a, struct error *err);
int desk_apply(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_sync(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_model(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_cost(struct desk *d, struct answer *a, struct error *err);
int desk_tools(struct desk *d, struct answer *a, struct error *err);
int desk_net(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_set(struct desk *d, const struct job *j, struct answer *a, struct error *err);
int desk_plan(struct desk *d, struct answer *a, struct error *err);

/* Fills a->changes with what is pending. */
int desk_changes(struct desk *d, struct answer *a, struct error *err);

/* The agent's sink, and telling it something oneself. */
struct agent_sink desk_agent_sink(struct desk *d);
void desk_tell(struct desk *d, const struct agent_event *e);

/* Takes the agent over in place of the one at hand, which is closed. */
void desk_use(struct desk *d, struct agent *agent);

/* Shows the conversation again, its last part if it is long. */
int desk_recall(struct desk *d, struct error *err);
