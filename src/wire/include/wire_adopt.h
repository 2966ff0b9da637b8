/*
 * What a process that enters a box and the guest say to each other, over a socket of their own
 * (packets) whose one end came to the guest with the ADOPT request and whose other end the process
 * was given. Both sides are ours, on one machine and of one version: plain structs do.
 */
#pragma once

#include <stdint.h>

/* From the process, once it is all that a command of the box is; or from whoever could not make
 * one. */
struct adopt_hello {
    int32_t pid;   /* as the box counts; 0: it will not come, */
    int32_t code;  /* for this errno */
    char step[56]; /* of this step, as in "cannot enter the box's namespaces" */
};

/* From the guest, which knows it by then. Without this, and at the end of the socket, it leaves. */
struct adopt_go {
    uint64_t tag;   /* the hard limit RLIMIT_RTTIME, which marks its tree (command.h) */
    uint64_t files; /* descriptors that a process may have; 0: as many as the guest */
};
