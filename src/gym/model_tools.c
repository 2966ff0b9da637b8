#include "model_tools.h"
#include "tool.h"
#include "banned.h"

const char MODEL_SYSTEM[] = "You are a software engineer at work on one task, in a sandbox that "
                            "holds a small repository in "
                            "/workspace. Nobody can be asked: decide yourself.\n"
                            "\n"
                            "Work with the tools. run_tests without any input runs the tests of "
                            "the task. When you are done, or "
                            "cannot do more, call submit: then the work is graded by tests that "
                            "you may not have seen, from a "
                            "pristine "
                            "copy, so changes to test files count for nothing.\n"
                            "\n"
                            "Your score is the share of tests that pass, less a small price for "
                            "every call and every second. So look "
                            "at "
                            "what you need, change what must be changed, check it, and submit.\n";

static json_t *describe(const struct tool *t)
{
    json_t *schema = json_loads(t->input, 0, NULL);
    return schema ? json_pack("{s:s, s:s, s:o}", "name", t->name, "description", t->summary,
                              "input_schema", schema)
                  : NULL;
}

json_t *model_tools(void)
{
    json_t *list = json_array();
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(list, describe(TOOLS[i]));
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:{s:s, s:{}, s:b}}", "name", "submit", "description",
                        "Hands the work in: it is graded, and the episode is over. Takes no input.",
                        "input_schema", "type", "object", "properties", "additionalProperties", 0));
    return list;
}
