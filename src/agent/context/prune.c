/*
 * Pruning: making the view smaller, seldom and by much, since each time the provider's cache is
 * lost. When the view comes near the window, it is brought down to half of it:
 *
 *   1. tool output outside of the recent quarter becomes stubs, and thinking there is left out;
 *   2. if that is not enough, everything before a cut is summarised. The cut is where a turn begins
 *      if one does in a good place, else before an answer of the model;
 *   3. if what is left is one giant, the longest text that may be shown is halved until it fits.
 *
 * The history records each pruning, so that a resumed session has the same view.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conversation.h"
#include "view.h"
#include "banned.h"

#define SQUEEZE_MAX 12

/* Tool output before the recent quarter becomes stubs. Thinking there is left out, but not of the
 * current turn: providers require it. */
static void prune_make_stubs(struct context *c)
{
    size_t first = c->count, turn = c->count;
    uint64_t sum = 0, budget = context_room(c) / 4;
    while (first > 0 && (c->count - first < 2 || sum + c->items[first - 1].tokens <= budget))
        sum += c->items[--first].tokens;
    size_t index = first < c->count ? c->items[first].index : c->seen;
    if (index <= c->stubs)
        return;
    while (turn > 0 && !c->items[--turn].begins_turn)
        ;
    size_t begin = c->count > 0 ? c->items[turn].index : c->seen;
    size_t thoughts = begin < index ? begin : index;
    c->stubs = index;
    if (thoughts > c->thoughts)
        c->thoughts = thoughts;
    context_reform(c);
}

/* Where the tail begins that is kept: the earliest cut that fits the budget, a turn's beginning
 * before others if that keeps at least half as much; the last possible one if none fits. */
static size_t prune_choose_cut(const struct context *c, uint64_t budget)
{
    size_t cut = c->count, turn = c->count, last = c->count, k;
    json_t *block;
    uint64_t sum = 0, turn_sum = 0;
    for (size_t i = c->count; i-- > 0;) {
        sum += c->items[i].tokens;
        bool answers = false; /* no result is parted from its call */
        json_array_foreach(json_object_get(c->items[i].message, "content"), k, block) answers |=
            c->items[i].role != HISTORY_ASSISTANT && block_is(block, "tool_result");
        if (answers)
            continue;
        if (last == c->count)
            last = i;
        if (sum > budget)
            break;
        cut = i;
        if (c->items[i].begins_turn) {
            turn = i;
            turn_sum = sum;
        }
    }
    if (cut == c->count)
        return last;
    return turn < c->count && turn_sum >= budget / 2 ? turn : cut;
}

static int prune_summarise(struct context *c, size_t cut, const struct asking *a, struct error *err)
{
    char *text = NULL;
    size_t until = cut < c->count ? c->items[cut].index : c->seen;
    int r = context_summarise(c, until, a, &text, err);
    if (r < 0)
        return r;
    free(c->summary);
    c->summary = text;
    c->start = c->from = until;
    if (c->stubs < until)
        c->stubs = until;
    if (c->thoughts < until)
        c->thoughts = until;
    context_drop_items(c, 0, cut);
    size_t kept = 0;
    for (size_t i = 0; i < c->n_status; i++)
        if (c->status[i].index >= c->start)
            c->status[kept++] = c->status[i];
        else
            json_decref(c->status[i].block);
    c->n_status = kept;
    return context_make_head(c, err);
}

int context_prune(struct context *c, const struct asking *a, bool all, struct error *err)
{
    uint64_t before = context_expected(c);
    size_t start = c->start, stubs = c->stubs;
    /* The estimate shrinks from here on: it must not say less than the provider did. */
    double said = c->reported > 0 ? (double)c->reported / (double)c->estimated : 0;
    if (said > c->ratio.value)
        c->ratio.value = said < TOKENS_RATIO_MAX ? said : TOKENS_RATIO_MAX;
    c->reported = 0;
    /* Down to half of the room, or of what is there when a person asks for it. */
    uint64_t half = context_room(c) / 2, quarter = context_estimate(c) / 4;
    uint64_t target = all && quarter < half ? quarter : half;
    prune_make_stubs(c);
    int r = context_load_back(c, target, err);
    if (r == 0 && (all || c->from > c->start || context_estimate(c) > target)) {
        uint64_t kept = c->fixed + context_summary_budget(c) + context_room(c) / 10;
        size_t cut = prune_choose_cut(c, target > kept ? target - kept : 0);
        if (cut > 0 || c->from > c->start) /* there is something before it */
            r = prune_summarise(c, cut, a, err);
    }
    if (r < 0 || (c->start == start && c->stubs == stubs))
        return r;
    char text[200];
    snprintf(text, sizeof text, "%s to make room (%lluk to %lluk tokens)%s",
             c->start > start ? "summarized older messages" : "shortened older tool output",
             (unsigned long long)(before / 1000), (unsigned long long)(context_expected(c) / 1000),
             c->start > start ? "; the memory tool still finds them" : "");
    struct agent_event e = {.kind = AGENT_NOTE, .text = text, .n = strlen(text)};
    if (a->sink)
        a->sink->event(a->sink->data, &e);
    /* For when the session is resumed. */
    _cleanup_json_ json_t *message =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "role", "hutch", "kind", "summary", "until",
                  (json_int_t)c->start, "stubs", (json_int_t)c->stubs, "thoughts",
                  (json_int_t)c->thoughts, "text", c->summary ? c->summary : "");
    r = message ? history_append(c->h, message, err) : error_set(err, ENOMEM, "out of memory");
    if (r == 0 && c->seen + 1 == history_count(c->h))
        c->seen++;
    return r;
}

int context_squeeze(struct context *c, struct error *err)
{
    while (context_estimate(c) > context_room(c) && c->squeeze < SQUEEZE_MAX) {
        c->squeeze++;
        context_reform(c);
        int r = c->head ? context_make_head(c, err) : 0;
        if (r < 0)
            return r;
    }
    if (context_estimate(c) <= context_room(c))
        return 0;
    return error_set(
        err, E2BIG,
        "the system prompt and the tools (about %llu tokens) leave no room for a conversation in "
        "the model's window of %llu: choose a model with a larger window, or shorten AGENTS.md and "
        "the --system file",
        (unsigned long long)c->fixed, (unsigned long long)c->window);
}
