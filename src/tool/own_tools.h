/*
 * Tools of the person's own: an executable with a manifest, no C.
 *
 *     .hutch/tools/NAME.json     {"name": NAME, "description": …, "input_schema": {…}, "timeout":
 * 60} .hutch/tools/NAME          gets the input as JSON on stdin, prints text or a JSON object
 *
 * in the workspace, or in ~/.config/hutch/tools. Both kinds run inside the box: the person's
 * executables are copied there when they are first used. The workspace's manifests are a stranger's
 * words; they are read by the guest, and they can neither replace a tool of the table nor one of
 * the person's.
 */
#pragma once

#include "session.h"

/* Gives the session these tools. They are looked for when they are asked for: a tool that is
 * written during the session is there at once. */
int own_tools_add(struct tool_session *s, struct error *err);
