#include "toolbox.h"
#include "banned.h"

int tool_box_request(struct tool_box *b, struct buf *request, int *ret_fd, struct error *err)
{
    return b->box ? box_request(b->box, request, ret_fd, err)
                  : keeper_request(b->registry, &b->id, request, ret_fd, err);
}

int tool_box_exec(struct tool_box *b, const struct box_command *c, struct box_result *ret,
                  struct error *err)
{
    return b->box ? box_exec(b->box, c, ret, err)
                  : keeper_exec(b->registry, &b->id, c, ret, NULL, err);
}

int tool_box_pulse(struct tool_box *b, struct box_pulse *p, struct error *err)
{
    return b->box ? box_pulse(b->box, p, err) : 0;
}

int tool_box_adjust(struct tool_box *b, const struct box_options *o, unsigned fields,
                    struct error *err)
{
    return b->box ? box_adjust(b->box, o, fields, err)
                  : keeper_adjust(b->registry, &b->id, o, fields, err);
}

int tool_box_diff(struct tool_box *b, bool stat, int out, struct error *err)
{
    return b->box ? box_diff(b->box, stat, out, err)
                  : keeper_diff(b->registry, &b->id, stat, out, err);
}
