/* The table of tools. A new tool is a file and two lines here. */
#include "tool.h"
#include "banned.h"

extern const struct tool TOOL_LIST_FILES;
extern const struct tool TOOL_PLAN;
extern const struct tool TOOL_SEARCH_FILES;

const struct tool *const TOOLS[] = {
    &TOOL_LIST_FILES,
    &TOOL_SEARCH_FILES,
    &TOOL_PLAN,
    NULL,
};
