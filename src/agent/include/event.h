/*
 * Events of an agent, for what shows it: the terminal, `ask`, a job's log. They come from the
 * thread that runs the turn, in order; texts are valid UTF-8 but untrusted: they may hold control
 * characters (use base/text.h before a terminal).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "model.h"
#include "tool.h"

/* What a session's box changed in the workspace. */
struct agent_change {
    char *path;
    const char *kind;        /* added, modified, deleted */
    uint64_t added, deleted; /* lines */
    bool binary;
};

struct agent_changes {
    struct agent_change *items;
    size_t count;
    uint64_t added, deleted;
    bool commits; /* a repository of the workspace changed, too: there may be commits to deliver */
};

/* Is there something to apply? */
static inline bool agent_changes_any(const struct agent_changes *c)
{
    return c->count > 0 || c->commits;
}
void agent_changes_free(struct agent_changes *c);

/* An independent copy; -ENOMEM leaves *ret empty. */
int agent_changes_copy(const struct agent_changes *from, struct agent_changes *ret);

struct agent_money {
    bool known;  /* the model's price is */
    double cost; /* dollars */
};

enum agent_event_kind {
    AGENT_TEXT,     /* text, n */
    AGENT_THINKING, /* text, n */
    AGENT_BACK,     /* keep, keep_thinking: see MODEL_BACK */
    AGENT_SAID,     /* the model's answer is complete */
    AGENT_WRITING,  /* text: name of a tool, whose input is being received */
    AGENT_CALL,     /* id, name, input: the call starts */
    AGENT_PROGRESS, /* id, seconds, text: the last line of its output, say */
    AGENT_RESULT,   /* id, name, result, seconds */
    AGENT_WAIT,     /* text: why; wait_ms, attempt: before the next request to the model */
    /* usage, money: of one answer; session_*: of the whole session; window, context: tokens */
    AGENT_USAGE,
    AGENT_NOTE, /* text: something a person should know (context compacted, a box restored) */
    /* the turn is over and the box has changes: `changes`, lines added and deleted */
    AGENT_CHANGES,
    AGENT_DONE, /* the turn is over: stop, why (NULL, or what limit ended it) */
};

struct agent_event {
    enum agent_event_kind kind;
    const char *text;
    size_t n, keep, keep_thinking;
    const char *id, *name; /* of a call */
    const json_t *input;
    const struct tool_result *result;
    double seconds;
    int wait_ms, attempt, attempts; /* of the retries that there may be */
    struct model_usage usage, session_usage;
    struct agent_money money, session_money;
    uint64_t context, window; /* tokens sent last; 0: not known */
    const struct agent_changes *changes;
    enum model_stop stop;
    const char *why;
};

struct agent_sink {
    void (*event)(void *data, const struct agent_event *e);
    void *data;
};

/* The event as `hutch ask --json` prints it; NULL: the event has no JSON form, or no memory. */
json_t *agent_event_json(const struct agent_event *e);

/* The same for changes, and tokens with their cost in dollars (null where it is not known). */
json_t *agent_changes_json(const struct agent_changes *c);
json_t *agent_usage_json(const struct model_usage *u, const struct agent_money *money);
