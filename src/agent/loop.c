/*
 * The loop: while the model asks for tools, run them, answer.
 *
 * An answer is in the history before its calls run, and the results are as soon as all are there.
 * So whatever ends hutch in between, the next start finds which calls were under way. The disk has
 * it a few milliseconds later (history_defer), at the latest when the turn ends, and before a call
 * that reaches out of the box.
 */
#include "agent_private.h"
#include "banned.h"

#define PAUSES_MAX 16
#define CUTS_MAX   3

/* An answer that ran into the end of what it may have, or of the model's window, goes on in
 * another. */
static int ask_for_rest(struct agent *a, const struct model_reply *reply, struct error *err)
{
    json_t *ask = json_pack(
        "[o]", text_block("[Your answer was cut off at its maximum length. Go on exactly where "
                          "it stopped.]"));
    if (reply->stop == MODEL_WINDOW_EXCEEDED)
        context_shrink(a->context);
    int r = agent_append(a, message_of_results(ask), err);
    return r < 0 ? r : TURN_ON;
}

/* What follows from an answer without calls. */
static int go_on(struct agent *a, const struct model_reply *reply, struct error *err)
{
    struct turn *t = &a->turn;
    bool cut = reply->stop == MODEL_MAX_TOKENS || reply->stop == MODEL_WINDOW_EXCEEDED;
    if (reply->stop == MODEL_PAUSE_TURN && ++t->pauses <= PAUSES_MAX)
        return TURN_ON;
    if (cut && ++t->cuts <= CUTS_MAX)
        return ask_for_rest(a, reply, err);
    if (cut)
        turn_end(t, "the answer was cut off at its maximum length, %u times in a row", t->cuts);
    else if (reply->stop == MODEL_PAUSE_TURN)
        turn_end(t, "the model paused %u times in a row", t->pauses);
    else if (reply->stop == MODEL_REFUSAL)
        turn_end(t, "the model refused to go on");
    return TURN_OVER;
}

static int act(struct agent *a, const struct model_reply *reply, struct error *err)
{
    json_t *results = NULL;
    if (!has_calls(reply->content))
        return go_on(a, reply, err);
    a->turn.pauses = a->turn.cuts = 0;
    int failed = calls_run(a, reply, &results, err);
    int r = results ? agent_append(a, message_of_results(results), err) : 0;
    return failed < 0 ? failed : r < 0 ? r : TURN_ON;
}

int agent_turn(struct agent *a, const char *words, struct error *err)
{
    int r = turn_begin(a, words, err);
    while (r == TURN_ON) {
        _cleanup_reply_ struct model_reply reply = {0};
        r = turn_ask(a, &reply, err);
        if (r == TURN_ON)
            r = act(a, &reply, err);
        if (r == TURN_ON &&
            (agent_is_interrupted(a) ||
             turn_over_limit(&a->options, &a->turn, a->turn.why, sizeof a->turn.why)))
            r = TURN_OVER;
    }
    return turn_finish(a, r, err);
}
