/* Tasks, and arenas: a task made ready. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "entry.h"
#include "lib_gym.h"
#include "banned.h"

struct arena_request {
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

static int arena_set_option(struct arena_request *w, const char *name, json_t *value,
                            struct error *err)
{
    const struct {
        const char *name;
        const char **text;
    } texts[] = {
        {"tasks", &w->tasks}, {"from", &w->from}, {"repos", &w->repos}, {"image", &w->image}};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (strcmp(name, texts[i].name) == 0)
            return arena_set_text(name, value, texts[i].text, err);
    if (strcmp(name, "clock") == 0) {
        const char *clock = json_is_string(value) ? json_string_value(value) : "";
        if (strcmp(clock, "wall") != 0 && strcmp(clock, "virtual") != 0)
            return error_set(err, EINVAL, "clock: is not one of wall|virtual");
        w->arena.clock = *clock == 'v' ? CLOCK_VIRTUAL : CLOCK_WALL;
        return 0;
    }
    if (strcmp(name, "cache") == 0) {
        bool cache = !w->arena.no_cache;
        int r = arena_set_flag(name, value, &cache, err);
        w->arena.no_cache = !cache;
        return r;
    }
    if (strcmp(name, "pool") == 0) {
        json_int_t n = (json_int_t)w->arena.pool;
        int r = arena_set_count(name, value, 1024, &n, err);
        w->arena.pool = (size_t)n;
        return r;
    }
    if (strcmp(name, "max_steps") == 0)
        return arena_set_count(name, value, 100000, &w->max_steps, err);
    if (strcmp(name, "cold") == 0)
        return arena_set_flag(name, value, &w->arena.cold, err);
    if (strcmp(name, "cancel") == 0) {
        /* anything but an open descriptor would cancel at once */
        json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
        if (n < 0 || n > INT_MAX || fcntl((int)n, F_GETFD) < 0)
            return error_set(err, EINVAL, "cancel: is not an open descriptor");
        w->cancel = (int)n;
        return 0;
    }
    return error_set(err, EINVAL,
                     "an arena has no option '%.100s'; it is tasks, from, repos, image, clock, "
                     "cache, pool, max_steps, cold or cancel",
                     name);
}

static int arena_parse_options(json_t *options, struct arena_request *w, struct error *err)
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

/* Keeps the last line of an import: why the one requested task was skipped. */
static void arena_keep_note(void *data, const char *text)
{
    snprintf(data, ERROR_TEXT_MAX, "%s", text);
}

static int arena_import_task(const struct arena_request *w, const char *name, struct task **ret,
                             struct error *err)
{
    struct task_set set = {0};
    char said[ERROR_TEXT_MAX];
    struct import_options o = {.from = w->from,
                               .repos = w->repos,
                               .image = w->image,
                               .only = name,
                               .cancel = w->cancel,
                               .say = arena_keep_note,
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

static int arena_find_task(const struct arena_request *w, const char *name, struct task **ret,
                           struct error *err)
{
    _cleanup_task_ struct task *t = NULL;
    int r = w->from ? arena_import_task(w, name, &t, err) : task_find(w->tasks, name, &t, err);
    if (r == 0 && t && w->max_steps) {
        t->max_steps = (unsigned)w->max_steps;
        r = task_finish(t, err); /* its digest changes, too: it is another task */
    }
    if (r == 0)
        *ret = TAKE_PTR(t);
    return r;
}

int hutch_arena_open(const char *task, const char *options, hutch_arena **ret,
                     struct hutch_error *err)
{
    struct entry e;
    struct arena_request w = {.cancel = -1};
    _cleanup_json_ json_t *object = NULL;
    hutch_arena *a = NULL;
    entry_begin_plain(&e, err);
    int r = entry_need(&e, task, "task");
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = json_take_object("options", options, &object, &e.error);
    if (r == 0 && !(a = calloc(1, sizeof *a)))
        r = error_set(&e.error, ENOMEM, "no memory");
    if (r < 0)
        return entry_end(&e, r);
    a->handle = handle_new(HANDLE_ARENA);
    arena_ref(a);
    r = arena_parse_options(object, &w, &e.error);
    if (r == 0)
        r = arena_find_task(&w, task, &a->task, &e.error);
    if (r == 0)
        r = arena_open(a->task, &w.arena, w.cancel, &a->arena, &e.error);
    if (r < 0)
        arena_unref(a);
    else
        *ret = a;
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

/* A task as hutch_tasks() lists it. */
static int tasks_list_imported(const struct arena_request *w, json_t *list, struct error *err)
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

static int tasks_list(const struct arena_request *w, json_t *list, struct error *err)
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
    struct arena_request w = {.cancel = -1};
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

int hutch_arena_info(hutch_arena *a, char **ret_info, struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, a, HANDLE_ARENA, err);
    if (r == 0)
        r = entry_need(&e, ret_info, "ret_info");
    if (r < 0)
        return entry_end(&e, r);
    json_t *info = task_interface(a->task, arena_expected(a->arena)->count);
    json_object_set_new(info, "clock",
                        json_string(arena_clock(a->arena) == CLOCK_VIRTUAL ? "virtual" : "wall"));
    return entry_end(&e, json_give(info, ret_info, &e.error));
}
