/*
 * Taking turns back: the files as they were when the first of them began to change something, also what
 * commands did, and the conversation. Nothing is deleted from the history.
 */
#include <errno.h>

#include "agent_private.h"
#include "banned.h"

/* Goes on in another box. */
static int use_box(struct agent *a, struct workbox *box, struct error *err)
{
    a->schemas = tool_schemas_free(a->schemas);
    a->tools = tool_session_free(a->tools);
    a->calls_seen = 0;
    a->context = context_free(a->context);
    workbox_free(a->box, true);
    a->box = box;
    a->box_told = false;
    return agent_record_box(a, err);
}

/* The last turn of the conversation that this one was forked from; 0: it was not. */
static unsigned forked_from(const struct agent *a)
{
    const json_t *from = json_object_get(history_head(a->history), "forked_from");
    return (unsigned)json_integer_value(json_object_get(from, "turn"));
}

static int put_back(struct agent *a, unsigned to, struct error *err)
{
    struct error why = {0};
    struct box_state state;
    struct workbox *other = NULL;
    if (agent_find_state(a, to, &state) < 0) {
        if (to < forked_from(a))
            agent_note(a, "that turn was before this conversation was forked: the files stay as they are");
        return 0;
    }
    int r = agent_go_to_state(a, &state, &other, &why);
    if (r == -ENOENT) {
        agent_note(
            a, "the box that had the files of that time has gone: only the conversation is taken back, the "
               "files stay as they are");
        return 0;
    }
    if (r < 0) {
        if (err)
            *err = why;
        return error_wrap(err, "cannot put the files back");
    }
    agent_forget_background(a);
    return other ? use_box(a, other, err) : 0;
}

int agent_undo(struct agent *a, unsigned n, struct error *err)
{
    unsigned turns = history_turns(a->history);
    struct agent_changes changes = {0};
    if (n == 0 || n > turns)
        return error_set(err, EINVAL, turns ? "there are only %u turns to undo" : "there is nothing to undo",
                         turns);
    int r = agent_ready(a, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0)
        r = put_back(a, turns - n, err);
    if (r == 0)
        r = agent_append(a, message_of_hutch("undo", "{s:i}", "to", (int)(turns - n)), err);
    if (r < 0)
        return r;
    a->aside.len = 0;
    a->context = context_free(a->context);
    r = agent_ready(a, err);
    if (r == 0)
        r = agent_changes(a, &changes, err);
    agent_changes_free(&changes);
    return r == 0 ? agent_save(a, err) : r;
}
