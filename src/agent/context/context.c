/*
 * The view over a history: making it, keeping it up to date with the history, what it weighs, and
 * pruning it. context.h says what it is made of.
 *
 * Items come from the history: those that are new since the last time, or, at first and after an
 * undo, as many from the end as there is room for. What lies further back is not even parsed.
 *
 * Pruning is seldom and by much, since each time the provider's cache is lost. When the view comes
 * near the window, it is brought down to half of it:
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

#include "context.h"
#include "conversation.h"
#include "banned.h"

#define HIGH_PERCENT   85 /* the view is pruned when it takes so much of the room */
#define ROOM_MIN       1024
#define LOAD_BYTES_MAX (64u << 20) /* of the history, that are parsed to fill one view */
#define SQUEEZE_MAX    12

int context_new(struct history *h, const struct context_options *o, struct context **ret,
                struct error *err)
{
    struct context *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, ENOMEM, "out of memory");
    *c = (struct context){.h = h,
                          .window = o->window,
                          .reserve = o->reserve < o->window / 2 ? o->reserve : o->window / 2,
                          .fixed = (o->system ? tokens_of_text(o->system, strlen(o->system)) : 0) +
                                   (o->tools ? tokens_of_json(o->tools) : 0),
                          .summary_prompt = o->summary_prompt ? strdup(o->summary_prompt) : NULL,
                          .ask = model_ask,
                          .ratio = TOKENS_RATIO_INIT};
    c->span = c->window - c->reserve;
    *ret = c;
    return 0;
}

static void items_drop(struct context *c, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        json_decref(c->items[i].message);
    if (n > 0)
        memmove(c->items + first, c->items + first + n, (c->count - first - n) * sizeof *c->items);
    c->count -= n;
}

static void context_reset(struct context *c)
{
    items_drop(c, 0, c->count);
    for (size_t i = 0; i < c->n_status; i++)
        json_decref(c->status[i].block);
    free(c->summary);
    json_decref(c->head);
    c->summary = NULL;
    c->head = NULL;
    c->head_tokens = c->reported = 0;
    c->n_status = c->start = 0;
}

struct context *context_free(struct context *c)
{
    if (!c)
        return NULL;
    context_reset(c);
    free(c->status);
    free(c->items);
    free(c->summary_prompt);
    free(c);
    return NULL;
}

uint64_t context_room(const struct context *c)
{
    uint64_t room = (uint64_t)((double)(c->window - c->reserve) / c->ratio.value);
    return room > ROOM_MIN ? room : ROOM_MIN;
}

static uint64_t context_estimate(const struct context *c)
{
    uint64_t sum = c->fixed + c->head_tokens;
    for (size_t i = 0; i < c->count; i++)
        sum += c->items[i].tokens;
    for (size_t i = 0; i < c->n_status; i++)
        sum += c->status[i].tokens;
    return sum;
}

/* Known up to the provider's last report; what came since is estimated. */
uint64_t context_expected(const struct context *c)
{
    uint64_t estimate = context_estimate(c);
    if (c->reported > 0 && estimate >= c->estimated)
        return c->reported + tokens_corrected(&c->ratio, estimate - c->estimated);
    return tokens_corrected(&c->ratio, estimate);
}

void context_learn(struct context *c, const struct model_usage *usage)
{
    if (!usage->known || usage->input == 0 || c->built == 0)
        return;
    tokens_learn(&c->ratio, c->built, usage->input);
    c->reported = usage->input;
    c->estimated = c->built;
}

void context_shrink(struct context *c)
{
    uint64_t sent = tokens_corrected(&c->ratio, c->built), room = c->window - c->reserve;
    uint64_t less = (sent < room ? sent : room) * 3 / 4;
    c->reported = 0;
    c->window = (less > ROOM_MIN ? less : ROOM_MIN) + c->reserve;
}

uint64_t context_tokens(const struct context *c)
{
    if (c->reported > 0 && c->estimated == c->built)
        return c->reported;
    return tokens_corrected(&c->ratio, c->built);
}

void context_spent(struct context *c, struct model_usage *ret)
{
    *ret = c->spent;
    c->spent = (struct model_usage){0};
}

/* Appends message i as an item, if it counts and has something to show. */
static int items_add(struct context *c, size_t i, struct error *err)
{
    const struct history_entry *e = history_entry(c->h, i);
    json_t *shown = NULL;
    if (!e->counts || e->role == HISTORY_HUTCH)
        return 0;
    if (!ARRAY_GROW(c->items, c->count, c->room))
        return error_set(err, ENOMEM, "out of memory");
    int r = form_show(c, i, &shown, err);
    if (r < 0)
        return r;
    if (json_array_size(json_object_get(shown, "content")) == 0) {
        json_decref(shown);
        return 0;
    }
    c->items[c->count++] = (struct item){.index = i,
                                         .role = e->role,
                                         .begins_turn = e->begins_turn,
                                         .message = shown,
                                         .tokens = tokens_of_message(shown)};
    return 0;
}

static int item_compare(const void *a, const void *b)
{
    size_t x = ((const struct item *)a)->index, y = ((const struct item *)b)->index;
    return x < y ? -1 : x > y;
}

