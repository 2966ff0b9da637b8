#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "desk_private.h"
#include "banned.h"

#define TEXT_MAX (1u << 20)
#define DIFF_MAX (16u << 20)

void answer_init(struct answer *a)
{
    *a = (struct answer){.text = BUF_INIT(TEXT_MAX), .diff = BUF_INIT(DIFF_MAX)};
}

void answer_free(struct answer *a)
{
    buf_free(&a->text);
    buf_free(&a->diff);
    agent_changes_free(&a->changes);
    json_decref(a->names);
    json_decref(a->models);
    answer_init(a);
}

int desk_new(const struct tui_options *o, const struct desk_sink *sink, struct desk **ret,
             struct error *err)
{
    struct desk *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(err, ENOMEM, "no memory");
    d->o = o;
    d->options = *o->agent;
    d->sink = *sink;
    d->options.host.confirm = (struct tool_confirm){.ask = sink->confirm, .data = sink->data};
    d->attempts = o->attempts;
    d->test = o->test ? strdup(o->test) : NULL;
    d->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->cancel < 0) {
        int r = error_errno(err, errno, "cannot make a descriptor for events");
        free(d->test);
        free(d);
        return r;
    }
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

struct desk *desk_free(struct desk *d)
{
    if (!d)
        return NULL;
    desk_use(d, NULL);
    pthread_mutex_destroy(&d->lock);
    cleanup_close(&d->cancel);
    free(d->test);
    free(d);
    return NULL;
}

void desk_use(struct desk *d, struct agent *agent)
{
    pthread_mutex_lock(&d->lock);
    struct agent *before = d->agent;
    d->agent = agent;
    pthread_mutex_unlock(&d->lock);
    if (before)
        agent_close(before, true);
}

void desk_interrupt_now(struct desk *d)
{
    d->stopping = true;
    eventfd_write(d->cancel, 1);
    if (d->agent)
        agent_interrupt(d->agent);
}

void desk_interrupt(struct desk *d)
{
    pthread_mutex_lock(&d->lock);
    desk_interrupt_now(d);
    pthread_mutex_unlock(&d->lock);
}

void desk_tell(struct desk *d, const struct agent_event *e)
{
    d->sink.event(d->sink.data, e, 0);
}

static void on_event(void *data, const struct agent_event *e)
{
    desk_tell(data, e);
}

struct agent_sink desk_agent_sink(struct desk *d)
{
    return (struct agent_sink){.event = on_event, .data = d};
}

static void take_state(struct desk *d, struct desk_state *ret)
{
    struct agent_state s = {0};
    if (!d->agent)
        return;
    agent_state(d->agent, &s);
    snprintf(ret->session, sizeof ret->session, "%s", s.session ? s.session : "");
    snprintf(ret->model, sizeof ret->model, "%s", s.model ? s.model : "");
    snprintf(ret->workspace, sizeof ret->workspace, "%s", s.workspace ? s.workspace : "");
    ret->turns = s.turns;
    ret->context = s.context;
    ret->window = s.window;
    ret->usage = s.usage;
    ret->money = s.money;
}

static int clear(struct desk *d, struct answer *a, struct error *err)
{
    int r = agent_clear(d->agent, err);
    if (r < 0)
        return r;
    d->sink.anew(d->sink.data);
    return buf_append_str(&a->text, "The conversation begins anew; the files are as they were.\n");
}

static int carry_out(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    switch (j->kind) {
    case JOB_OPEN:
        return desk_open(d, a, err);
    case JOB_SAY:
        return desk_say(d, j, a, err);
    case JOB_SHELL:
        return desk_shell(d, j, a, err);
    case JOB_CLEAR:
        return clear(d, a, err);
    case JOB_LOAD:
        return desk_load(d, j, a, err);
    case JOB_SESSIONS:
        return desk_sessions(d, a, err);
    case JOB_FORK:
        return desk_fork(d, j, a, err);
    case JOB_UNDO:
        return desk_undo(d, j, a, err);
    case JOB_DIFF:
        return desk_diff(d, a, err);
    case JOB_APPLY:
        return desk_apply(d, j, a, err);
    case JOB_SYNC:
        return desk_sync(d, j, a, err);
    case JOB_MODEL:
        return desk_model(d, j, a, err);
    case JOB_COMPACT:
        return agent_compact(d->agent, err);
    case JOB_COST:
        return desk_cost(d, a, err);
    case JOB_TOOLS:
        return desk_tools(d, a, err);
    case JOB_PLAN:
        return desk_plan(d, a, err);
    case JOB_EXPORT:
        return desk_export(d, j, a, err);
    case JOB_ATTEMPTS:
        return desk_set_attempts(d, j, a, err);
    case JOB_NET:
        return desk_net(d, j, a, err);
    case JOB_SET:
        return desk_set(d, j, a, err);
    case JOB_SESSION_NAMES: {
        int r = desk_sessions(d, a, err);
        a->text.len = 0;
        return r;
    }
    case JOB_FILES:
        return desk_files(d, a, err);
    default:
        return error_set(err, EINVAL, "this command is not sent to the agent");
    }
}

void desk_do(struct desk *d, const struct job *job, struct answer *ret)
{
    eventfd_t n;
    answer_init(ret);
    ret->kind = job->kind;
    d->stopping = false;
    eventfd_read(d->cancel, &n);
    ret->r = carry_out(d, job, ret, &ret->err);
    if (ret->r < 0 && !ret->err.text[0])
        error_errno(&ret->err, -ret->r, "this failed");
    ret->interrupted = d->stopping;
    take_state(d, &ret->state);
}
