/*
 * A warm process: a program that was started once, has loaded what takes long to load, and from
 * then on forks into boxes. A run begins where the program stands, so it costs a fork and not a
 * start.
 *
 *     warm_open     the host ── clone ──> enters the family's user namespace and a copy of the
 *                   template's mounts, and executes python3 there: it sees what boxes of this
 *                   family see, nothing else. It never runs a byte that a box wrote.
 *     warm_run      ── request, the box's pidfd, pipes ──> it forks. The child enters all
 *                   namespaces of the box, is confined exactly as process 1 of the box was (same
 *                   code, confine.h), and only then looks at the request.
 *
 * The child is a command of the box like any other: its limits hold, it is counted, killed and
 * frozen with the box, and all that it started dies with it. All boxes must be of one family:
 * forks, in however many steps, of the box whose snapshot the warm process was opened with. Any
 * number of threads. docs/security.md says why it is safe.
 *
 * prepare() runs in the warm process, where it can write to /tmp only. run() has descriptors 0 to 2
 * and fd, which is 3. When it returns the child exits with 0, when it raises something with 1,
 * after printing it.
 */
#pragma once

#include "box.h"

struct warm;

struct warm_options {
    struct snapshot *family; /* borrowed; of a box opened with .warm, or of a fork of such a one */
    const char *program;     /* Python: prepare(text) is called once, run(text, fd) in each child */
    const char *setup;       /* what prepare() gets */
    int cancel;              /* ends the start when it becomes readable; -1: none */
};

/* Starts it and waits until prepare() has returned. -EOPNOTSUPP where it is impossible: another
 * backend, no python3, a kernel that does not let processes enter a box. */
int warm_open(const struct warm_options *o, struct warm **ret, struct error *err);
struct warm *warm_close(struct warm *w); /* takes NULL; runs under way are ended with their boxes */

struct warm_run {
    const void *request; /* what run() gets */
    size_t n_request;
    int64_t timeout_ns;  /* wall; 0: the box's limit */
    int64_t cpu_time_ns; /* of the child with its children; 0: the box's limit */
    /* What the child writes to the descriptor that run() is given; false ends the run. */
    bool (*said)(void *data, const void *bytes, size_t n);
    void *data;
    size_t output_max; /* bytes of stdout and stderr together that are kept, the last of them */
    int cancel;        /* ends the run when it becomes readable; -1: none */
};

struct warm_result {
    int exit_code; /* as box_result's */
    int signal;
    enum wire_limit limit;
    int64_t duration_ns, cpu_ns;
    struct buf output;
    uint64_t output_total;
};
void warm_result_free(struct warm_result *r);

/* One run in this box, to its end: of the child, and of everything that it started. -EPIPE: the box
 * has ended. */
int warm_run(struct warm *w, struct box *b, const struct warm_run *run, struct warm_result *ret,
             struct error *err);
