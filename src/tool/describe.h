/* Tools as doors show them. */
#pragma once

#include <jansson.h>

#include "buf.h"
#include "tool.h"

/* {"name", "title", "description", "input_schema", "output_schema", "reads_only", "changes_files",
 * "runs_code", "cacheable", "host_side"}; NULL without memory. */
json_t *tool_describe(const struct tool *t);

/* The page docs/tools.md, made from the table. */
int tool_markdown(struct buf *page);
