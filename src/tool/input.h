/* Members of a call's input, which its schema has allowed. */
#pragma once

#include <stdint.h>

#include "tool.h"

/* The member, or the fallback if it is not there. An integer may be written as 5.0: to JSON that is
 * the same.
 */
int64_t input_int(const struct tool_call *c, const char *name, int64_t fallback);
bool input_bool(const struct tool_call *c, const char *name, bool fallback);
const char *input_string(const struct tool_call *c, const char *name); /* NULL if it is not there */
