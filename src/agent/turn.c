/*
 * One turn: the person's words, then, while the model asks for tools, run them and answer.
 *
 * An answer is in the history before its calls run, and the results are as soon as all are there.
 * So whatever stops hutch in between, the next start finds which calls were running. It is synced to
 * disk when the turn ends, and before a call that reaches out of the box.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "agent_session.h"
#include "tool_schemas.h"
#include "banned.h"

#define SHRINKS_MAX 4
#define STATUS_MAX  (64u << 10)
#define PAUSES_MAX  16
#define CUTS_MAX    3

/* What a step of a turn returns: it goes on, or it is over; or a negative errno. */
enum { TURN_OVER = 0, TURN_ON = 1 };

static void turn_set_end(struct turn *t, const char *fmt, ...) PRINTF(2, 3);

static void turn_set_end(struct turn *t, const char *fmt, ...)
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

/* A call that has no result, because hutch stopped, gets one that says so. */
static int turn_close_calls(struct agent *a, struct error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    size_t i = history_count(a->history); /* behind the last message that counts */
    while (i > 0 && (!history_entry(a->history, i - 1)->counts ||
                     history_entry(a->history, i - 1)->role == HISTORY_HUTCH))
        i--;
    if (i == 0 || history_entry(a->history, i - 1)->role != HISTORY_ASSISTANT)
        return 0;
    int r = history_read(a->history, i - 1, &answer, err);
    if (r < 0)
        return r;
    if (strcmp(json_get_string_or(answer, "stop", ""), "interrupted") == 0 &&
        a->prompt_notes.len == 0)
        prompt_note_printf(a, "The person interrupted you there.");
    json_t *results =
        results_for_open_calls(json_object_get(answer, "content"),
                               "hutch stopped while this ran; it may have run in part: check");
    return results ? agent_append(a, message_of_results(results), err) : 0;
}

static int turn_begin(struct agent *a, const char *words, struct error *err)
{
    uint64_t count;
    int r = agent_ready(a, err);
    if (r < 0)
        return r;
    /* Forget an old interrupt. Unattended, it may have come while the box was made. */
    if (!a->options.unattended && agent_is_interrupted(a) &&
        read(a->cancel, &count, sizeof count) < 0) {
        /* It is not readable any more, which is all that matters. */
    }
    a->turn = (struct turn){.number = history_turns(a->history) + 1};
    r = turn_close_calls(a, err);
    if (r < 0)
        return r;
    /* The history has the system prompt once: again only if it is another than before. */
    _cleanup_json_ json_t *recorded = history_last(a->history, "system");
    if (strcmp(json_get_string_or(recorded, "text", ""), a->system) != 0)
        r = agent_append(a, message_of_hutch("system", "{s:s}", "text", a->system), err);
    if (r < 0)
        return r;
    agent_learn_folder(a);
    const char *notes = buf_cstr(&a->prompt_notes);
    json_t *content = json_array();
    if (notes && *notes)
        json_array_append_new(content, text_block(notes));
    json_array_append_new(content, text_block(words));
    r = agent_append(a,
                     json_pack("{s:s, s:I, s:o}", "role", "user", "turn",
                               (json_int_t)a->turn.number, "content", content),
                     err);
    if (r < 0)
        return r;
    a->prompt_notes.len = 0;
    return TURN_ON;
}

/* Events of the model become the agent's. */
static void turn_relay(void *data, const struct model_event *e)
{
    static const enum agent_event_kind kinds[] = {[MODEL_TEXT] = AGENT_TEXT,
                                                  [MODEL_THINKING] = AGENT_THINKING,
                                                  [MODEL_CALL] = AGENT_WRITING,
                                                  [MODEL_WAIT] = AGENT_WAIT,
                                                  [MODEL_BACK] = AGENT_BACK};
    agent_emit(data, &(struct agent_event){.kind = kinds[e->kind],
                                           .text = e->text,
                                           .n = e->n,
                                           .wait_ms = e->wait_ms,
                                           .attempt = e->attempt,
                                           .attempts = e->attempts,
                                           .keep = e->keep,
                                           .keep_thinking = e->keep_thinking});
}

static int turn_ask_once(struct agent *a, struct model_reply *ret, struct error *err)
{
    _cleanup_buf_ struct buf status = BUF_INIT(STATUS_MAX);
    json_t *messages = NULL;
    struct model_usage summaries = {0};
    agent_status_prompt(a, &status);
    int r = context_build(a->context, a->model, status.len ? buf_cstr(&status) : NULL, a->cancel,
                          &a->sink, &messages, err);
    context_spent(a->context, &summaries);
    if (summaries.known)
        agent_account(a, &summaries);
    if (r < 0)
        return r;
    /* What the model can answer with, within what is left of the limit. */
    uint64_t most = a->options.max_tokens, used = a->turn.tokens;
    uint64_t left = most > used ? most - used : 0;
    struct model_request q = {.system = a->system,
                              .tools = tool_schemas_list(a->schemas),
                              .messages = messages,
                              .max_tokens =
                                  most && left < a->facts.max_output ? left : a->facts.max_output,
                              .cancel = a->cancel};
    agent_watch_folder(a);
    r = model_ask(a->model, &q, &(struct model_sink){.event = turn_relay, .data = a}, ret, err);
    json_decref(messages);
    return r;
}

