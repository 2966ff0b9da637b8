/* What the tools for one file share: reading their input, saying what to do about a failure. */
#pragma once

#include "ask.h"

/* The path of the input, for ask_path. NULL with the result marked as failed if it holds a NUL. */
const char *file_input_path(struct tool_call *c);

/* An integer or boolean of the input, or the fallback. */
int64_t file_input_int(const struct tool_call *c, const char *name, int64_t fallback);
bool file_input_bool(const struct tool_call *c, const char *name, bool fallback);

/* Adds to a failed file request what to do about it. Returns -err->code. */
int file_hint(struct error *err);
