/* The table of tools (tools.def), and its description for programs and for docs/tools.md. */
#include <errno.h>
#include <string.h>

#include "tool.h"
#include "banned.h"

#define TOOL(row) extern const struct tool TOOL_##row;
#include "tools.def"
#undef TOOL

#define TOOL(row) &TOOL_##row,
const struct tool *const TOOLS[] = {
#include "tools.def"
    NULL,
};
#undef TOOL

json_t *tool_describe(const struct tool *t)
{
    json_t *input = json_loads(t->input, 0, NULL);
    json_t *output = t->output ? json_loads(t->output, 0, NULL) : NULL;
    return json_pack("{s:s, s:s*, s:s, s:o, s:o*, s:b, s:b, s:b, s:b, s:b}", "name", t->name,
                     "title", t->title, "description", t->summary, "input_schema", input,
                     "output_schema", output, "reads_only", !!(t->flags & TOOL_READS),
                     "changes_files", !!(t->flags & TOOL_CHANGES), "runs_code",
                     !!(t->flags & TOOL_RUNS), "cacheable", !!(t->flags & TOOL_CACHED), "host_side",
                     !!(t->flags & TOOL_HOST));
}

/* `string`, `integer`, `"a" or "b"`, as a reader of the page wants it. */
static void markdown_put_type(struct buf *page, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
    size_t i;
    json_t *one;
    if (json_is_string(type))
        buf_append_str(page, json_string_value(type));
    json_array_foreach(type, i, one)
        buf_printf(page, "%s%s", i ? " or " : "", json_string_value(one));
    json_array_foreach(values, i, one)
    {
        char *text = json_dumps(one, JSON_ENCODE_ANY);
        buf_printf(page, "%s`%s`", i ? ", " : "", text ? text : "");
        free(text);
    }
    if (json_is_object(json_object_get(schema, "items"))) {
        buf_append_str(page, " of ");
        markdown_put_type(page, json_object_get(schema, "items"));
    }
}

static void markdown_put_members(struct buf *page, const char *head, const json_t *schema,
                                 bool mark_required)
{
    const json_t *all = json_object_get(schema, "required");
    const char *name;
    json_t *member, *one;
    size_t i;
    if (json_object_size(json_object_get(schema, "properties")) == 0)
        return;
    buf_printf(page, "\n| %s | type | meaning |\n|---|---|---|\n", head);
    json_object_foreach(json_object_get(schema, "properties"), name, member)
    {
        bool required = false;
        json_array_foreach(all, i, one) required |= strcmp(json_string_value(one), name) == 0;
        buf_printf(page, "| `%s`%s | ", name, mark_required && required ? " *" : "");
        markdown_put_type(page, member);
        buf_printf(page, " | %s |\n", json_get_string_or(member, "description", ""));
    }
}

int tool_markdown(struct buf *page)
{
    buf_append_str(
        page,
        "# The tools\n\nMade from the table by `hutch tool --markdown`; do not edit. Inputs marked"
        " with * are required.\n`hutch tool --list --json` prints the same with the whole"
        " schemas.\n");
    for (size_t i = 0; TOOLS[i]; i++) {
        const struct tool *t = TOOLS[i];
        _cleanup_json_ json_t *input = json_loads(t->input, 0, NULL);
        _cleanup_json_ json_t *output = t->output ? json_loads(t->output, 0, NULL) : NULL;
        buf_printf(page, "\n## %s\n\n%s\n\n*%s%s%s.*\n", t->name, t->summary,
                   t->flags & TOOL_READS     ? "Only reads"
                   : t->flags & TOOL_RUNS    ? "Runs code"
                   : t->flags & TOOL_CHANGES ? "Changes files"
                                             : "Changes no files",
                   t->flags & TOOL_CACHED ? "; may be answered from the cache" : "",
                   t->flags & TOOL_HOST ? "; works on the host" : "");
        markdown_put_members(page, "input", input, true);
        markdown_put_members(page, "result", output, false);
    }
    return page->failed ? -ENOMEM : 0;
}
