/*
 * Background commands: they answer at once with a handle and run on without their connection. Their
 * output goes to a file of the box (output_log.h). The ones that ended last are remembered; one
 * that is forgotten loses what is left of its tree.
 */
#pragma once

struct command;
struct conn;
struct error;
struct guest;
struct wire_frame;

/* Makes the file of its output, and gives the command's ends of the pipe that leads there. */
int background_open_output(struct command *c, int *ret_out, int *ret_err, struct error *err);

/* The result of starting one. */
void background_answer(struct command *c, struct conn *conn);

/* The box goes on after it stood still: logs are written again. */
void background_thaw(struct guest *g);

/* Its process has ended: remembers it, and forgets the oldest if there are too many. */
void background_ended(struct command *c);

/* The background command that a request names, or NULL when it was told that there is none. */
struct command *background_find(struct conn *conn, const struct wire_frame *f);

/* The STATUS and SIGNAL requests. */
int background_status_request(struct conn *conn, const struct wire_frame *f);
int background_signal_request(struct conn *conn, const struct wire_frame *f);
