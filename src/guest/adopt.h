/*
 * The ADOPT request: a process that the guest did not start becomes a command of the box.
 *
 * The child of a warm process is born outside and enters (src/box/warm.h). Its parents end on the
 * way, so it becomes a child of process 1. The request comes first, so that the command is known
 * before its process is:
 *
 *     ADOPT ──▶ WAITING ── the process says who it is, is told its tag ──▶ ARRIVED ── … ──▶ RESULT
 *
 * From its arrival on it is a command like any other: its limits hold, it is stopped by a freeze,
 * its tree dies with it.
 */
#pragma once

struct conn;
struct wire_frame;

int adopt_request(struct conn *conn, const struct wire_frame *f);