/* Loads in front of the items until their sum is `enough`, or all is there. */
static int context_load_back(struct context *c, uint64_t enough, struct error *err)
{
    uint64_t sum = context_estimate(c), bytes = 0;
    int r = 0;
    while (r == 0 && c->from > c->start && sum < enough && bytes < LOAD_BYTES_MAX) {
        size_t had = c->count;
        r = items_add(c, --c->from, err);
        if (c->count > had) {
            sum += c->items[had].tokens;
            bytes += history_entry(c->h, c->from)->length;
        }
    }
    if (c->count > 0) /* they came last first, behind those that were there */
        qsort(c->items, c->count, sizeof *c->items, item_compare);
    return r;
}

/* Brings the items up to date with the history. At first, and when something that is shown was
 * undone, from the newest record of a pruning that counts. */
static int context_sync(struct context *c, struct error *err)
{
    int r = 0;
    bool stale = c->count == 0;
    for (size_t i = 0; !stale && i < c->count; i++)
        stale = !history_entry(c->h, c->items[i].index)->counts;
    if (!stale) {
        for (; r == 0 && c->seen < history_count(c->h); c->seen++)
            r = items_add(c, c->seen, err);
        return r;
    }
    context_reset(c);
    _cleanup_json_ json_t *record = history_last(c->h, "summary");
    const char *text = json_get_string(record, "text");
    json_int_t until = json_get_integer(record, "until"), count = (json_int_t)history_count(c->h);
    if (text && until > 0 && until <= count) {
        c->start = (size_t)until;
        c->summary = strdup(text);
    }
    json_int_t start = (json_int_t)c->start, stubs = json_get_integer(record, "stubs");
    json_int_t thoughts = json_get_integer(record, "thoughts");
    c->stubs = (size_t)(stubs > start && stubs <= count ? stubs : start);
    c->thoughts = (size_t)(thoughts > start && thoughts <= count ? thoughts : start);
    c->seen = c->from = (size_t)count;
    r = c->summary ? context_make_head(c, err) : 0;
    return r < 0 ? r : context_load_back(c, context_room(c), err);
}

/* Status text stays where it first stood, so that what was sent does not change (the provider
 * caches it); it is added again only when it differs. */
static int context_add_status(struct context *c, const char *status, struct error *err)
{
    const struct item *last = c->count > 0 ? &c->items[c->count - 1] : NULL;
    const json_t *shown = c->n_status > 0 ? c->status[c->n_status - 1].block : NULL;
    const char *text = json_get_string(shown, "text");
    if (!status || !status[0] || !last || last->role != HISTORY_USER ||
        (text && strcmp(text, status) == 0))
        return 0;
    if (!list_grow(&c->status, c->n_status, sizeof *c->status))
        return error_set(err, ENOMEM, "out of memory");
    if (c->n_status > 0 && c->status[c->n_status - 1].index == last->index)
        json_decref(c->status[--c->n_status].block); /* asked again about the same */
    json_t *block = text_block(status);
    if (!block)
        return error_set(err, EINVAL, "the status text is not valid UTF-8");
    c->status[c->n_status++] = (struct status_note){
        .index = last->index, .block = block, .tokens = tokens_of_block(block)};
    return 0;
}

/* Shows all items again, after `stubs` or `squeeze` changed. From the history, not from what was
 * shown: a text that was cut twice is another than one that was cut once, and a resumed session
 * would see that. */
static void context_reform(struct context *c)
{
    for (size_t i = 0; i < c->count; i++) {
        json_t *shown = NULL;
        if (form_show(c, c->items[i].index, &shown, NULL) < 0)
            continue;
        json_decref(c->items[i].message);
        c->items[i].message = shown;
        c->items[i].tokens = tokens_of_message(shown);
        if (json_array_size(json_object_get(shown, "content")) == 0)
            items_drop(c, i--, 1);
    }
}

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
static size_t prune_find_cut(const struct context *c, uint64_t budget)
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
    size_t until = cut < c->count ? c->items[cut].index : c->seen, kept = 0;
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
    items_drop(c, 0, cut);
    for (size_t i = 0; i < c->n_status; i++)
        if (c->status[i].index >= c->start)
            c->status[kept++] = c->status[i];
        else
            json_decref(c->status[i].block);
    c->n_status = kept;
    return context_make_head(c, err);
}

/* `all`: the person asks for it. */
static int context_prune(struct context *c, const struct asking *a, bool all, struct error *err)
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
        size_t cut = prune_find_cut(c, target > kept ? target - kept : 0);
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

/* Halves the longest text that may be shown until the view fits. */
static int context_squeeze(struct context *c, struct error *err)
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

int context_build(struct context *c, struct model *m, const char *status, int cancel,
                  const struct agent_sink *sink, json_t **ret_messages, struct error *err)
{
    struct asking a = {.m = m, .cancel = cancel, .sink = sink};
    int r = context_sync(c, err);
    if (r == 0)
        r = context_add_status(c, status, err);
    if (r == 0 &&
        (c->from > c->start || context_expected(c) > (c->window - c->reserve) * HIGH_PERCENT / 100))
        r = context_prune(c, &a, false, err);
    if (r == 0)
        r = context_add_status(c, status, err); /* it may have been pruned away */
    if (r == 0)
        r = context_squeeze(c, err);
    if (r < 0)
        return r;
    json_t *messages = context_emit(c);
    if (!messages)
        return error_set(err, ENOMEM, "out of memory");
    c->built = context_estimate(c);
    *ret_messages = messages;
    return 0;
}

int context_compact(struct context *c, struct model *m, int cancel, const struct agent_sink *sink,
                    struct error *err)
{
    struct asking a = {.m = m, .cancel = cancel, .sink = sink};
    int r = context_sync(c, err);
    return r < 0 ? r : context_prune(c, &a, true, err);
}
