/* The discrete view: actions by number, in the order patches, run_tests, reads, submit. */
#include <errno.h>
#include <string.h>

#include "env.h"
#include "task_private.h"
#include "tool.h"
#include "banned.h"

size_t task_actions(const struct task *t)
{
    return t->n_patches > 0 ? t->n_patches + 1 + t->reads.count + 1 : 0;
}

size_t task_features(const struct task *t)
{
    return t->n_patches > 0 ? t->n_patches + 1 + t->reads.count : 0;
}

int task_action(const struct task *t, size_t number, const char **ret_tool, json_t **ret_input)
{
    size_t last = task_actions(t) - 1, tests = t->n_patches;
    const char *tool;
    json_t *input;
    if (number >= task_actions(t))
        return -EINVAL;
    if (number < tests) {
        tool = TOOL_APPLY_DIFF.name;
        input = json_pack("{s:s}", "diff", t->patches[number].diff);
    } else if (number == tests) {
        tool = TOOL_RUN_TESTS.name;
        input = json_object();
    } else if (number < last) {
        tool = TOOL_READ_FILE.name;
        input = json_pack("{s:s}", "path", t->reads.items[number - tests - 1]);
    } else {
        tool = "submit";
        input = json_object();
    }
    if (!input)
        return -ENOMEM;
    *ret_tool = tool;
    *ret_input = input;
    return 0;
}

void task_action_name(const struct task *t, size_t number, char *text, size_t size)
{
    size_t tests = t->n_patches;
    if (number >= task_actions(t))
        snprintf(text, size, "action %zu", number);
    else if (number < tests)
        snprintf(text, size, "apply %s", t->patches[number].name);
    else if (number == tests)
        snprintf(text, size, "run tests");
    else if (number + 1 < task_actions(t))
        snprintf(text, size, "read %s", t->reads.items[number - tests - 1]);
    else
        snprintf(text, size, "submit");
}

/* No file that is there while an agent works belongs to them. */
bool task_tests_hidden(const struct task *t)
{
    for (size_t i = 0; i < t->files.count; i++)
        if (task_list_covers(&t->tests.own, t->files.items[i].path))
            return false;
    return t->tests.runner == TASK_COMMAND && t->hidden.count > 0 && t->tests.own.count > 0;
}
