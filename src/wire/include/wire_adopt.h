/*
 * Messages between the guest and a process that enters its box, over a socket of packets. The guest
 * gets one end with the ADOPT request, the process the other. Both sides are ours, on one machine
 * and of one version: plain structs do.
 */
#pragma once

#include <stdint.h>

/* From the process, once it is confined as a command of the box; or from the host, which could not
 * start it. */
struct adopt_hello {
    int32_t pid;   /* as the box counts; 0: it will not come, */
    int32_t code;  /* for this errno */
    char step[56]; /* of this step, as in "cannot enter the box's namespaces" */
};

/* From the guest, which knows the process then. If the socket ends instead, the process exits. */
struct adopt_go {
    uint64_t tag;   /* the hard limit RLIMIT_RTTIME, which marks its tree (guest/exec) */
    uint64_t files; /* descriptors that a process may have; 0: as many as the guest */
};
