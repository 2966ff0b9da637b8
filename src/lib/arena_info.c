/* What there is to know about a task, and about one made ready. */
#include "json_text.h"
#include "lib_gym.h"
#include "tool.h"
#include "banned.h"

static json_t *action_names(const struct task *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < task_actions(t); i++) {
        char name[256];
        task_action_name(t, i, name, sizeof name);
        json_array_append_new(list, json_string(name));
    }
    return list;
}

/* The same as calls of tools: [{"tool", …input}, …]. */
static json_t *action_calls(const struct task *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < task_actions(t); i++) {
        const char *tool;
        json_t *input;
        if (task_action(t, i, &tool, &input) < 0)
            return list;
        json_object_set_new(input, "tool", json_string(tool));
        json_array_append_new(list, input);
    }
    return list;
}

/* The sizes of the features' ranges: see env_features. */
static json_t *feature_sizes(const hutch_arena *a)
{
    size_t n = task_features(a->task);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        bool tests = i == a->task->n_patches;
        json_array_append_new(
            list, json_integer(tests ? (json_int_t)arena_expected(a->arena)->count + 2 : 2));
    }
    return list;
}

static json_t *tool_names(void)
{
    json_t *list = json_array();
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(list, json_string(TOOLS[i]->name));
    json_array_append_new(list, json_string("submit"));
    return list;
}

json_t *task_describe(const struct task *t)
{
    return json_pack("{s:s, s:s?, s:s?, s:s?, s:i, s:f, s:f, s:I, s:s, s:I}", "name", t->name,
                     "title", t->title, "language", t->language, "instruction", t->instruction,
                     "max_steps", (int)t->max_steps, "call_price", t->call_price, "second_price",
                     t->second_price, "seed", (json_int_t)t->seed, "digest", t->digest, "patches",
                     (json_int_t)t->n_patches);
}

int hutch_arena_info(hutch_arena *a, char **ret_info, struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, a, HANDLE_ARENA, err);
    if (r == 0)
        r = entry_need(&e, ret_info, "ret_info");
    if (r < 0)
        return entry_end(&e, r);
    json_t *info = task_describe(a->task);
    json_object_set_new(info, "actions", action_names(a->task));
    json_object_set_new(info, "calls", action_calls(a->task));
    json_object_set_new(info, "features", feature_sizes(a));
    json_object_set_new(info, "tools", tool_names());
    json_object_set_new(info, "expected",
                        json_integer((json_int_t)arena_expected(a->arena)->count));
    json_object_set_new(info, "clock",
                        json_string(arena_clock(a->arena) == CLOCK_VIRTUAL ? "virtual" : "wall"));
    return entry_end(&e, json_give(info, ret_info, &e.error));
}