static int turn_ask(struct agent *a, struct model_reply *ret, struct error *err)
{
    struct error refusal = {0}, why = {0};
    int r;
    for (int tries = 0;; tries++) { /* with less of the conversation where it was too long */
        r = turn_ask_once(a, ret, &why);
        /* When nothing more can be left out, the provider's own message is the error. */
        if (err && r < 0)
            *err = r == -E2BIG && refusal.code ? refusal : why;
        if (r != -EMSGSIZE || tries == SHRINKS_MAX)
            break;
        refusal = why;
        agent_note(a, "the conversation is too long for the model; shortening it");
        context_shrink(a->context);
    }
    if (r == -ECANCELED) { /* keep what had come of the answer */
        a->turn.interrupted = true;
        agent_account(a, &ret->usage);
        prompt_note_printf(a, "The person interrupted you there.");
        r = json_array_size(ret->content) ? agent_record_answer(a, ret, "interrupted", -1, err) : 0;
        return r < 0 ? r : TURN_OVER;
    }
    if ((r == -EMSGSIZE || r == -E2BIG) && a->turn.stop == MODEL_WINDOW_EXCEEDED) {
        turn_set_end(&a->turn, "%.200s", err ? err->text : "the model's window is full");
        return TURN_OVER;
    }
    if (r < 0)
        return r;
    a->turn.answers++;
    a->turn.stop = ret->stop;
    context_learn(a->context, &ret->usage);
    agent_emit(a, &(struct agent_event){.kind = AGENT_SAID});
    agent_account(a, &ret->usage);
    if (json_array_size(ret->content) == 0)
        return TURN_ON;
    double cost = ret->usage.known ? model_price_of(&a->facts.price, &ret->usage) : -1;
    r = agent_record_answer(a, ret, model_stop_name(ret->stop), cost, err);
    return r < 0 ? r : TURN_ON;
}

int turn_snapshot(struct agent *a, struct error *err)
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

/* Runs the calls of an answer. One without calls that was cut at its maximum length, or at the end
 * of the model's window, continues in another. */
static int turn_act(struct agent *a, const struct model_reply *reply, struct error *err)
{
    struct turn *t = &a->turn;
    json_t *results = NULL;
    int failed = calls_run(a, reply, &results, err);
    if (failed < 0 || results) {
        t->pauses = t->cuts = 0;
        int r = results ? agent_append(a, message_of_results(results), err) : 0;
        return failed < 0 ? failed : r < 0 ? r : TURN_ON;
    }
    bool cut = reply->stop == MODEL_MAX_TOKENS || reply->stop == MODEL_WINDOW_EXCEEDED;
    if (reply->stop == MODEL_PAUSE_TURN && ++t->pauses <= PAUSES_MAX)
        return TURN_ON;
    if (cut && ++t->cuts <= CUTS_MAX) {
        if (reply->stop == MODEL_WINDOW_EXCEEDED)
            context_shrink(a->context);
        json_t *request = text_block("[Your answer was cut off at its maximum length. Continue "
                                     "exactly where it stopped.]");
        int r = agent_append(a, message_of_results(json_pack("[o]", request)), err);
        return r < 0 ? r : TURN_ON;
    }
    if (cut)
        turn_set_end(t, "the answer was cut off at its maximum length, %u times in a row", t->cuts);
    else if (reply->stop == MODEL_PAUSE_TURN)
        turn_set_end(t, "the model paused %u times in a row", t->pauses);
    else if (reply->stop == MODEL_REFUSAL)
        turn_set_end(t, "the model refused to continue");
    return TURN_OVER;
}

bool turn_over_limit(const struct agent_options *o, const struct turn *t, char *why, size_t size)
{
    if (o->max_turns && t->answers >= o->max_turns)
        snprintf(why, size, "reached the limit of %u answers (--max-turns)", o->max_turns);
    else if (o->max_tokens && t->tokens >= o->max_tokens)
        snprintf(why, size, "reached the limit of %" PRIu64 " tokens (--max-tokens)",
                 o->max_tokens);
    else if (o->max_cost > 0 && t->cost >= o->max_cost)
        snprintf(why, size, "reached the limit of $%.2f (--max-cost)", o->max_cost);
    else
        return false;
    return true;
}

static int turn_finish(struct agent *a, int r, struct error *err)
{
    struct turn *t = &a->turn;
    if (!a->tools)
        return r;
    if (t->interrupted && !t->why[0])
        turn_set_end(t, "interrupted");
    _cleanup_json_ json_t *plan = tool_session_plan(a->tools);
    _cleanup_json_ json_t *last = history_last(a->history, "plan");
    int saved = 0;
    if (last ? !json_equal(json_object_get(last, "items"), plan) : json_array_size(plan) > 0)
        saved =
            agent_append(a, message_of_hutch("plan", "{s:O}", "items", plan), r < 0 ? NULL : err);
    if (t->changed || a->n_running) {
        struct error why = {0};
        struct agent_changes changes = {0};
        int looked = agent_changes(a, &changes, &why);
        if (looked == 0)
            looked = agent_save(a, &why);
        if (looked < 0)
            agent_note(a, "%s", why.text);
        if (agent_changes_any(&changes))
            agent_emit(a, &(struct agent_event){.kind = AGENT_CHANGES, .changes = &changes});
        agent_changes_free(&changes);
    }
    if (r < 0)
        return r;
    if (saved == 0)
        saved = history_sync(a->history, err);
    agent_emit(a, &(struct agent_event){
                      .kind = AGENT_DONE, .stop = t->stop, .why = t->why[0] ? t->why : NULL});
    return saved;
}

int agent_turn(struct agent *a, const char *words, struct error *err)
{
    int r = turn_begin(a, words, err);
    while (r == TURN_ON) {
        _cleanup_reply_ struct model_reply reply = {0};
        r = turn_ask(a, &reply, err);
        if (r == TURN_ON)
            r = turn_act(a, &reply, err);
        if (r == TURN_ON &&
            (agent_is_interrupted(a) ||
             turn_over_limit(&a->options, &a->turn, a->turn.why, sizeof a->turn.why)))
            r = TURN_OVER;
    }
    return turn_finish(a, r, err);
}
