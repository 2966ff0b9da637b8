/* A session of tools as `hutch tool` and `hutch mcp` open it: on a fresh box, or on one that a
 * keeper holds. */
#pragma once

#include "host.h"
#include "run_options.h"
#include "session.h"

struct tool_open {
    struct box *box;
    struct tool_session *session;
};

/* The options are resolved here if a box is to be made. `confirm` NULL: nobody can be asked. */
int tool_open(struct run_options *o, const struct tool_confirm *confirm, struct tool_open *ret,
              struct error *err);
void tool_close(struct tool_open *t);
#define _cleanup_tool_open_ _cleanup_(tool_close)
