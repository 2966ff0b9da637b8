/* The table of requests: a new one is a line here and a file of its own. */
#include <errno.h>

#include "command.h"
#include "edit/edit.h"
#include "file.h"
#include "patch/patch.h"
#include "report/report.h"
#include "search/search.h"
#include "shell/shell.h"
#include "banned.h"

struct request {
    enum wire_type type;
    bool changes;                                             /* refused while the box is frozen */
    int (*start)(struct conn *c, const struct wire_frame *f); /* served by the loop itself, */
    file_serve serve;                                         /* or by a worker */
};

static int request_ping(struct conn *c, const struct wire_frame *f)
{
    wire_end(&c->out, wire_begin(&c->out, WIRE_RESULT));
    conn_finish(c);
    return 0;
}

static const struct request requests[] = {
    {WIRE_PING, .start = request_ping},
    {WIRE_EXEC, .start = exec_request, .changes = true},
    {WIRE_SHELL, .start = shell_request, .changes = true},
    {WIRE_ADOPT, .start = adopt_request, .changes = true},
    {WIRE_INPUT, .start = shell_input_request},
    {WIRE_SIGNAL, .start = background_signal_request},
    {WIRE_STATUS, .start = background_status_request},
    {WIRE_FREEZE, .start = freeze_request},
    {WIRE_READ, .serve = file_read},
    {WIRE_WRITE, .serve = file_write, .changes = true},
    {WIRE_LIST, .serve = file_list},
    {WIRE_STAT, .serve = file_stat},
    {WIRE_LINES, .serve = file_lines},
    {WIRE_EDIT, .serve = file_edit, .changes = true},
    {WIRE_SEARCH, .serve = search_files},
    {WIRE_TREE, .serve = search_tree},
    {WIRE_PATCH, .serve = patch_serve, .changes = true},
    {WIRE_REPORT, .serve = report_serve},
    {WIRE_STAGE, .serve = stage_serve, .changes = true},
    {WIRE_PUT, .serve = file_put, .changes = true},
};

static int request_first_frame(struct conn *c, const struct wire_frame *f)
{
    const struct request *r = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(requests) && !r; i++)
        if (requests[i].type == f->type)
            r = &requests[i];
    if (!r)
        conn_error(c, ENOSYS, "this guest has no request %d", (int)f->type);
    else if (r->changes && c->guest->freeze.state != FREEZE_OFF)
        conn_error(c, EBUSY, "the box is frozen while a snapshot is taken");
    else if (r->serve)
        worker_start(c, f, r->serve);
    else
        return r->start(c, f);
    return 0;
}

const struct conn_user request_user = {.frame = request_first_frame};
