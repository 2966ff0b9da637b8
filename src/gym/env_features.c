/* The discrete view's observation: which patches are applied, how the tests stand, which files were
 * read. */
#include <string.h>

#include "env_private.h"
#include "tool.h"
#include "banned.h"

size_t env_features(const struct gym_env *e, int64_t *ret, size_t room)
{
    const struct task *t = e->arena->task;
    size_t n = 0;
    if (task_features(t) == 0)
        return 0;
    for (size_t i = 0; i < t->n_patches; i++, n++)
        if (n < room)
            ret[n] = e->patched[i];
    if (n < room)
        ret[n] = (int64_t)e->tests;
    n++;
    for (size_t i = 0; i < t->reads.count; i++, n++)
        if (n < room)
            ret[n] = e->was_read[i];
    return n;
}

static void note_patch(struct gym_env *e, const json_t *input)
{
    const struct task *t = e->arena->task;
    bool applied = !json_is_true(json_object_get(input, "reverse"));
    for (size_t i = 0; i < t->n_patches; i++)
        if (strcmp(t->patches[i].diff, json_get_string_or(input, "diff", "")) == 0)
            e->patched[i] = applied;
}

static void note_read(struct gym_env *e, const json_t *input)
{
    const struct task *t = e->arena->task;
    for (size_t i = 0; i < t->reads.count; i++)
        if (strcmp(t->reads.items[i], json_get_string_or(input, "path", "")) == 0)
            e->was_read[i] = true;
}

/* What a run named beyond the expected tests does not count: the feature's range is known
 * beforehand. */
static size_t tests_feature(const struct gym_env *e, size_t passed)
{
    size_t most = e->arena->expected.count;
    return 1 + (passed < most ? passed : most);
}

void env_features_note(struct gym_env *e, const char *tool, const json_t *input,
                       const struct env_result *o)
{
    bool failed = json_is_true(json_object_get(o->observation, "failed"));
    if (o->changed)
        e->tests = 0;
    if (o->tested)
        e->tests = tests_feature(e, o->passed);
    if (o->changed && strcmp(tool, TOOL_APPLY_DIFF.name) == 0)
        note_patch(e, input);
    if (!failed && strcmp(tool, TOOL_READ_FILE.name) == 0)
        note_read(e, input);
}
