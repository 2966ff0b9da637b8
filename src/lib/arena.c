/* Tasks, and arenas: a task made ready. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "entry.h"
#include "lib_gym.h"
#include "tool.h"
#include "banned.h"

struct wanted {
    const char *tasks, *from, *repos, *image;
    json_int_t max_steps; /* 0: the task's */
    int cancel;
    struct arena_options arena;
};

hutch_arena *arena_ref(hutch_arena *a)
{
    atomic_fetch_add(&a->refs, 1);
    return a;
}

void arena_unref(hutch_arena *a)
{
    if (!a || atomic_fetch_sub(&a->refs, 1) > 1)
        return;
    arena_close(a->arena);
    task_free(a->task);
    free(a);
}

static int arena_set_text(const char *name, json_t *value, const char **ret, struct error *err)
{
    if (!json_is_string(value))
        return error_set(err, EINVAL, "%s: is not a string", name);
    *ret = json_string_value(value);
    return 0;
}

static int arena_set_count(const char *name, json_t *value, json_int_t max, json_int_t *ret,
                           struct error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > max)
        return error_set(err, EINVAL, "%s: is not a number from 1 to %" JSON_INTEGER_FORMAT, name,
                         max);
    *ret = json_integer_value(value);
    return 0;
}

static int arena_set_flag(const char *name, json_t *value, bool *ret, struct error *err)
{
    if (!json_is_boolean(value))
        return error_set(err, EINVAL, "%s: is neither true nor false", name);
    *ret = json_is_true(value);
    return 0;
}

static int arena_set_clock(json_t *value, enum gym_clock *ret, struct error *err)
{
    const char *name = json_string_value(value);
    if (!name || (strcmp(name, "wall") != 0 && strcmp(name, "virtual") != 0))
        return error_set(err, EINVAL, "clock: is not one of wall|virtual");
    *ret = *name == 'v' ? CLOCK_VIRTUAL : CLOCK_WALL;
    return 0;
}

static int arena_set_pool(json_t *value, size_t *ret, struct error *err)
{
    json_int_t n = 0;
    int r = arena_set_count("pool", value, 1024, &n, err);
    if (r == 0)
        *ret = (size_t)n;
    return r;
}

static int arena_set_cache(json_t *value, bool *ret_no_cache, struct error *err)
{
    bool cache = true;
    int r = arena_set_flag("cache", value, &cache, err);
    if (r == 0)
        *ret_no_cache = !cache;
    return r;
}

/* A descriptor that is none would end it at once. */
static int arena_set_cancel(json_t *value, int *ret, struct error *err)
{
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    if (n < 0 || n > INT_MAX || fcntl((int)n, F_GETFD) < 0)
        return error_set(err, EINVAL, "cancel: is not an open descriptor");
    *ret = (int)n;
    return 0;
}

static int arena_set_option(struct wanted *w, const char *name, json_t *value, struct error *err)
{
    if (strcmp(name, "tasks") == 0)
        return arena_set_text(name, value, &w->tasks, err);
    if (strcmp(name, "from") == 0)
        return arena_set_text(name, value, &w->from, err);
    if (strcmp(name, "repos") == 0)
        return arena_set_text(name, value, &w->repos, err);
    if (strcmp(name, "image") == 0)
        return arena_set_text(name, value, &w->image, err);
    if (strcmp(name, "clock") == 0)
        return arena_set_clock(value, &w->arena.clock, err);
    if (strcmp(name, "cache") == 0)
        return arena_set_cache(value, &w->arena.no_cache, err);
    if (strcmp(name, "pool") == 0)
        return arena_set_pool(value, &w->arena.pool, err);
    if (strcmp(name, "max_steps") == 0)
        return arena_set_count(name, value, 100000, &w->max_steps, err);
    if (strcmp(name, "cold") == 0)
        return arena_set_flag(name, value, &w->arena.cold, err);
    if (strcmp(name, "cancel") == 0)
        return arena_set_cancel(value, &w->cancel, err);
    return error_set(
        err, EINVAL,
        "an arena has no option '%.100s'; it is tasks, from, repos, image, clock, cache, pool, "
        "max_steps, cold "
        "or cancel",
        name);
}

static int arena_parse_options(json_t *options, struct wanted *w, struct error *err)
{
    const char *name;
    json_t *value;
    int r = 0;
    json_object_foreach(options, name, value)
    {
        r = arena_set_option(w, name, value, err);
        if (r < 0)
            break;
    }
    return r;
}

/* Of what an import says the last is kept: why the one task that is wanted was left out. */
static void arena_note(void *data, const char *text)
{
    snprintf(data, ERROR_TEXT_MAX, "%s", text);
}

