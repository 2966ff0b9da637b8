/* One running command from the host's side: shared by exec.c and the runs of warm processes. */
#pragma once

#include "local_box.h"
#include "streams.h"

#define TICK_MS 25

/* A pipe from the command beside its output. */
struct side_pipe {
    int from; /* our end, non-blocking; -1: there is none */
    bool (*received)(void *data, const void *bytes, size_t n); /* false: the command is to end */
    void *data;
};

struct call {
    uint64_t refused_before; /* proxy_refused() when it began */
    struct box *box;
    const struct box_command *command;
    struct box_result *result;
    struct wire_reader wire;
    struct pump out, err;
    struct feed in;
    struct side_pipe side;
    uint64_t output; /* bytes of both streams so far */
    bool waiting;    /* of a process that comes from outside: the guest waits for it, */
    bool arrived;    /* and has met it */
    bool done;       /* the RESULT is there */
    bool killed;     /* we asked the guest to end it */
    bool lost;       /* the stream has ended without a RESULT */
    bool silent; /* the guest did not end the command when its time was over: we ended the box */
    struct box_pulse pulse;
    int rows, cols; /* of the host's terminal, as last sent */
    struct usage before;
    /* the counters cost a few reads: they are looked at once a tick, not on every byte */
    int64_t next_watch;
    int64_t deadline; /* after which the host ends the box, whatever the guest does; 0: none */
};

/* The course of a command: init, send a request, step until it is done, finish, free. */
void call_init(struct call *c, struct box *b, const struct box_command *cmd,
               struct box_result *result);
int call_step(struct call *c, struct error *err);
int call_finish(struct call *c,
                struct error *err); /* -EPIPE if the box ended meanwhile, by no limit */
void call_free(struct call *c);

/* A pipe of which one end goes to the command and the other, non-blocking, stays here. */
int call_pipe(bool into_command, int *ret_ours, int *ret_theirs);

/* Limits go to the guest where it is the one to enforce them: always wall time, the rest where
 * nothing counts them. */
void call_put_limits(struct buf *b, const struct call *c);

/* Puts ENV fields: the made-up ones, then the box's, then the command's; a later one replaces an
 * earlier one. The second is for a script in a session's shell: nobody is there to answer a prompt
 * or to leave a pager. */
void environment_put(struct buf *b, char *const *box_env, char *const *command_env, bool tty);
void environment_put_shell(struct buf *b, char *const *box_env, char *const *command_env);
