/*
 * One command, from its start to its result.
 *
 * A command ends when its process ends, not when its pipes close. Then what is left of its tree is
 * killed, what is already in its pipes is relayed to the host, and the result is sent. A background
 * command answers at once, its tree lives on after its process, and how it ended is remembered for
 * a while.
 *
 *     runs ── process ends ──▶ tree is killed, pass by pass ──▶ pipes are drained ──▶ result, freed
 *
 * None of these steps blocks: a timer repeats the passes, pipes are drained as the connection takes
 * it.
 *
 * Background commands answer at once with a handle and run on without their connection. Their
 * output goes to a file of the box (output_log.h). The ones that ended last are remembered; one
 * that is forgotten loses what is left of its tree.
 */
#pragma once

#include "guest.h"

struct error;

/* A new command in the guest's list, nothing started; or NULL. Freed by command_free until it has a
 * process.
 */
struct command *command_new(struct guest *g);
struct command *command_free(struct command *c);

/* Starts its process. 0 or a negative errno; on success the command frees itself at its end. */
int command_spawn(struct command *c, struct spawn *s);

/* From now on its time runs and its limits hold. */
void command_arm(struct command *c);

/* Its process was reaped; or one of its orphans was. */
void command_exited(struct command *c, int status, const struct rusage *ru);
void command_account(struct command *c, const struct rusage *ru);

/* Kills the whole tree, `limit` is remembered unless one already was. */
void command_kill(struct command *c, enum wire_limit limit);

/* The last child of ours is gone: trees that are being killed need no other look. */
void command_none_left(struct guest *g);

/* The fields that tell how a command ended, or how far it is. */
void command_put_result(struct command *c, struct buf *b);

/* Gives the connection to the command: it gets its frames, and sends output and the result. */
void command_serve(struct command *c, struct conn *conn);

/* Makes the file of its output, and gives the command's ends of the pipe that leads there. */
int background_open_output(struct command *c, int *ret_out, int *ret_err, struct error *err);

/* The result of starting one. */
void background_answer(struct command *c, struct conn *conn);

/* The box goes on after it stood still: logs are written again. */
void background_thaw(struct guest *g);

/* Its process has ended: remembers it, and forgets the oldest if there are too many. */
void background_ended(struct command *c);

/* The background command that a request names, or NULL after an ERROR was sent. */
struct command *background_find(struct conn *conn, const struct wire_frame *f);

/* The STATUS and SIGNAL requests. */
int background_status_request(struct conn *conn, const struct wire_frame *f);
int background_signal_request(struct conn *conn, const struct wire_frame *f);