static int arena_import_task(const struct wanted *w, const char *name, struct task **ret,
                             struct error *err)
{
    struct task_set set = {0};
    char said[ERROR_TEXT_MAX];
    struct import_options o = {.from = w->from,
                               .repos = w->repos,
                               .image = w->image,
                               .only = name,
                               .cancel = w->cancel,
                               .say = arena_note,
                               .data = said};
    int r = task_import(&o, &set, err);
    if (r < 0)
        return r;
    if (set.count == 1)
        *ret = TAKE_PTR(set.items[0]);
    else if (set.skipped)
        r = error_set(err, ENOENT, "%s", said);
    else
        r = error_set(err, ENOENT, "there is no task '%.100s' in %s", name, w->from);
    task_set_free(&set);
    return r;
}

static int arena_find_task(const struct wanted *w, const char *name, struct task **ret,
                           struct error *err)
{
    _cleanup_task_ struct task *t = NULL;
    int r = w->from ? arena_import_task(w, name, &t, err) : task_find(w->tasks, name, &t, err);
    if (r == 0 && t && w->max_steps) {
        t->max_steps = (unsigned)w->max_steps;
        r = task_finish(t, err); /* which gives it another name, too: it is another task */
    }
    if (r == 0)
        *ret = TAKE_PTR(t);
    return r;
}

static int arena_open_handle(const char *name, json_t *options, hutch_arena **ret,
                             struct error *err)
{
    struct wanted w = {.cancel = -1};
    hutch_arena *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(err, ENOMEM, "no memory");
    a->handle = handle_new(HANDLE_ARENA);
    arena_ref(a);
    int r = arena_parse_options(options, &w, err);
    if (r == 0)
        r = arena_find_task(&w, name, &a->task, err);
    if (r == 0)
        r = arena_open(a->task, &w.arena, w.cancel, &a->arena, err);
    if (r < 0)
        arena_unref(a);
    else
        *ret = a;
    return r;
}

int hutch_arena_open(const char *task, const char *options, hutch_arena **ret,
                     struct hutch_error *err)
{
    struct entry e;
    _cleanup_json_ json_t *object = NULL;
    entry_begin_plain(&e, err);
    int r = entry_need(&e, task, "task");
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = json_take_object("options", options, &object, &e.error);
    if (r == 0)
        r = arena_open_handle(task, object, ret, &e.error);
    return entry_end(&e, r);
}

void hutch_arena_close(hutch_arena *a)
{
    struct entry e;
    entry_begin_plain(&e, NULL);
    if (handle_close(a, HANDLE_ARENA, NULL))
        arena_unref(a);
    entry_end(&e, 0);
}

static int tasks_list_imported(const struct wanted *w, json_t *list, struct error *err)
{
    struct task_set set = {0};
    struct import_options o = {
        .from = w->from, .repos = w->repos, .image = w->image, .cancel = w->cancel};
    int r = task_import(&o, &set, err);
    for (size_t i = 0; r == 0 && i < set.count; i++)
        json_array_append_new(list, task_describe(set.items[i]));
    task_set_free(&set);
    return r;
}

static int tasks_list(const struct wanted *w, json_t *list, struct error *err)
{
    struct task_list names = {0};
    if (w->from)
        return tasks_list_imported(w, list, err);
    int r = task_names(w->tasks, &names, err);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        _cleanup_task_ struct task *t = NULL;
        r = task_find(w->tasks, names.items[i], &t, err);
        if (r == 0)
            json_array_append_new(list, task_describe(t));
    }
    task_list_free(&names);
    return r;
}

int hutch_tasks(const char *options, char **ret_list, struct hutch_error *err)
{
    struct entry e;
    struct wanted w = {.cancel = -1};
    _cleanup_json_ json_t *object = NULL;
    entry_begin_plain(&e, err);
    int r = entry_need(&e, ret_list, "ret_list");
    if (r == 0)
        r = json_take_object("options", options, &object, &e.error);
    if (r == 0)
        r = arena_parse_options(object, &w, &e.error);
    if (r < 0)
        return entry_end(&e, r);
    json_t *list = json_array();
    r = tasks_list(&w, list, &e.error);
    if (r == 0)
        r = json_give(list, ret_list, &e.error);
    else
        json_decref(list);
    return entry_end(&e, r);
}

static json_t *arena_action_names(const struct task *t)
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
static json_t *arena_action_calls(const struct task *t)
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
static json_t *arena_feature_sizes(const hutch_arena *a)
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

static json_t *arena_tool_names(void)
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
    json_object_set_new(info, "actions", arena_action_names(a->task));
    json_object_set_new(info, "calls", arena_action_calls(a->task));
    json_object_set_new(info, "features", arena_feature_sizes(a));
    json_object_set_new(info, "tools", arena_tool_names());
    json_object_set_new(info, "expected",
                        json_integer((json_int_t)arena_expected(a->arena)->count));
    json_object_set_new(info, "clock",
                        json_string(arena_clock(a->arena) == CLOCK_VIRTUAL ? "virtual" : "wall"));
    return entry_end(&e, json_give(info, ret_info, &e.error));
}
