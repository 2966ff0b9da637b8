/* Scripts in the shell of a session: what box_exec does differently for them. */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "environment.h"
#include "exec.h"
#include "io.h"
#include "weaken.h"
#include "banned.h"

#define NOTES_MAX 4096

void call_put_shell(struct buf *b, const struct call *c)
{
    const struct box_command *cmd = c->command;
    wire_put_str(b, WIRE_K_NAME, cmd->shell);
    wire_put_str(b, WIRE_K_TEXT, cmd->script);
    environment_put_shell(b, c->box->env, cmd->env);
    if (cmd->cwd)
        wire_put_str(b, WIRE_K_CWD, cmd->cwd);
    if (cmd->input)
        wire_put(b, WIRE_K_DATA, cmd->input, cmd->n_input);
    if (!cmd->background)
        return;
    wire_put_u64(b, WIRE_K_BACKGROUND, 1);
    wire_put_u64(b, WIRE_K_LIMIT_BYTES, c->box->limits.output);
    if (c->box->limits.output_total && !weakened("output"))
        wire_put_u64(b, WIRE_K_OUTPUT_TOTAL, c->box->limits.output_total);
}

/* All notes, a line each. */
static char *find_notes(const struct wire_frame *f)
{
    _cleanup_buf_ struct buf text = BUF_INIT(NOTES_MAX);
    struct wire_field field;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == WIRE_K_NOTE && !memchr(field.data, 0, field.size)) {
            if (text.len)
                buf_append(&text, "\n", 1);
            buf_append(&text, field.data, field.size);
        }
    const char *said = text.len && !text.failed ? buf_cstr(&text) : NULL;
    return said ? strdup(said) : NULL;
}

void call_take_shell(struct box_result *r, const struct wire_frame *f)
{
    r->state = (enum wire_state)wire_find_u64(f, WIRE_K_STATE, 0);
    r->cwd = wire_find_str(f, WIRE_K_CWD);
    r->notes = find_notes(f);
    r->handle = wire_find_u64(f, WIRE_K_HANDLE, 0);
    r->output_path = wire_find_str(f, WIRE_K_OUTPUT_PATH);
}

int call_output(struct call *c, const struct wire_frame *f)
{
    struct wire_field data;
    if (!wire_find(f, WIRE_K_DATA, &data))
        return 0;
    c->output += data.size;
    if (c->command->capture)
        return capture_add(c->out.capture, data.data, data.size);
    if (c->command->sink)
        c->command->sink->write(c->command->sink->data, data.data, data.size);
    else if (c->command->out >= 0) {
        int r = io_write_all(c->command->out, data.data, data.size);
        c->out.error = r < 0 && !c->out.error ? -r : c->out.error;
        if (r < 0)
            call_kill(c, WIRE_LIMIT_NONE); /* nobody looks at it any more */
    }
    return 0;
}
