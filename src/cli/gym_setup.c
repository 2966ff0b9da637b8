#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gym_setup.h"
#include "import.h"
#include "interrupt.h"
#include "output.h"
#include "banned.h"

bool gym_replays(const struct gym_options *o)
{
    return o->trajectory && o->agent && strcmp(o->agent, "replay") == 0;
}

bool gym_words(const struct command *self, int argc, char **argv, struct gym_options *o,
               int *ret_status)
{
    int n;
    if (!command_words(self, argc, argv, o, 0, 0, &n, ret_status))
        return false;
    if (o->task || o->from || gym_replays(o))
        return true;
    say("no task: name one with --task TASK; 'hutch gym tasks' lists them");
    *ret_status = EXIT_USAGE;
    return false;
}

void gym_say(void *data, const char *text)
{
    say("%s", text);
}

/* Another limit makes another task of it: its digest changes. */
int gym_task_limit(const struct gym_options *o, struct task *t, struct error *err)
{
    if (!o->max_steps)
        return 0;
    t->max_steps = (unsigned)o->max_steps;
    return task_finish(t, err);
}

int gym_task(const struct gym_options *o, const char *name, int cancel, struct task **ret,
             struct error *err)
{
    _cleanup_task_ struct task *t = NULL;
    int r;
    if (o->from) {
        struct task_set set = {0};
        struct import_options io = {.from = o->from,
                                    .repos = o->repos,
                                    .image = o->image,
                                    .only = name,
                                    .say = gym_say,
                                    .cancel = cancel};
        r = task_import(&io, &set, err);
        if (r == 0 && set.count == 1)
            t = TAKE_PTR(set.items[0]);
        else if (r == 0 && name)
            r = error_set(err, ENOENT,
                          "there is no task %.100s in %s; 'hutch gym tasks --from %s' lists them",
                          name, o->from, o->from);
        else if (r == 0)
            r = error_set(err, EINVAL, "there are %zu tasks in %s: name one with --task TASK",
                          set.count, o->from);
        task_set_free(&set);
    } else {
        r = task_find(o->tasks, name, &t, err);
    }
    if (r == 0)
        r = gym_task_limit(o, t, err);
    if (r == 0)
        *ret = TAKE_PTR(t);
    return r;
}

struct arena_options gym_arena_options(const struct gym_options *o)
{
    return (struct arena_options){.no_cache = o->no_cache,
                                  .clock = o->virtual_clock ? CLOCK_VIRTUAL : CLOCK_WALL};
}

int gym_setup_open(const struct gym_options *o, int cancel, struct gym_setup *ret,
                   struct error *err)
{
    struct gym_setup p = {0};
    struct arena_options with = gym_arena_options(o);
    int r = gym_task(o, o->task, cancel, &p.task, err);
    if (r == 0)
        r = arena_open(p.task, &with, cancel, &p.arena, err);
    if (r == 0)
        r = env_open(p.arena, &p.env, err);
    if (r < 0) {
        gym_setup_close(&p);
        return r;
    }
    env_cancel_on(p.env, cancel);
    *ret = p;
    return 0;
}

void gym_setup_close(struct gym_setup *p)
{
    env_close(p->env);
    arena_close(p->arena);
    task_free(p->task);
    *p = (struct gym_setup){0};
}

int gym_policy_options(const struct gym_options *o, bool model, struct policy_options *ret,
                       struct settings **ret_settings, struct error *err)
{
    struct settings *settings = NULL;
    size_t i;
    json_t *note;
    int r = model ? settings_read(".", NULL, o->trust, &settings, err) : 0;
    if (r < 0)
        return r;
    if (settings)
        json_array_foreach((json_t *)settings_notes(settings), i, note)
            say("%s", json_string_value(note));
    *ret_settings = settings;
    *ret = (struct policy_options){.seed = o->seed,
                                   .model = o->model,
                                   .settings = settings,
                                   .trajectory = o->trajectory,
                                   .checkpoint = o->checkpoint,
                                   .epsilon_start = o->epsilon_start,
                                   .epsilon_end = o->epsilon_end,
                                   .epsilon_decay = o->epsilon_decay,
                                   .alpha = o->alpha,
                                   .gamma = o->gamma};
    return 0;
}

int gym_failed(const struct error *err)
{
    if (interrupt_signal())
        return 128 + interrupt_signal();
    say_lines(err->text);
    return EXIT_HUTCH;
}
