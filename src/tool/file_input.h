/* What the tools for one file share: reading their input, saying what to do about a failure. */
#pragma once

#include "ask.h"
#include "input.h"

/* The path of the input, for ask_path. NULL with the result marked as failed if it holds a NUL. */
const char *file_input_path(struct tool_call *c);

/* Adds to a failed file request what to do about it. Returns -err->code. */
int file_hint(struct error *err);
