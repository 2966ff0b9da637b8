/* The script that a task is set up by: run once, in the box that all others are forked from. */
#include <errno.h>
#include <string.h>

#include "arena_private.h"
#include "thread.h"
#include "clock.h"
#include "banned.h"

#define SETUP_NS (600 * NS_PER_S)

/* The last line that it said, for the message. */
static const char *last_line(struct box_result *r)
{
    struct buf *b = r->out.tail.len ? &r->out.tail : &r->out.head;
    while (b->len > 0 && b->data[b->len - 1] == '\n')
        b->len--;
    const char *text = buf_cstr(b), *newline = text ? strrchr(text, '\n') : NULL;
    return newline ? newline + 1 : text ? text : "";
}

int arena_setup(const struct task *t, struct box *template, int cancel, struct error *err)
{
    char shell[] = "/bin/bash", option[] = "-c";
    char *const argv[] = {shell, option, t->setup, NULL};
    struct box_command c = {.argv = argv,
                            .timeout_ns = SETUP_NS,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .capture = true,
                            .cancel = cancel};
    struct box_result result = {0};
    if (!t->setup)
        return 0;
    int r = box_exec(template, &c, &result, err);
    if (r == 0)
        r = cancel_check(cancel, err);
    if (r == 0 && result.limit)
        r = error_set(err, EIO, "setting it up was stopped: %s", box_limit_name(result.limit));
    else if (r == 0 && result.exit_code != 0)
        r = error_set(err, EIO, "setting it up failed: %.400s", last_line(&result));
    box_result_free(&result);
    return r;
}
