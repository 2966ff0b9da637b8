/*
 * Background commands: they answer at once with a handle and run on without their connection. Their output
 * goes to a file of the box. The ones that ended last are remembered; one that is forgotten loses what is
 * left of its tree.
 */
#pragma once

struct command;
struct conn;
struct error;
struct wire_frame;

/* Gives the command a handle and makes the file of its output. */
int background_open_output(struct command *c, int *ret_out, int *ret_err, struct error *err);

/* The result of starting one. */
void background_answer(struct command *c, struct conn *conn);

/* Its process has ended: remembers it, and forgets the oldest if there are too many. */
void background_ended(struct command *c);

/* The background command that a request names, or NULL when it was told that there is none. */
struct command *background_find(struct conn *conn, const struct wire_frame *f);

/* The STATUS and SIGNAL requests. */
int background_status_request(struct conn *conn, const struct wire_frame *f);
int background_signal_request(struct conn *conn, const struct wire_frame *f);
