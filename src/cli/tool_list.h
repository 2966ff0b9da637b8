/* The tools as lists: for people, for programs, and as the page docs/tools.md. Each returns the
 * exit status.
 */
#pragma once

#include <stdbool.h>

#include "session.h"

int tool_list(struct tool_session *s, bool json);

/* Only what is built in. */
int tool_list_markdown(void);
