#include <errno.h>

#include "agent_setup.h"
#include "say.h"
#include "banned.h"

int agent_setup_check(const struct run_options *o, struct error *err)
{
    if (o->apply && o->no_apply)
        return error_set(err, EINVAL, "--apply and --no-apply contradict each other");
    if (o->apply && o->wish.box.mode != BOX_COW)
        return error_set(err, EINVAL,
                         "--apply works with --mode cow only: nothing is kept apart in the others");
    if (o->attempts > 1 && !o->test)
        return error_set(err, EINVAL, "--attempts needs --test CMD, which tells how good each is");
    if (o->attempts > AGENT_ATTEMPTS_MAX)
        return error_set(err, EINVAL, "--attempts: at most %d", AGENT_ATTEMPTS_MAX);
    if (o->attempts > 1 && o->wish.box.mode != BOX_COW)
        return error_set(err, EINVAL, "--attempts works with --mode cow only: each needs files of its own");
    if (o->attempts > 1 && o->record)
        return error_set(err, EINVAL, "--record is of one conversation, --attempts makes several");
    return 0;
}

static int read_settings(struct run_options *o, struct settings **ret, struct error *err)
{
    bool named = o->wish.box.workspace != NULL;
    int r = named ? box_wish_resolve(&o->wish, err) : 0;
    if (r == 0)
        r = settings_read(".", named ? o->wish.box.workspace : NULL, ret, err);
    if (r < 0 || named)
        return r;
    o->wish.box.workspace = settings_get(*ret, "SAFEDIR");
    r = box_wish_resolve(&o->wish, err);
    if (r < 0)
        *ret = settings_free(*ret);
    return r;
}

/* Whether the box is asked to be a special one; its folder is another matter. */
static bool makes(struct run_options o)
{
    o.wish.box.workspace = NULL;
    return run_options_make(&o);
}

int agent_setup(struct run_options *o, struct settings **ret, struct error *err)
{
    size_t i;
    json_t *note;
    o->makes = makes(*o);
    int r = read_settings(o, ret, err);
    if (r < 0)
        return r;
    if (!o->max_tokens)
        o->max_tokens = settings_max_tokens(*ret);
    json_array_foreach((json_t *)settings_notes(*ret), i, note) say("%s", json_string_value(note));
    return 0;
}

struct agent_options agent_setup_options(const struct run_options *o, struct settings *settings)
{
    return (struct agent_options){.box = &o->wish.box,
                                  .settings = settings,
                                  .model = o->model,
                                  .resume = o->resume,
                                  .system_file = o->system,
                                  .record = o->record,
                                  .makes = o->makes,
                                  .max_tokens = o->max_tokens,
                                  .max_turns = (unsigned)o->max_turns,
                                  .max_cost = o->max_cost};
}
