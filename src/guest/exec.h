/* The EXEC request: from its fields to a running command. */
#pragma once

struct conn;
struct wire_frame;

int exec_request(struct conn *conn, const struct wire_frame *f);
