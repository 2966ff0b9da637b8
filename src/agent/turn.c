/* The steps of a turn around the loop: its beginning, asking the model, its end. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "agent_private.h"
#include "system.h"
#include "banned.h"

#define SHRINKS_MAX 4
#define NOW_MAX     (64u << 10)

void turn_end(struct turn *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->why, sizeof t->why, fmt, args);
    va_end(args);
}

bool agent_is_interrupted(struct agent *a)
{
    struct pollfd fd = {.fd = a->cancel, .events = POLLIN};
    if (poll(&fd, 1, 0) > 0)
        a->turn.interrupted = true;
    return a->turn.interrupted;
}

static void forget_interrupt(struct agent *a)
{
    uint64_t count;
    if (agent_is_interrupted(a) && read(a->cancel, &count, sizeof count) < 0) {
        /* Somebody else took it: it is not readable any more, which is all that matters. */
    }
}

int turn_begin(struct agent *a, const char *words, struct error *err)
{
    int r = agent_ready(a, err);
    if (r < 0)
        return r;
    if (!a->options.unattended) /* else it may have come while the box was made */
        forget_interrupt(a);
    a->turn = (struct turn){.number = history_turns(a->history) + 1};
    r = agent_close_calls(a, "hutch was ended while this ran; its effects may be there: look", err);
    if (r == 0)
        r = system_record(a->history, a->system, err);
    if (r == 0)
        r = agent_learn_folder(a, err);
    if (r == 0)
        r = agent_append(a, message_of_person(a->turn.number, buf_cstr(&a->aside), words), err);
    if (r < 0)
        return r;
    a->aside.len = 0;
    return TURN_ON;
}

/* What the model says, as it says it. */
static void relay(void *data, const struct model_event *e)
{
    static const enum agent_event_kind kinds[] = {[MODEL_TEXT] = AGENT_TEXT,
                                                  [MODEL_THINKING] = AGENT_THINKING,
                                                  [MODEL_CALL] = AGENT_WRITING,
                                                  [MODEL_WAIT] = AGENT_WAIT,
                                                  [MODEL_BACK] = AGENT_BACK};
    agent_tell(data, &(struct agent_event){.kind = kinds[e->kind],
                                           .text = e->text,
                                           .n = e->n,
                                           .wait_ms = e->wait_ms,
                                           .attempt = e->attempt,
                                           .keep = e->keep,
                                           .keep_thinking = e->keep_thinking});
}

/* What making summaries cost counts like anything else. */
static void account_summaries(struct agent *a)
{
    struct model_usage spent = {0};
    context_spent(a->context, &spent);
    if (spent.known)
        agent_account(a, &spent);
}

/* Tokens that one answer may have: what the model can, within what is left of the limit. */
static uint64_t answer_tokens(const struct agent *a)
{
    uint64_t most = a->options.max_tokens, used = a->turn.tokens;
    uint64_t left = most > used ? most - used : 0;
    return most && left < a->facts.max_output ? left : a->facts.max_output;
}

static int ask_once(struct agent *a, struct model_reply *ret, struct error *err)
{
    _cleanup_buf_ struct buf now = BUF_INIT(NOW_MAX);
    json_t *messages = NULL;
    agent_now(a, &now);
    int r = context_build(a->context, a->model, now.len ? buf_cstr(&now) : NULL, a->cancel,
                          &a->sink, &messages, err);
    account_summaries(a);
    if (r < 0)
        return r;
    struct model_request q = {.system = a->system,
                              .tools = tool_schemas_list(a->schemas),
                              .messages = messages,
                              .max_tokens = answer_tokens(a),
                              .cancel = a->cancel};
    agent_watch_folder(a);
    r = model_ask(a->model, &q, &(struct model_sink){.event = relay, .data = a}, ret, err);
    json_decref(messages);
    return r;
}

/* Asks, with less of the conversation where it was too much. When nothing more can be left out,
 * what the provider said about it is what counts. */
static int ask_until_fits(struct agent *a, struct model_reply *ret, struct error *err)
{
    struct error refusal = {0}, why = {0};
    for (int tries = 0;; tries++) {
        int r = ask_once(a, ret, &why);
        if (err && r < 0)
            *err = r == -E2BIG && refusal.code ? refusal : why;
        if (r != -EMSGSIZE || tries == SHRINKS_MAX)
            return r;
        refusal = why;
        agent_note(a, "the conversation is longer than the model takes; shortening it");
        context_shrink(a->context);
    }
}

