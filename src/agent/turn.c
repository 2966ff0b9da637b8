/*
 * One turn: the person's words, then, while the model asks for tools, run them and answer.
 *
 * An answer is in the history before its calls run, and the results are as soon as all are there.
 * So whatever stops hutch in between, the next start finds which calls were running. It is synced
 * to disk when the turn ends, and before a call that reaches out of the box.
 *
 * Every request has the agent's status behind its last message, the plan and what runs in the
 * background of the box, so that the model knows it however much of the conversation was pruned.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "agent_session.h"
#include "prompt.h"
#include "thread.h"
#include "banned.h"

#define SHRINKS_MAX 4
#define STATUS_MAX  (64u << 10)
#define PAUSES_MAX  16
#define CUTS_MAX    3
#define ITEM_MAX    300

/* What a step of a turn returns: it goes on, or it is over; or a negative errno. */
enum { TURN_OVER = 0, TURN_ON = 1 };

static PRINTF(2, 3) void turn_set_end(struct turn *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->why, sizeof t->why, fmt, args);
    va_end(args);
}

bool agent_is_interrupted(struct agent *a)
{
    a->turn.interrupted |= cancel_asked(a->cancel);
    return a->turn.interrupted;
}

int agent_append(struct agent *a, json_t *message, struct error *err)
{
    if (!message)
        return error_set(err, ENOMEM, "out of memory");
    int r = history_append(a->history, message, err);
    json_decref(message);
    return r;
}

json_t *message_of_hutch(const char *kind, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    json_t *message = json_vpack_ex(NULL, 0, fmt, args);
    va_end(args);
    if (message && json_object_set_new(message, "role", json_string("hutch")) == 0 &&
        json_object_set_new(message, "kind", json_string(kind)) == 0)
        return message;
    json_decref(message);
    return NULL;
}

