/* The context as its user sees it; context_private.h says what it is made of. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context_private.h"
#include "banned.h"

#define HIGH_PERCENT 85 /* the view is pruned when it takes so much of the room */
#define ROOM_MIN     1024

int context_new(struct history *h, const struct context_options *o, struct context **ret,
                struct error *err)
{
    struct context *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, ENOMEM, "no memory");
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
    for (size_t i = 0; i < c->now_count; i++)
        json_decref(c->nows[i].block);
    free(c->nows);
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
    for (size_t i = 0; i < c->now_count; i++)
        sum += c->nows[i].tokens;
    return sum;
}

/* What came since the provider's last word is estimated, all before it is known. */
uint64_t context_expected(const struct context *c)
{
    uint64_t estimate = context_estimate(c);
    if (c->reported > 0 && estimate >= c->estimated)
        return c->reported + tokens_corrected(&c->ratio, estimate - c->estimated);
    return tokens_corrected(&c->ratio, estimate);
}

static bool is_shown(const struct context *c, const char *now)
{
    const json_t *last = c->now_count > 0 ? c->nows[c->now_count - 1].block : NULL;
    const char *text = json_string_value(json_object_get(last, "text"));
    return text && strcmp(text, now) == 0;
}

/* Text about the present stays where it was first said, so that what was sent stays as it was; it
 * is said again only when it is another. */
static int take_now(struct context *c, const char *now, struct error *err)
{
    const struct item *last = c->count > 0 ? &c->items[c->count - 1] : NULL;
    if (!now || !now[0] || !last || last->role != HISTORY_USER || is_shown(c, now))
        return 0;
    struct now *nows = realloc(c->nows, (c->now_count + 1) * sizeof *nows);
    if (!nows)
        return error_set(err, ENOMEM, "no memory");
    c->nows = nows;
    if (c->now_count > 0 && nows[c->now_count - 1].index == last->index)
        json_decref(nows[--c->now_count].block); /* asked again about the same */
    json_t *block = json_pack("{s:s, s:s}", "type", "text", "text", now);
    if (!block)
        return error_set(err, EINVAL, "the text about the present is no UTF-8");
    nows[c->now_count++] =
        (struct now){.index = last->index, .block = block, .tokens = tokens_of_block(block)};
    return 0;
}

static bool is_full(const struct context *c)
{
    return c->from > c->start ||
           context_expected(c) > (c->window - c->reserve) * HIGH_PERCENT / 100;
}

int context_build(struct context *c, struct model *m, const char *now, int cancel,
                  const struct agent_sink *sink, json_t **ret_messages, struct error *err)
{
    struct asking a = {.m = m, .cancel = cancel, .sink = sink};
    int r = context_sync(c, err);
    if (r == 0)
        r = take_now(c, now, err);
    if (r == 0 && is_full(c))
        r = context_prune(c, &a, false, err);
    if (r == 0)
        r = take_now(c, now, err); /* it may have been pruned away */
    if (r == 0)
        r = context_squeeze(c, err);
    if (r < 0)
        return r;
    json_t *messages = context_emit(c);
    if (!messages)
        return error_set(err, ENOMEM, "no memory");
    c->built = context_estimate(c);
    *ret_messages = messages;
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

int context_compact(struct context *c, struct model *m, int cancel, const struct agent_sink *sink,
                    struct error *err)
{
    struct asking a = {.m = m, .cancel = cancel, .sink = sink};
    int r = context_sync(c, err);
    return r < 0 ? r : context_prune(c, &a, true, err);
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
