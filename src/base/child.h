/*
 * A child process on the host with pipes, for example an MCP server.
 *
 * It runs with the user's rights, in its own process group (Ctrl-C on the terminal does not reach
 * it), with three descriptors only, and gets SIGTERM when the thread that started it ends.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "error.h"

/* Only root can start a program as another user. */
struct child_user {
    uid_t uid;
    gid_t gid;
};

struct child_options {
    const char *command; /* found in the PATH of env if it has no slash */
    char *const *argv;
    char *const *env;
    const char *cwd;
    const struct child_user *user; /* NULL: the same user */
};

struct child {
    pid_t pid; /* 0: none */
    int pidfd;
    int in, out, err; /* our ends, non-blocking */
};

#define CHILD_NONE ((struct child){.pidfd = -1, .in = -1, .out = -1, .err = -1})

int child_start(const struct child_options *o, struct child *ret, struct error *err);

/* Ends it: closes its input and waits, then SIGTERM and waits, then SIGKILL to its process group;
 * each wait takes up to patience_ms. Returns the status of waitpid. */
int child_end(struct child *c, int patience_ms);
