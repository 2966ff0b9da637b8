/* The agent's to-do list as data, so that every frontend can show it. A call replaces the whole
 * list. */
#include <errno.h>
#include <string.h>

#include "session.h"
#include "banned.h"

static size_t plan_count(const json_t *items, const char *state)
{
    size_t i, n = 0;
    json_t *item;
    json_array_foreach(items, i, item) n += strcmp(json_get_string(item, "state"), state) == 0;
    return n;
}

static int plan_run(struct tool_call *c, struct error *err)
{
    static const char *const marks[][2] = {
        {"pending", "[ ]"}, {"active", "[>]"}, {"done", "[x]"}, {"dropped", "[-]"}};
    json_t *given = json_object_get(c->input, "items"), *item;
    struct buf *text = &c->result->text;
    size_t i;
    if (given && plan_count(given, "active") > 1)
        return tool_fail(c, "input.items: more than one item is 'active'; work on one at a time");
    if (given)
        tool_session_set_plan(c->session, json_deep_copy(given));
    json_t *items = tool_session_plan(c->session);
    if (!items)
        return error_set(err, ENOMEM, "no memory");
    json_array_foreach(items, i, item)
    {
        for (size_t m = 0; m < ARRAY_SIZE(marks); m++)
            if (strcmp(marks[m][0], json_get_string(item, "state")) == 0)
                buf_printf(text, "%s %s\n", marks[m][1], json_get_string(item, "text"));
    }
    if (json_array_size(items) == 0)
        buf_append_str(text, "The plan is empty.\n");
    c->result->data =
        json_pack("{s:I, s:I, s:o}", "done",
                  (json_int_t)(plan_count(items, "done") + plan_count(items, "dropped")), "total",
                  (json_int_t)json_array_size(items), "items", items);
    return 0;
}

/* The item that is being worked on. */
static int plan_view_call(const json_t *input, struct buf *b)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(input, "items"), i, item)
    {
        const char *text = json_get_string(item, "text");
        if (text && strcmp(json_get_string_or(item, "state", ""), "active") == 0)
            return buf_append_str(b, text);
    }
    return 0;
}

static int plan_view_result(const json_t *data, struct buf *b)
{
    return buf_printf(b, "%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " done",
                      json_get_integer(data, "done"), json_get_integer(data, "total"));
}

/* Without items it only shows the plan. */
static bool plan_unchanged(const json_t *input, const struct tool_result *r)
{
    return !json_object_get(input, "items");
}

/* clang-format off */
const struct tool TOOL_PLAN = {
    .name = "plan",
    .title = "Plan",
    .summary = "Keeps your to-do list, which people can see. Send the whole list each time:"
               " pending items, the one active item, and what is done or dropped. Without items"
               " it returns the current list.",
    .input = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "items": {
            "type": "array", "description": "The whole list, in order.", "maxItems": 100, "items": {
                "type": "object", "additionalProperties": false, "required": ["text", "state"],
                "properties": {
                    "text": {"type": "string", "minLength": 1, "maxLength": 1000,
                        "description": "What is to be done."},
                    "state": {"enum": ["pending", "active", "done", "dropped"]}}}}}}),
    .output = SCHEMA({"type": "object", "required": ["done", "total", "items"], "properties": {
        "done": {"type": "integer", "description": "Items that are done or dropped."},
        "total": {"type": "integer"},
        "items": {"type": "array", "items": {"type": "object"}}}}),
    .run = plan_run,
    .view = &(const struct tool_view){
        .call = plan_view_call, .result = plan_view_result, .body = TOOL_BODY_PLAN, .head = 30,
    },
    .unchanged = plan_unchanged,
};
/* clang-format on */
