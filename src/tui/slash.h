/*
 * What a person can say that is not for the model: commands (/undo 2) and shell commands (!ls). One
 * table: parsing, /help, completion and the guess at a slip read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "error.h"

/* What is to be done. Those above JOB_LOCAL need the agent, and are done by whoever has it
 * (desk.h). */
enum job_kind {
    JOB_NONE, /* nothing was said */
    JOB_HELP,
    JOB_QUIT,
    JOB_KEYS, /* what the keys do */
    JOB_LOCAL,
    JOB_OPEN, /* begin: the first job of all */
    JOB_SAY,  /* text: for the model */
    JOB_SHELL,
    JOB_CLEAR,
    JOB_LOAD,
    JOB_SESSIONS,
    JOB_FORK,
    JOB_UNDO,
    JOB_DIFF,
    JOB_APPLY, /* n: an enum apply_choice; text: paths */
    JOB_SYNC,  /* likewise */
    JOB_MODEL,
    JOB_COMPACT,
    JOB_COST,
    JOB_TOOLS,
    JOB_PLAN,
    JOB_EXPORT,
    JOB_ATTEMPTS,
    JOB_NET, /* text: what --net takes; or NULL: what it is */
    JOB_SET, /* text: NAME VALUE; or NULL */
    /* Names for completion: nothing that a person asks for. */
    JOB_FILES,
    JOB_SESSION_NAMES,
};

struct job {
    enum job_kind kind;
    char *text; /* or NULL */
    unsigned n; /* 0: not given */
};
void job_free(struct job *j);

/* What may follow a command's name. */
enum slash_takes {
    TAKES_NOTHING,
    TAKES_TEXT,
    TAKES_TEXT_OR_NOTHING,
    TAKES_NUMBER_OR_NOTHING,
    TAKES_ATTEMPTS,
    TAKES_CHOICE,
};

/* What completes it. */
enum slash_offers { OFFERS_NOTHING, OFFERS_SESSIONS, OFFERS_MODELS, OFFERS_CHOICES };

struct slash {
    const char *name; /* without the slash; NULL ends the table */
    const char *also; /* another name, or NULL */
    const char *args;
    const char *help;
    enum job_kind kind;
    enum slash_takes takes;
    enum slash_offers offers;
};
extern const struct slash SLASHES[];

/* What can be chosen for a conflict, in the order of enum apply_choice; the first has no name. NULL
 * ends it.
 */
extern const char *const SLASH_CHOICES[];

/* The command of that name; NULL: there is none. */
const struct slash *slash_find(const char *name, size_t n);

/* Understands what the person entered. -EINVAL with a text for a person if it is no command, or a
 * wrong one.
 */
int slash_parse(const char *said, struct job *ret, struct error *err);

/* The list for /help. */
int slash_help(struct buf *out);