static int turn_begin(struct agent *a, const char *words, struct error *err)
{
    int r = agent_ready(a, err);
    if (r < 0)
        return r;
    /* Unattended, it may have come while the box was made. */
    if (!a->options.unattended)
        agent_forget_interrupt(a);
    a->turn = (struct turn){.number = history_turns(a->history) + 1};
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

/* Adds what an answer used to the turn's and the session's sums. Returns its price; -1: not
 * known. */
static double turn_account(struct agent *a, const struct model_usage *u)
{
    double cost = u->known ? model_price_of(&a->facts.price, u) : -1;
    model_usage_add(&a->usage, u);
    a->turn.tokens += u->output;
    if (cost >= 0) {
        a->turn.cost += cost;
        a->money.cost += cost;
        a->money.known = true;
    }
    agent_emit(a, &(struct agent_event){.kind = AGENT_USAGE,
                                        .usage = *u,
                                        .money = {.known = cost >= 0, .cost = cost >= 0 ? cost : 0},
                                        .session_usage = a->usage,
                                        .session_money = a->money,
                                        .context = context_tokens(a->context),
                                        .window = a->facts.window});
    return cost;
}

/* The plan, and the commands that run in the background. */
static void turn_put_status(struct agent *a, struct buf *text)
{
    size_t k;
    json_t *item;
    _cleanup_json_ json_t *plan = tool_session_plan(a->tools);
    if (json_array_size(plan) > 0)
        buf_append_str(text, "Your plan:\n");
    json_array_foreach(plan, k, item)
    {
        const char *what = json_get_string(item, "text");
        size_t n = strnlen(what, ITEM_MAX);
        buf_printf(text, "- %s: %.*s\n", json_get_string(item, "state"),
                   (int)(what[n] ? n - utf8_cut_end((const uint8_t *)what, n) : n), what);
    }
    for (size_t i = 0; i < a->n_running;) { /* forget those that have ended */
        bool runs = false;
        if (tool_session_is_running(a->tools, a->running[i].handle, &runs) < 0 || !runs)
            agent_forget_background(a, i);
        else
            i++;
    }
    if (a->n_running > 0)
        buf_append_str(
            text,
            "Running in the background (bash with the handle shows new output, or kills it):\n");
    for (size_t i = 0; i < a->n_running; i++)
        buf_printf(text, "- handle %" PRIu64 ": %s\n", a->running[i].handle, a->running[i].command);
}

static int turn_request(struct agent *a, struct model_reply *ret, struct error *err)
{
    _cleanup_buf_ struct buf status = BUF_INIT(STATUS_MAX);
    _cleanup_json_ json_t *messages = NULL;
    struct model_usage summaries = {0};
    turn_put_status(a, &status);
    int r = context_build(a->context, a->model, status.len ? buf_cstr(&status) : NULL, a->cancel,
                          &a->sink, &messages, err);
    context_spent(a->context, &summaries);
    if (summaries.known)
        turn_account(a, &summaries);
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
    return model_ask(a->model, &q, &(struct model_sink){.event = turn_relay, .data = a}, ret, err);
}

static int turn_record_answer(struct agent *a, const struct model_reply *reply, const char *stop,
                              double cost, struct error *err)
{
    const struct model_usage *u = &reply->usage;
    json_t *usage = u->known
                        ? json_pack("{s:I, s:I, s:I, s:I, s:I}", "input", (json_int_t)u->input,
                                    "output", (json_int_t)u->output, "cache_read",
                                    (json_int_t)u->cache_read, "cache_write",
                                    (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking)
                        : NULL;
    json_t *m = json_pack("{s:s, s:O, s:s, s:s, s:o*, s:o*}", "role", "assistant", "content",
                          reply->content, "model", a->model_name, "stop", stop, "usage", usage,
                          "cost", cost >= 0 ? json_real(cost) : NULL);
    return json_array_size(reply->content) ? agent_append(a, m, err) : (json_decref(m), 0);
}

static int turn_ask(struct agent *a, struct model_reply *ret, struct error *err)
{
    struct error refusal = {0}, why = {0};
    int r;
    for (int tries = 0;; tries++) { /* with less of the conversation where it was too long */
        r = turn_request(a, ret, &why);
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
        turn_account(a, &ret->usage);
        prompt_note_printf(a, "The person interrupted you there.");
        r = turn_record_answer(a, ret, "interrupted", -1, err);
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
    double cost = turn_account(a, &ret->usage);
    r = turn_record_answer(a, ret, model_stop_name(ret->stop), cost, err);
    return r < 0 ? r : TURN_ON;
}

int agent_record_box(struct agent *a, struct error *err)
{
    if (a->box_recorded)
        return 0;
    json_t *folder = a->folder_known
                         ? json_pack("[I, I]", (json_int_t)a->folder.dev, (json_int_t)a->folder.ino)
                         : NULL;
    int r = agent_append(
        a, message_of_hutch("box", "{s:s, s:o*}", "box", workbox_id(a->box), "folder", folder),
        err);
    a->box_recorded = r == 0;
    return r;
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
    json_t *blocks = NULL;
    int r = 0, failed = calls_run(a, reply, &blocks, err);
    bool cut = reply->stop == MODEL_MAX_TOKENS || reply->stop == MODEL_WINDOW_EXCEEDED;
    if (failed < 0 || blocks) {
        t->pauses = t->cuts = 0;
    } else if (reply->stop == MODEL_PAUSE_TURN && ++t->pauses <= PAUSES_MAX) {
        return TURN_ON;
    } else if (cut && ++t->cuts <= CUTS_MAX) {
        if (reply->stop == MODEL_WINDOW_EXCEEDED)
            context_shrink(a->context);
        blocks = json_pack("[o]", text_block("[Your answer was cut off at its maximum length. "
                                             "Continue exactly where it stopped.]"));
    } else {
        if (cut)
            turn_set_end(t, "the answer was cut off at its maximum length, %u times in a row",
                         t->cuts);
        else if (reply->stop == MODEL_PAUSE_TURN)
            turn_set_end(t, "the model paused %u times in a row", t->pauses);
        else if (reply->stop == MODEL_REFUSAL)
            turn_set_end(t, "the model refused to continue");
        return TURN_OVER;
    }
    if (blocks)
        r = agent_append(a, json_pack("{s:s, s:o}", "role", "user", "content", blocks), err);
    return failed < 0 ? failed : r < 0 ? r : TURN_ON;
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

/* Saves the plan and the box's changes, and reports how the turn ended. `r` is how it went. */
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
