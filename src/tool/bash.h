/* What bash.c and bash_background.c share. */
#pragma once

#include "kept_output.h"
#include "tool.h"

/* How something ended, in words, as lines behind its output; nothing if it just succeeded. */
struct bash_end {
    int exit_code;
    int signal; /* 0: it exited */
    enum wire_limit limit;
    const char *limit_hint; /* what to do about a time limit */
};

void bash_put_end(struct buf *text, const struct bash_end *e);

/* The members exit_code, signal, timed_out and killed_by; all null while it runs. */
int bash_set_end(json_t *data, const struct bash_end *e, bool running);

/* The members output, output_bytes, truncated and output_file; and the output itself as text.
 * `file` has all of it anyway; or NULL. */
int bash_set_output(struct tool_call *c, json_t *data, const struct kept_output *o,
                    const char *file);

/* A call with `handle`. */
int bash_handle(struct tool_call *c, struct error *err);

/* Does a background command of the session's box still run? -ESRCH: there is none with that handle.
 */
int bash_is_running(struct tool_session *s, uint64_t handle, bool *ret);
