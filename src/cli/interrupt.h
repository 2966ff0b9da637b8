/*
 * Signals and the terminal while a command runs in a box.
 *
 * The first SIGINT, SIGTERM, SIGHUP or SIGQUIT makes a descriptor readable, which ends the command
 * in its box; hutch then exits with 128+N. A second one finds the default action and ends hutch at
 * once; the box dies with it. Whatever happens, the terminal gets its settings back, in the handler
 * if need be.
 */
#pragma once

#include "error.h"

/* Installs the handlers; returns the descriptor for box_command.cancel, or a negative errno. */
int interrupt_watch(struct error *err);

/* The same descriptor again; -1 before interrupt_watch. */
int interrupt_descriptor(void);

/* Has the handler call this, too; it may only do what is safe there. NULL: nothing. */
void interrupt_call(void (*call)(void *data), void *data);

/* The signal that came, or 0. */
int interrupt_signal(void);

/* Puts the terminal at fd, if it is one, into raw mode; and gives it its settings back. */
int interrupt_raw(int fd, struct error *err);
void interrupt_restore(void);
