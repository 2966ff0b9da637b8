/*
 * Several ways to do the same thing, measured in one interleaved run.
 *
 * Every round runs each contestant once, in a new random order, so that the work that one leaves to
 * the kernel does not always burden the same other one, and noise affects all of them. The result
 * is printed as one JSON object of raw values, which bench.py evaluates.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CONTEST_PARTS_MAX 4
#define CONTEST_MAX       16

struct contestant {
    const char *name;
    const char *const *parts; /* names of a run's values, NULL-terminated; NULL: one, its time */
    int (*run)(void *data, int64_t *ret_values); /* prints to stderr why it failed */
    void *data;
};

/* Runs all of them `rounds` times after a few to warm up, and prints {"name": [values…], …};
 * "name/part" if it has parts. Returns 0 or a negative errno. */
int contest_print(const struct contestant *list, size_t n, unsigned rounds);

/*
 * Programs of the host as contestants: `:: NAME [FD<PATH] PROGRAM ARG…` on a benchmark's command
 * line. They are started with posix_spawn from C, since an interpreter takes longer to start a
 * program, and varies more, than what is measured. Input and output are /dev/null. FD<PATH opens a
 * file for the program at every start.
 */
struct command {
    char **argv;
    const char *open_path; /* NULL: nothing more to open */
    int open_fd;
};

/* Adds one contestant for each command on the command line; exits on a usage error. */
void command_parse(char **argv, struct command *commands, struct contestant *list, size_t *n);

/* Makes a contestant read its command's output to the end through a pipe; its parts are "ns" and
 * "bytes". */
void command_set_piped(struct contestant *c);
