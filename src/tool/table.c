/* The table of tools. A new tool is a file and two lines here. */
#include "tool.h"
#include "banned.h"

extern const struct tool TOOL_PLAN;
extern const struct tool TOOL_RUN_TESTS;

const struct tool *const TOOLS[] = {
    &TOOL_PLAN,
    &TOOL_RUN_TESTS,
    NULL,
};
