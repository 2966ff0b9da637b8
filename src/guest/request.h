/* The table of requests: a new one is a line here and a file of its own. */
#pragma once

#include "conn.h"

/* What a fresh connection is given to: its first frame is its request. */
extern const struct conn_user request_user;
