/* The requests that start a command: EXEC, and ADOPT for a process that the guest did not start. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct conn;
struct command_limits;

/* The repeated string fields of a request as a NULL-terminated list, for execve. */
struct words {
    char **list; /* list[-1] is a free slot */
    size_t count;
};

void words_free(struct words *s);
#define _cleanup_words_ _cleanup_(words_free)

/* All fields with that key, in order. -EINVAL if one holds a NUL, -ENOMEM. */
int words_collect(const struct wire_frame *f, uint16_t key, struct words *ret);

int exec_request(struct conn *conn, const struct wire_frame *f);

/* The limits of a request that starts something. */
void exec_parse_limits(struct command_limits *l, const struct wire_frame *f);

/*
 * The child of a warm process is born outside of the box and enters it (src/box/warm.h). Its
 * parents end on the way, so it becomes a child of process 1. The request comes first, so that the
 * guest knows the command before its process:
 *
 *     ADOPT ──▶ WAITING ── the process sends its pid and gets its tag ──▶ ARRIVED ── … ──▶ RESULT
 *
 * From then on it is a command like any other: its limits hold, a freeze stops it, its tree dies
 * with it.
 */
int adopt_request(struct conn *conn, const struct wire_frame *f);
