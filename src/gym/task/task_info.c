/* What a task says of itself to programs: to those that choose one, and to those that play it. */
#include "task.h"
#include "tool.h"
#include "banned.h"

json_t *task_describe(const struct task *t)
{
    return json_pack("{s:s, s:s?, s:s?, s:s?, s:i, s:f, s:f, s:I, s:s, s:I}", "name", t->name,
                     "title", t->title, "language", t->language, "instruction", t->instruction,
                     "max_steps", (int)t->max_steps, "call_price", t->call_price, "second_price",
                     t->second_price, "seed", (json_int_t)t->seed, "digest", t->digest, "patches",
                     (json_int_t)t->n_patches);
}

json_t *task_interface(const struct task *t, size_t expected)
{
    json_t *info = task_describe(t), *names = json_array(), *calls = json_array(),
           *features = json_array(), *tools = json_array();
    for (size_t i = 0; i < task_actions(t); i++) {
        char name[256];
        const char *tool;
        json_t *input;
        task_action_name(t, i, name, sizeof name);
        json_array_append_new(names, json_string(name));
        if (task_action(t, i, &tool, &input) < 0)
            continue;
        json_object_set_new(input, "tool", json_string(tool));
        json_array_append_new(calls, input);
    }
    for (size_t i = 0; i < task_features(t); i++)
        json_array_append_new(features,
                              json_integer(i == t->n_patches ? (json_int_t)expected + 2 : 2));
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(tools, json_string(TOOLS[i]->name));
    json_array_append_new(tools, json_string("submit"));
    json_object_set_new(info, "actions", names);
    json_object_set_new(info, "calls", calls);
    json_object_set_new(info, "features", features);
    json_object_set_new(info, "tools", tools);
    json_object_set_new(info, "expected", json_integer((json_int_t)expected));
    return info;
}
