/* What a door asks of an agent between turns, and the one thing that it may ask during one. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent_private.h"
#include "folder_watch.h"
#include "banned.h"

void agent_interrupt(struct agent *a)
{
    const uint64_t one = 1;
    if (write(a->cancel, &one, sizeof one) < 0) {
        /* Only a full counter makes it fail, and then it is readable anyway. */
    }
}

int agent_notice(struct agent *a, struct error *err)
{
    uint64_t calls = a->tools ? tool_session_changes(a->tools) : 0;
    if (calls == a->calls_seen)
        return 0;
    a->calls_seen = calls;
    a->pending_known = false;
    workbox_touch(a->box);
    return agent_record_box(a, err);
}

int agent_changes(struct agent *a, struct agent_changes *ret, struct error *err)
{
    int r = workbox_ready(a->box, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0)
        r = workbox_changes(a->box, ret, err);
    if (r == 0) {
        a->pending = ret->count + ret->commits;
        a->pending_known = a->n_running == 0;
    }
    return r;
}

int agent_diff(struct agent *a, int out, struct error *err)
{
    int r = workbox_ready(a->box, err);
    return r < 0 ? r : workbox_diff(a->box, out, err);
}

/* Passes the report of an apply on; what it wrote is no change of the person's. */
struct apply_relay {
    struct agent *agent;
    const struct apply_report *to;
};

static void apply_relay_say(void *data, const char *path, enum apply_outcome outcome,
                            const char *why)
{
    struct apply_relay *relay = data;
    if (relay->agent->watch && (outcome == APPLY_DONE || outcome == APPLY_MERGED))
        folder_watch_accept(relay->agent->watch, path);
    if (relay->to && relay->to->say)
        relay->to->say(relay->to->data, path, outcome, why);
}

static int refuse_replaced_folder(struct agent *a, struct error *err)
{
    return error_set(
        err, ESTALE,
        "nothing is applied: the folder %s was removed or replaced since the session began; "
        "'hutch box apply %s --new-folder' applies the changes there, 'hutch box diff %s' prints "
        "them as a patch",
        a->box_options.workspace, workbox_id(a->box), workbox_id(a->box));
}

int agent_apply(struct agent *a, const struct tool_apply_options *o, struct error *err)
{
    struct agent_changes left = {0};
    struct tool_apply_options how = o ? *o : (struct tool_apply_options){0};
    struct apply_relay relay = {.agent = a, .to = o ? &o->report : NULL};
    int r = workbox_ready(a->box, err);
    if (r == 0)
        agent_check_folder(a, false);
    if (r == 0 && a->folder_replaced)
        r = refuse_replaced_folder(a, err);
    how.session = history_id(a->history);
    how.disk = a->box_options.limits.disk;
    how.report = (struct apply_report){.say = apply_relay_say, .data = &relay};
    int conflicts = r < 0 ? r : workbox_apply(a->box, &how, err);
    if (conflicts < 0)
        return conflicts;
    if (a->watch_since)
        agent_seen_folder(a);
    r = agent_append(a, message_of_hutch("applied", "{s:i}", "conflicts", conflicts), err);
    if (r == 0)
        r = agent_changes(a, &left, err);
    agent_changes_free(&left);
    if (r == 0)
        r = agent_save(a, err);
    return r < 0 ? r : conflicts;
}

int agent_sync(struct agent *a, const struct apply_options *o, const struct apply_report *report,
               struct error *err)
{
    struct agent_changes left = {0};
    int r = workbox_ready(a->box, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0)
        agent_check_folder(a, false);
    if (r == 0 && a->folder_replaced)
        return error_set(err, ESTALE,
                         "the folder %s was removed or replaced since the session began",
                         a->box_options.workspace);
    int conflicts = r < 0 ? r : workbox_sync(a->box, o, report, err);
    if (conflicts < 0)
        return conflicts;
    r = agent_changes(a, &left, err);
    agent_changes_free(&left);
    if (r == 0)
        r = agent_save(a, err);
    return r < 0 ? r : conflicts;
}

int agent_set_model(struct agent *a, const char *given, struct error *err)
{
    struct model_spec spec;
    int r = settings_model(a->options.settings, given, &spec, err);
    if (r == 0)
        r = agent_use_model(a, &spec, err);
    return r == 0 && a->context ? agent_renew_context(a, err) : r;
}

int agent_compact(struct agent *a, struct error *err)
{
    int r = agent_ready(a, err);
    return r < 0 ? r : context_compact(a->context, a->model, a->cancel, &a->sink, err);
}

int agent_clear(struct agent *a, struct error *err)
{
    int r = agent_ready(a, err);
    if (r == 0)
        r = agent_append(a, message_of_hutch("cleared", "{}"), err);
    if (r < 0)
        return r;
    a->aside.len = 0;
    tool_session_set_plan(a->tools, json_array());
    return agent_renew_context(a, err);
}

void agent_state(struct agent *a, struct agent_state *ret)
{
    *ret = (struct agent_state){.session = history_id(a->history),
                                .model = a->model_name,
                                .workspace = a->box_options.workspace,
                                .turns = history_turns(a->history),
                                .context = a->context ? context_tokens(a->context) : 0,
                                .window = a->facts.window,
                                .usage = a->usage,
                                .money = a->money,
                                .running = a->n_running};
}

struct history *agent_history(struct agent *a)
{
    return a->history;
}

struct tool_session *agent_tools(struct agent *a)
{
    return agent_ready(a, NULL) < 0 ? NULL : a->tools;
}

const char *agent_box(struct agent *a)
{
    return workbox_ready(a->box, NULL) < 0 ? NULL : workbox_id(a->box);
}

struct agent *agent_close(struct agent *a, bool keep)
{
    struct agent_changes left = {0};
    if (!a)
        return NULL;
    agent_notice(a, NULL);
    if (keep && !a->pending_known && (a->box_told || a->turn.changed) &&
        agent_changes(a, &left, NULL) < 0)
        a->pending = 1; /* not known: better kept */
    agent_changes_free(&left);
    workbox_free(TAKE_PTR(a->box), !(keep && a->pending > 0));
    return agent_free(a);
}
