/*
 * Workers: file requests are served by a forked process each, in blocking code, so that a slow file
 * never holds up the loop and a crash costs one request. A worker owns the connection; the guest
 * only remembers its process.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "file.h"

struct guest;
struct conn;
struct wire_frame;

/* Serves the request in a worker; the connection is gone afterwards. */
void worker_start(struct conn *conn, const struct wire_frame *f, file_serve serve);

bool worker_is(struct guest *g, pid_t pid);

/* A child was reaped: true if it was a worker. */
bool worker_ended(struct guest *g, pid_t pid);

/* Ends the workers that code of the box has stopped, but not while the box is frozen. */
void worker_kill_stopped(struct guest *g);
