/*
 * A program of the person's on the host, with pipes: what an MCP server is to its client.
 *
 * It runs with the person's rights, in a process group of its own (a signal typed on the terminal
 * is not meant for it), with no descriptor but three, and is sent SIGTERM when the thread that
 * started it ends.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "error.h"

/* Only root can start a program as somebody else. */
struct child_user {
    uid_t uid;
    gid_t gid;
};

struct child_options {
    const char *command; /* found in the PATH of env if it has no slash */
    char *const *argv;
    char *const *env;
    const char *cwd;
    const struct child_user *user; /* runs as this one; NULL: as we do */
};

struct child {
    pid_t pid; /* 0: none */
    int pidfd;
    int in, out, err; /* our ends, non-blocking */
};

#define CHILD_NONE ((struct child){.pidfd = -1, .in = -1, .out = -1, .err = -1})

int child_start(const struct child_options *o, struct child *ret, struct error *err);

/* Ends it: closes its input and waits, then SIGTERM and waits, then SIGKILL; the patience is for
 * each. What is left of its process group is killed. Returns the status as waitpid tells it. */
int child_end(struct child *c, int patience_ms);
