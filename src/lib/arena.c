/* Tasks, and arenas: a task made ready. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "json_text.h"
#include "lib_gym.h"
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

static int set_text(const char *name, json_t *value, const char **ret, struct error *err)
{
    if (!json_is_string(value))
        return error_set(err, EINVAL, "%s: is not a string", name);
    *ret = json_string_value(value);
    return 0;
}

static int set_count(const char *name, json_t *value, json_int_t max, json_int_t *ret,
                     struct error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > max)
        return error_set(err, EINVAL, "%s: is not a number from 1 to %" JSON_INTEGER_FORMAT, name,
                         max);
    *ret = json_integer_value(value);
    return 0;
}

static int set_flag(const char *name, json_t *value, bool *ret, struct error *err)
{
    if (!json_is_boolean(value))
        return error_set(err, EINVAL, "%s: is neither true nor false", name);
    *ret = json_is_true(value);
    return 0;
}

static int set_clock(json_t *value, enum gym_clock *ret, struct error *err)
{
    const char *name = json_string_value(value);
    if (!name || (strcmp(name, "wall") != 0 && strcmp(name, "virtual") != 0))
        return error_set(err, EINVAL, "clock: is not one of wall|virtual");
    *ret = *name == 'v' ? CLOCK_VIRTUAL : CLOCK_WALL;
    return 0;
}

static int set_pool(json_t *value, size_t *ret, struct error *err)
{
    json_int_t n = 0;
    int r = set_count("pool", value, 1024, &n, err);
    if (r == 0)
        *ret = (size_t)n;
    return r;
}

static int set_cache(json_t *value, bool *ret_no_cache, struct error *err)
{
    bool cache = true;
    int r = set_flag("cache", value, &cache, err);
    if (r == 0)
        *ret_no_cache = !cache;
    return r;
}

/* A descriptor that is none would end it at once. */
static int set_cancel(json_t *value, int *ret, struct error *err)
{
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    if (n < 0 || n > INT_MAX || fcntl((int)n, F_GETFD) < 0)
        return error_set(err, EINVAL, "cancel: is not an open descriptor");
    *ret = (int)n;
    return 0;
}

static int set_one(struct wanted *w, const char *name, json_t *value, struct error *err)
{
    if (strcmp(name, "tasks") == 0)
        return set_text(name, value, &w->tasks, err);
    if (strcmp(name, "from") == 0)
        return set_text(name, value, &w->from, err);
    if (strcmp(name, "repos") == 0)
        return set_text(name, value, &w->repos, err);
    if (strcmp(name, "image") == 0)
        return set_text(name, value, &w->image, err);
    if (strcmp(name, "clock") == 0)
        return set_clock(value, &w->arena.clock, err);
    if (strcmp(name, "cache") == 0)
        return set_cache(value, &w->arena.no_cache, err);
    if (strcmp(name, "pool") == 0)
        return set_pool(value, &w->arena.pool, err);
    if (strcmp(name, "max_steps") == 0)
        return set_count(name, value, 100000, &w->max_steps, err);
    if (strcmp(name, "cold") == 0)
        return set_flag(name, value, &w->arena.cold, err);
    if (strcmp(name, "cancel") == 0)
        return set_cancel(value, &w->cancel, err);
    return error_set(
        err, EINVAL,
        "an arena has no option '%.100s'; it is tasks, from, repos, image, clock, cache, pool, "
        "max_steps, cold "
        "or cancel",
        name);
}

static int take_wanted(json_t *options, struct wanted *w, struct error *err)
{
    const char *name;
    json_t *value;
    int r = 0;
    json_object_foreach(options, name, value)
    {
        r = set_one(w, name, value, err);
        if (r < 0)
            break;
    }
    return r;
}

/* Of what an import says the last is kept: why the one task that is wanted was left out. */
static void note(void *data, const char *text)
{
    snprintf(data, ERROR_TEXT_MAX, "%s", text);
}

static int import_one(const struct wanted *w, const char *name, struct task **ret,
                      struct error *err)
{
    struct task_set set = {0};
    char said[ERROR_TEXT_MAX];
    struct import_options o = {.from = w->from,
                               .repos = w->repos,
                               .image = w->image,
                               .only = name,
                               .cancel = w->cancel,
                               .say = note,
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

static int find_task(const struct wanted *w, const char *name, struct task **ret, struct error *err)
{
    _cleanup_task_ struct task *t = NULL;
    int r = w->from ? import_one(w, name, &t, err) : task_find(w->tasks, name, &t, err);
    if (r == 0 && t && w->max_steps) {
        t->max_steps = (unsigned)w->max_steps;
        r = task_finish(t, err); /* which gives it another name, too: it is another task */
    }
    if (r == 0)
        *ret = TAKE_PTR(t);
    return r;
}

static int open_arena(const char *name, json_t *options, hutch_arena **ret, struct error *err)
{
    struct wanted w = {.cancel = -1};
    hutch_arena *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(err, ENOMEM, "no memory");
    a->handle = handle_new(HANDLE_ARENA);
    arena_ref(a);
    int r = take_wanted(options, &w, err);
    if (r == 0)
        r = find_task(&w, name, &a->task, err);
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
        r = open_arena(task, object, ret, &e.error);
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

static int list_imported(const struct wanted *w, json_t *list, struct error *err)
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

static int list_tasks(const struct wanted *w, json_t *list, struct error *err)
{
    struct task_list names = {0};
    if (w->from)
        return list_imported(w, list, err);
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
        r = take_wanted(object, &w, &e.error);
    if (r < 0)
        return entry_end(&e, r);
    json_t *list = json_array();
    r = list_tasks(&w, list, &e.error);
    if (r == 0)
        r = json_give(list, ret_list, &e.error);
    else
        json_decref(list);
    return entry_end(&e, r);
}
