/*
 * The library offers no tools that work on the host, and so does not need libcurl. An archive gives
 * only what is missing: with these rows here, the linker leaves the real ones out. Their flag keeps
 * them out of every list.
 */
#include "tool.h"
#include "banned.h"

extern const struct tool TOOL_GIT_CLONE, TOOL_GIT_PUSH, TOOL_CREATE_PR;

const struct tool TOOL_GIT_CLONE = {.name = "git_clone", .flags = TOOL_HOST};
const struct tool TOOL_GIT_PUSH = {.name = "git_push", .flags = TOOL_HOST};
const struct tool TOOL_CREATE_PR = {.name = "create_pr", .flags = TOOL_HOST};
