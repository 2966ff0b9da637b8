/*
 * The view over a history: making it, keeping it up to date with the history, and what it weighs.
 * view.h says what it is made of.
 *
 * Items come from the history: those that are new since the last time, or, at first and after an
 * undo, as many from the end as there is room for. What lies further back is not even parsed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conversation.h"
#include "view.h"
#include "banned.h"

#define HIGH_PERCENT   85 /* the view is pruned when it takes so much of the room */
#define ROOM_MIN       1024
#define LOAD_BYTES_MAX (64u << 20) /* of the history, that are parsed to fill one view */

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

struct context *context_free(struct context *c)
{
    if (!c)
        return NULL;
    context_drop_items(c, 0, c->count);
    for (size_t i = 0; i < c->n_status; i++)
        json_decref(c->status[i].block);
    free(c->status);
    free(c->items);
    free(c->summary);
    free(c->summary_prompt);
    json_decref(c->head);
    free(c);
    return NULL;
}

uint64_t context_room(const struct context *c)
{
    uint64_t room = (uint64_t)((double)(c->window - c->reserve) / c->ratio.value);
    return room > ROOM_MIN ? room : ROOM_MIN;
}

uint64_t context_estimate(const struct context *c)
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

/* Status text stays where it first stood, so that what was sent does not change (the provider
 * caches it); it is added again only when it differs. */
static int context_take_status(struct context *c, const char *status, struct error *err)
{
    const struct item *last = c->count > 0 ? &c->items[c->count - 1] : NULL;
    const json_t *shown = c->n_status > 0 ? c->status[c->n_status - 1].block : NULL;
    const char *text = json_get_string(shown, "text");
    if (!status || !status[0] || !last || last->role != HISTORY_USER ||
        (text && strcmp(text, status) == 0))
        return 0;
    struct status_note *notes = realloc(c->status, (c->n_status + 1) * sizeof *notes);
    if (!notes)
        return error_set(err, ENOMEM, "out of memory");
    c->status = notes;
    if (c->n_status > 0 && notes[c->n_status - 1].index == last->index)
        json_decref(notes[--c->n_status].block); /* asked again about the same */
    json_t *block = text_block(status);
    if (!block)
        return error_set(err, EINVAL, "the status text is not valid UTF-8");
    notes[c->n_status++] = (struct status_note){
        .index = last->index, .block = block, .tokens = tokens_of_block(block)};
    return 0;
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

/* Appends message i as an item, if it has something to show. */
static int items_add(struct context *c, size_t i, struct error *err)
{
    const struct history_entry *e = history_entry(c->h, i);
    json_t *shown = NULL;
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        struct item *items = realloc(c->items, room * sizeof *items);
        if (!items)
            return error_set(err, ENOMEM, "out of memory");
        c->items = items;
        c->room = room;
    }
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

void context_drop_items(struct context *c, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        json_decref(c->items[i].message);
    if (n > 0)
        memmove(c->items + first, c->items + first + n, (c->count - first - n) * sizeof *c->items);
    c->count -= n;
}

static void items_reverse(struct item *items, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        struct item kept = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = kept;
    }
}

static bool context_wants(const struct context *c, size_t i)
{
    const struct history_entry *e = history_entry(c->h, i);
    return e->counts && e->role != HISTORY_HUTCH;
}

/* Loads in front of the items until their sum is `enough`, or all is there. */
int context_load_back(struct context *c, uint64_t enough, struct error *err)
{
    size_t before = c->count, i = c->from;
    uint64_t sum = context_estimate(c), bytes = 0;
    int r = 0;
    while (r == 0 && i > c->start && sum < enough && bytes < LOAD_BYTES_MAX) {
        size_t had = c->count;
        if (!context_wants(c, --i))
            continue;
        bytes += history_entry(c->h, i)->length;
        r = items_add(c, i, err);
        if (c->count > had)
            sum += c->items[had].tokens;
    }
    /* They came last first, and stand behind those that were there. */
    items_reverse(c->items + before, c->count - before);
    if (before > 0) {
        items_reverse(c->items, before);
        items_reverse(c->items + before, c->count - before);
        items_reverse(c->items, c->count);
    }
    c->from = i;
    return r;
}

/* Starts from the newest record of a pruning that counts. */
static int context_reload(struct context *c, struct error *err)
{
    context_drop_items(c, 0, c->count);
    for (size_t i = 0; i < c->n_status; i++)
        json_decref(c->status[i].block);
    free(c->summary);
    json_decref(c->head);
    c->summary = NULL;
    c->head = NULL;
    c->head_tokens = c->reported = 0;
    c->n_status = c->start = 0;
    json_t *record = history_last(c->h, "summary");
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
    json_decref(record);
    c->seen = c->from = (size_t)count;
    int r = c->summary ? context_make_head(c, err) : 0;
    return r < 0 ? r : context_load_back(c, context_room(c), err);
}

/* Brings the items up to date with the history. */
static int context_sync(struct context *c, struct error *err)
{
    int r = 0;
    bool stale = c->count == 0; /* or something that is shown was undone */
    for (size_t i = 0; !stale && i < c->count; i++)
        stale = !history_entry(c->h, c->items[i].index)->counts;
    if (stale)
        return context_reload(c, err);
    for (; r == 0 && c->seen < history_count(c->h); c->seen++)
        if (context_wants(c, c->seen))
            r = items_add(c, c->seen, err);
    return r;
}

/* From the history, not from what was shown: a text that was cut twice is another than one that was
 * cut once, and a resumed session would see that. */
void context_reform(struct context *c)
{
    for (size_t i = 0; i < c->count; i++) {
        json_t *shown = NULL;
        if (form_show(c, c->items[i].index, &shown, NULL) < 0)
            continue;
        json_decref(c->items[i].message);
        c->items[i].message = shown;
        c->items[i].tokens = tokens_of_message(shown);
        if (json_array_size(json_object_get(shown, "content")) == 0)
            context_drop_items(c, i--, 1);
    }
}

int context_build(struct context *c, struct model *m, const char *status, int cancel,
                  const struct agent_sink *sink, json_t **ret_messages, struct error *err)
{
    struct asking a = {.m = m, .cancel = cancel, .sink = sink};
    int r = context_sync(c, err);
    if (r == 0)
        r = context_take_status(c, status, err);
    if (r == 0 &&
        (c->from > c->start || context_expected(c) > (c->window - c->reserve) * HIGH_PERCENT / 100))
        r = context_prune(c, &a, false, err);
    if (r == 0)
        r = context_take_status(c, status, err); /* it may have been pruned away */
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
