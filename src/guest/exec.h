/* The EXEC request: from its fields to a running command. */
#pragma once

struct conn;
struct command_limits;
struct wire_frame;

int exec_request(struct conn *conn, const struct wire_frame *f);

/* The limits of a request that starts something. */
void exec_parse_limits(struct command_limits *l, const struct wire_frame *f);
