/* The table of tools. A new tool is a file and two lines here. */
#include <string.h>

#include "tool.h"
#include "banned.h"

extern const struct tool TOOL_WRITE_FILE;
extern const struct tool TOOL_EDIT_FILE;
extern const struct tool TOOL_SEARCH_FILES;
extern const struct tool TOOL_PLAN;
extern const struct tool TOOL_GIT_CLONE;
extern const struct tool TOOL_GIT_PUSH;
extern const struct tool TOOL_CREATE_PR;
extern const struct tool TOOL_REQUEST_NETWORK;

/* clang-format off */
const struct tool *const TOOLS[] = {
    &TOOL_BASH,
    &TOOL_READ_FILE,
    &TOOL_WRITE_FILE,
    &TOOL_EDIT_FILE,
    &TOOL_LIST_FILES,
    &TOOL_SEARCH_FILES,
    &TOOL_APPLY_DIFF,
    &TOOL_RUN_TESTS,
    &TOOL_PLAN,
    &TOOL_GIT_CLONE,
    &TOOL_GIT_PUSH,
    &TOOL_CREATE_PR,
    &TOOL_REQUEST_NETWORK,
    NULL,
};
/* clang-format on */

const struct tool *tool_builtin(const char *name)
{
    for (size_t i = 0; TOOLS[i]; i++)
        if (strcmp(TOOLS[i]->name, name) == 0)
            return TOOLS[i];
    return NULL;
}
