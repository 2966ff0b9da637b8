/*
 * What the files of a keeper share: the boxes that it holds and who is using them, and what clients
 * (kept_box.c) and keepers (serve.c) send each other.
 *
 * A held box has a name, a listener and, behind one pointer, its instance: the struct box itself,
 * which `restore` replaces. A request works on the instance that it found when it entered; retiring
 * an instance asks the requests in it to end, waits until they left, and only then closes the box.
 *
 * Two kinds of locks. `keeper.lock` guards the lists and pointers here and is held for moments.
 * `held.owner` is held during calls of box.h that belong to a box's owner (all but box_exec and
 * box_connect), for as long as they take; it is taken first.
 */
#pragma once

#include <pthread.h>

#include "keeper.h"

struct request {
    struct keeper *keeper;
    struct held *held;
    struct instance *instance; /* while entered */
    int conn; /* to the client; its reading end is shut to end a command; -1: there is none */
    struct request *next;
};

struct instance {
    struct box *box;
    struct request *requests;
};

struct kept_snapshot {
    char name[KEEPER_SNAPSHOT_NAME];
    struct snapshot *snapshot;
};

struct held {
    struct registry_id id;
    int listener;
    int64_t born, used; /* used: when a request last ended */
    struct keeper_life life;
    bool ending; /* the keeper's loop has begun to remove it */
    bool removed;
    size_t refs; /* requests that point here */
    pthread_mutex_t owner;
    struct instance *instance;
    /* Those of the boxes that it was forked from, as ID:NAME; KEEPER_ORIGIN; its own. */
    struct kept_snapshot *snapshots;
    size_t n_snapshots;
    unsigned last_snapshot; /* how many of them are its own; under keeper.lock, too */
    struct held *next;
};

struct keeper {
    int registry;
    int epoll; /* all listeners, and: */
    int wake;  /* an eventfd: the lists changed */
    pthread_mutex_t lock;
    pthread_cond_t left; /* a request left its instance */
    struct held *boxes;
};

/* Gives a box a name and a listener, and takes the box over, also on failure. A fork gets
 * references to the snapshots of its parent, so that it can go back to them when the parent has
 * gone. *ret has a reference, for held_unref(). */
int held_add(struct keeper *k, struct box *b, const struct keeper_life *life,
             const struct held *parent, struct held **ret, struct error *err);
void held_unref(struct keeper *k, struct held *h);

/* When its time to live ends; 0: never. The lock is held. */
int64_t held_until(const struct held *h);

/* Enters the present instance; -ENOENT once the box is removed. */
int held_enter(struct request *q, struct error *err);
void held_leave(struct request *q);

/* Puts a new box in place of the present one. The owner lock is held. Takes the box over. */
int held_replace(struct keeper *k, struct held *h, struct box *b, struct error *err);

/* Takes the name away, ends what runs and closes the box. False if another request does so already.
 * The caller holds a reference. */
bool held_remove(struct keeper *k, struct held *h);

/* Serves one request of a client and closes the connection (serve.c). */
void keeper_serve(struct request *q);

/* Requests and answers: frames of wire.h of their own types, with a few keys beside those there. */

enum keeper_type {
    KEEPER_EXEC = 192, /* ARG… ENV… CWD TTY CAPTURE TIMEOUT_NS CPU_TIME_NS + 3 fds → KEPT… RESULT */
    KEEPER_FORK,     /* COUNT, NAME of a snapshot → ENTRY(PATH TEXT)… RESULT(NAME…) */
    KEEPER_SNAPSHOT, /* → RESULT(NAME) */
    KEEPER_RESTORE,  /* NAME → ENTRY(PATH TEXT)… RESULT; see restore_report */
    KEEPER_DIFF,     /* STAT + 1 fd of a file that the text goes to → RESULT */
    KEEPER_APPLY,    /* an apply_options → ENTRY(PATH KIND TEXT)… RESULT(COUNT) */
    KEEPER_REMOVE,   /* → RESULT */
    KEEPER_INFO,     /* → RESULT */
    KEEPER_CONNECT, /* and a frame for the guest → RESULT + 1 fd, the stream that it answers on */
    KEEPER_CHANGES, /* → ENTRY(PATH KIND MODE SIZE)… RESULT */
    /* answer: STREAM DATA, a piece of captured output; STREAM is an enum keeper_stream */
    KEEPER_KEPT,
    KEEPER_SYNC,     /* like APPLY */
    KEEPER_NOTE,     /* → RESULT */
    KEEPER_SET,      /* FIELDS and what they name → RESULT */
    KEEPER_TERMINAL, /* like EXEC, and ROWS COLS → RESULT + 1 fd, as of CONNECT */
};

enum keeper_key {
    KEEPER_K_TTY = 256,
    KEEPER_K_CAPTURE,
    KEEPER_K_TIMEOUT_NS, /* as box_command.timeout_ns, two's complement */
    KEEPER_K_CPU_TIME_NS,
    KEEPER_K_CPU_NS,
    KEEPER_K_OUT_TOTAL,
    KEEPER_K_ERR_TOTAL,
    KEEPER_K_PID,
    KEEPER_K_BOX_MODE,
    KEEPER_K_AGE_NS,
    KEEPER_K_LEFT_NS,
    KEEPER_K_SNAPSHOTS,
    KEEPER_K_SHELL, /* a script's session, */
    KEEPER_K_SCRIPT,
    KEEPER_K_INPUT,       /* absent: nothing */
    KEEPER_K_ON_CONFLICT, /* enum apply_choice */
    KEEPER_K_ALLOW_GIT_DIRS,
    KEEPER_K_REPLACED_FOLDER,
    KEEPER_K_OUT_ERROR,
    KEEPER_K_FIELDS, /* enum box_field */
    KEEPER_K_NET,    /* name of a policy; in an answer of INFO the text of --net */
    KEEPER_K_ALLOW,  /* each entry of box_options.allow */
    KEEPER_K_HOST,   /* of box_options.hosts */
    KEEPER_K_NET_ENV,
    KEEPER_K_MEMORY,
    KEEPER_K_PIDS,
    KEEPER_K_MILLICPUS,       /* of box_limits.cpus; 0: all */
    KEEPER_K_REFUSED,         /* a box_refusal: its target, */
    KEEPER_K_REFUSED_PRIVATE, /* or of those whose address is private */
};

enum keeper_stream { KEEPER_OUT_HEAD = 1, KEEPER_OUT_TAIL, KEEPER_ERR_HEAD, KEEPER_ERR_TAIL };

/* Both directions of what takes more than a few fields, side by side in keeper_wire.c. */

/* A command without its descriptors, sink and cancel. What is found points into memory that
 * keeper_command_free() frees, and into the frame. */
struct keeper_command {
    struct box_command command;
    char **argv, **env;
    char *cwd, *shell, *script;
};
void keeper_put_command(struct buf *out, const struct box_command *c);
int keeper_find_command(const struct wire_frame *f, struct keeper_command *ret);
void keeper_command_free(struct keeper_command *c);

/* A result without its captured output, which goes in KEEPER_KEPT frames; only its totals. */
void keeper_put_result(struct buf *out, const struct box_result *r);
void keeper_find_result(const struct wire_frame *f, struct box_result *r);

/* The limits that can change while a box lives. */
void keeper_put_limits(struct buf *out, const struct box_limits *l);
struct box_limits keeper_find_limits(const struct wire_frame *f);

/* All fields of one key as a NULL-terminated list of strings, in one block of memory that starts
 * with the list; NULL without memory, or if one of them holds a NUL. */
char **keeper_find_strings(const struct wire_frame *f, uint16_t key, size_t *ret_n);
