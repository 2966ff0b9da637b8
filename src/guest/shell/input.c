/* The INPUT request: what a background shell reads. */
#include <errno.h>

#include "background.h"
#include "command.h"
#include "conn.h"
#include "shell/shell.h"
#include "banned.h"

int shell_input_request(struct conn *conn, const struct wire_frame *f)
{
    struct wire_field data = {0};
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    wire_find(f, WIRE_K_DATA, &data);
    int r = carry_feed(&c->carry, data.data, data.size, wire_find_u64(f, WIRE_K_EOF, 0) != 0);
    if (r == -ENOBUFS) {
        conn_error(conn, EAGAIN,
                   "the command has not read its input yet: %zu bytes wait, more than %u may not",
                   c->carry.backlog.len, CARRY_INPUT_MAX);
        return 0;
    }
    if (r < 0) {
        conn_error(conn, -r, "the command takes no input any more");
        return 0;
    }
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    wire_put_u64(&conn->out, WIRE_K_COUNT, c->carry.backlog.len);
    wire_end(&conn->out, at);
    conn_finish(conn);
    return 0;
}