/* What had come of an answer that the person interrupted. */
static int keep_partly(struct agent *a, struct model_reply *reply, struct error *err)
{
    a->turn.interrupted = true;
    agent_account(a, &reply->usage);
    agent_aside(a, "The person interrupted you there.");
    if (json_array_size(reply->content) == 0)
        return TURN_OVER;
    int r = agent_record_answer(a, reply, "interrupted", -1, err);
    return r < 0 ? r : TURN_OVER;
}

int turn_ask(struct agent *a, struct model_reply *ret, struct error *err)
{
    int r = ask_until_fits(a, ret, err);
    if (r == -ECANCELED)
        return keep_partly(a, ret, err);
    if ((r == -EMSGSIZE || r == -E2BIG) && a->turn.stop == MODEL_WINDOW_EXCEEDED) {
        turn_end(&a->turn, "%.200s", err ? err->text : "the model's window is full");
        return TURN_OVER;
    }
    if (r < 0)
        return r;
    a->turn.answers++;
    a->turn.stop = ret->stop;
    context_learn(a->context, &ret->usage);
    agent_tell(a, &(struct agent_event){.kind = AGENT_SAID});
    agent_account(a, &ret->usage);
    if (json_array_size(ret->content) == 0)
        return TURN_ON;
    double cost = ret->usage.known ? price_of(&a->facts.price, &ret->usage) : -1;
    r = agent_record_answer(a, ret, model_stop_name(ret->stop), cost, err);
    return r < 0 ? r : TURN_ON;
}

int turn_guard(struct agent *a, struct error *err)
{
    struct error why = {0};
    char name[KEEPER_SNAPSHOT_NAME];
    a->turn.changed = true;
    a->pending_known = false;
    if (a->turn.snapshot)
        return 0;
    a->turn.snapshot = true;
    int r = agent_notice(a, err);
    if (r == 0)
        r = agent_record_box(a, err);
    if (r < 0)
        return r;
    if (workbox_snapshot(a->box, name, &why) < 0) {
        agent_note(a, "this turn cannot be undone: %s", why.text);
        return 0;
    }
    return agent_append(a,
                        message_of_hutch("snapshot", "{s:I, s:s, s:s}", "turn",
                                         (json_int_t)a->turn.number, "box", workbox_id(a->box),
                                         "snapshot", name),
                        err);
}

static int save_plan(struct agent *a, struct error *err)
{
    json_t *plan = tool_session_plan(a->tools), *last = history_last(a->history, "plan");
    bool same =
        last ? json_equal(json_object_get(last, "items"), plan) : json_array_size(plan) == 0;
    json_decref(last);
    if (same) {
        json_decref(plan);
        return 0;
    }
    return agent_append(a, message_of_hutch("plan", "{s:o}", "items", plan), err);
}

/* Looks at what the box has changed, saves it, and tells. */
static void settle(struct agent *a)
{
    struct error err = {0};
    struct agent_changes changes = {0};
    int r = agent_changes(a, &changes, &err);
    if (r == 0)
        r = changes.count ? agent_save(a, &err) : agent_unsave(a, &err);
    if (r < 0)
        agent_note(a, "%s", err.text);
    if (agent_changes_any(&changes))
        agent_tell(a, &(struct agent_event){.kind = AGENT_CHANGES, .changes = &changes});
    agent_changes_free(&changes);
}

int turn_finish(struct agent *a, int r, struct error *err)
{
    struct turn *t = &a->turn;
    if (!a->tools)
        return r;
    if (t->interrupted && !t->why[0])
        turn_end(t, "interrupted");
    int saved = save_plan(a, r < 0 ? NULL : err);
    if (t->changed || a->n_running)
        settle(a);
    if (r < 0)
        return r;
    if (saved == 0)
        saved = history_settle(a->history, err);
    agent_tell(a, &(struct agent_event){
                      .kind = AGENT_DONE, .stop = t->stop, .why = t->why[0] ? t->why : NULL});
    return saved;
}
