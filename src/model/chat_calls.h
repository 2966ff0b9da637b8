/* Calls in the deltas of Chat Completions. */
#pragma once

#include "assembly.h"

/* Keys of blocks: a call's is its index (CHAT_CALL + index), or where it has none, CHAT_LAST. */
enum { CHAT_TEXT = -4, CHAT_THINKING, CHAT_FUNCTION, CHAT_LAST, CHAT_CALL };

/* The list `tool_calls` of a delta; anything but a list is none. */
int chat_calls_take(struct assembly *a, json_t *calls);

/* `function_call`, as it was before there were several. */
int chat_function_take(struct assembly *a, json_t *function);
