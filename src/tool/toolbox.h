/* The box that tools work in: one of this process, or one that a keeper holds (`--box ID`). Tools
 * do not know which. */
#pragma once

#include "box.h"
#include "keeper.h"

struct tool_box {
    struct box *box; /* or, if NULL: */
    int registry;
    struct registry_id id;
};

/* Like box_request, box_exec, box_diff. */
int tool_box_request(struct tool_box *b, struct buf *request, int *ret_fd, struct error *err);
int tool_box_exec(struct tool_box *b, const struct box_command *c, struct box_result *ret,
                  struct error *err);
/* Like box_pulse; a keeper watches over its boxes by itself. */
int tool_box_pulse(struct tool_box *b, struct box_pulse *p, struct error *err);
/* Like box_adjust. */
int tool_box_adjust(struct tool_box *b, const struct box_options *o, unsigned fields,
                    struct error *err);
int tool_box_diff(struct tool_box *b, bool stat, int out, struct error *err);
