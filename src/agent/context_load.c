/*
 * The items of the view, from the history: those that came since the last time, or, at first and
 * after an undo, as many from the end as there is room for. What lies further back is not even
 * parsed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context_private.h"
#include "banned.h"

#define LOAD_BYTES_MAX (64u << 20) /* of the history, that are parsed to fill one view */

static int make_room(struct context *c)
{
    if (c->count < c->room)
        return 0;
    size_t room = c->room ? 2 * c->room : 64;
    struct item *items = realloc(c->items, room * sizeof *items);
    if (!items)
        return -ENOMEM;
    c->items = items;
    c->room = room;
    return 0;
}

/* Appends message i as an item, if it has something to show. */
static int add(struct context *c, size_t i, struct error *err)
{
    const struct history_entry *e = history_entry(c->h, i);
    struct form f;
    json_t *message = NULL;
    int r = make_room(c);
    if (r < 0)
        return error_set(err, -r, "no memory");
    r = history_read(c->h, i, &message, err);
    if (r < 0)
        return r;
    form_of(c, i, &f);
    json_t *shown = form_message(message, &f);
    json_decref(message);
    if (!shown)
        return error_set(err, ENOMEM, "no memory");
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

static void reverse(struct item *items, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        struct item kept = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = kept;
    }
}

static bool belongs(const struct context *c, size_t i)
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
        if (!belongs(c, --i))
            continue;
        bytes += history_entry(c->h, i)->length;
        r = add(c, i, err);
        if (c->count > had)
            sum += c->items[had].tokens;
    }
    /* They came last first, and stand behind those that were there. */
    reverse(c->items + before, c->count - before);
    if (before > 0) {
        reverse(c->items, before);
        reverse(c->items + before, c->count - before);
        reverse(c->items, c->count);
    }
    c->from = i;
    return r;
}

static void take_record(struct context *c)
{
    json_t *record = history_last(c->h, "summary");
    const char *text = json_string_value(json_object_get(record, "text"));
    json_int_t until = json_integer_value(json_object_get(record, "until"));
    json_int_t stubs = json_integer_value(json_object_get(record, "stubs"));
    json_int_t thoughts = json_integer_value(json_object_get(record, "thoughts"));
    json_int_t count = (json_int_t)history_count(c->h);
    if (text && until > 0 && until <= count) {
        c->start = (size_t)until;
        c->summary = strdup(text);
    }
    c->stubs = stubs > (json_int_t)c->start && stubs <= count ? (size_t)stubs : c->start;
    c->thoughts =
        thoughts > (json_int_t)c->start && thoughts <= count ? (size_t)thoughts : c->start;
    json_decref(record);
}

static int reload(struct context *c, struct error *err)
{
    context_drop_items(c, 0, c->count);
    for (size_t i = 0; i < c->now_count; i++)
        json_decref(c->nows[i].block);
    c->now_count = 0;
    free(c->summary);
    c->summary = NULL;
    json_decref(c->head);
    c->head = NULL;
    c->head_tokens = 0;
    c->start = c->stubs = c->thoughts = 0;
    c->reported = 0;
    take_record(c);
    c->seen = c->from = history_count(c->h);
    int r = c->summary ? context_make_head(c, err) : 0;
    return r < 0 ? r : context_load_back(c, context_room(c), err);
}

/* Was something that is shown taken back? */
static bool is_stale(const struct context *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (!history_entry(c->h, c->items[i].index)->counts)
            return true;
    return c->count == 0;
}

int context_sync(struct context *c, struct error *err)
{
    int r = 0;
    if (is_stale(c))
        return reload(c, err);
    for (; r == 0 && c->seen < history_count(c->h); c->seen++)
        if (belongs(c, c->seen))
            r = add(c, c->seen, err);
    return r;
}

/* Message i as it is to be shown now; NULL if it cannot be had. */
static json_t *shown_now(struct context *c, size_t i)
{
    struct form f;
    json_t *message = NULL;
    if (history_read(c->h, i, &message, NULL) < 0)
        return NULL;
    form_of(c, i, &f);
    json_t *shown = form_message(message, &f);
    json_decref(message);
    return shown;
}

/* From the history, not from what was shown: a text that was cut twice is another than one that was
 * cut once, and a resumed session would see that. */
void context_reform(struct context *c)
{
    for (size_t i = 0; i < c->count; i++) {
        json_t *shown = shown_now(c, c->items[i].index);
        if (!shown)
            continue;
        json_decref(c->items[i].message);
        c->items[i].message = shown;
        c->items[i].tokens = tokens_of_message(shown);
        if (json_array_size(json_object_get(shown, "content")) == 0)
            context_drop_items(c, i--, 1);
    }
}
