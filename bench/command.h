/*
 * Programs of the host as contestants: `:: NAME [FD<PATH] PROGRAM ARG…` on a benchmark's own
 * command line.
 *
 * They are started with posix_spawn from C, since an interpreter's way to start a program takes
 * longer and varies more than what is measured. Input and output are /dev/null. FD<PATH opens a
 * file for the program, anew at every start.
 */
#pragma once

#include <stdbool.h>

#include "contest.h"

struct command {
    char **argv;
    const char *open_path; /* NULL: nothing more to open */
    int open_fd;
};

/* Splits what follows the options into commands and adds one contestant each; ends the program on
 * nonsense. */
void command_parse(char **argv, struct command *commands, struct contestant *list, size_t *n);

/* Starts it; with `out` >= 0 that is its output (and error, too). Returns its pid or a negative
 * errno. */
int command_start(const struct command *c, int out);

/* Waits; 0 if it ended with status 0. */
int command_wait(int pid);

/* A contestant's run: from before posix_spawn until it was waited for. `data` is a struct
 * command. */
int command_run(void *data, int64_t *ret_ns);

/* The same with its output read to the end through a pipe; values are nanoseconds and bytes. */
int command_run_piped(void *data, int64_t *ret_ns_and_bytes);
