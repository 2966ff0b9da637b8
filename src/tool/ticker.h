/* Telling a call's door, about twice a second, that a command still runs and what it printed last.
 */
#pragma once

#include <stdint.h>

#include "box.h"
#include "tool.h"

struct ticker {
    const struct tool_progress *progress; /* NULL: nobody wants to know */
    int64_t began, next;
};

void ticker_start(struct ticker *t, const struct tool_call *c);

/* Called as often as one likes, with the output so far. */
void ticker_tick(struct ticker *t, const struct box_capture *output);
