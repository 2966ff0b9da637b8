#include <string.h>

#include "decoder.h"
#include "shown.h"
#include "banned.h"

#define CALLS_MAX (1u << 20)

void shown_init(struct shown *s, const struct model_sink *sink)
{
    *s = (struct shown){.sink = sink,
                        .text.given = BUF_INIT(DECODER_BYTES_MAX * 2u),
                        .thinking.given = BUF_INIT(DECODER_BYTES_MAX * 2u),
                        .calls.given = BUF_INIT(CALLS_MAX)};
}

void shown_free(struct shown *s)
{
    buf_free(&s->text.given);
    buf_free(&s->thinking.given);
    buf_free(&s->calls.given);
}

void shown_again(struct shown *s)
{
    s->text.at = s->thinking.at = s->calls.at = 0;
}

static bool is_behind(const struct shown_stream *t)
{
    return t->at < t->given.len;
}

bool shown_is_behind(const struct shown *s)
{
    return is_behind(&s->text) || is_behind(&s->thinking);
}

/* From here on nothing of what was shown is left to compare with. */
static void go_back(struct shown *s)
{
    const struct model_event e = {
        .kind = MODEL_BACK, .text = "", .keep = s->text.at, .keep_thinking = s->thinking.at};
    s->text.given.len = s->text.at;
    s->thinking.given.len = s->thinking.at;
    s->calls.given.len = s->calls.at;
    s->sink->event(s->sink->data, &e);
}

void shown_end(struct shown *s)
{
    if (shown_is_behind(s))
        go_back(s);
}

/* How many bytes of the text repeat what was shown, up to the end of a character. */
static size_t common(const struct shown_stream *t, const char *text, size_t n)
{
    const uint8_t *given = t->given.data + t->at;
    size_t most = t->given.len - t->at < n ? t->given.len - t->at : n, same = 0;
    while (same < most && given[same] == (uint8_t)text[same])
        same++;
    /* Both are whole characters: where they part within one, it is the character that differs. */
    while (same < most && same > 0 && (given[same] & 0xc0) == 0x80)
        same--;
    return same;
}

static void take_text(struct shown *s, struct shown_stream *t, const struct model_event *e)
{
    size_t same = is_behind(t) ? common(t, e->text, e->n) : 0;
    t->at += same;
    if (same == e->n)
        return;
    if (is_behind(t))
        go_back(s);
    struct model_event rest = *e;
    rest.text += same;
    rest.n -= same;
    s->failed = s->failed || buf_append(&t->given, rest.text, rest.n) < 0;
    t->at = t->given.len;
    s->sink->event(s->sink->data, &rest);
}

/* The beginning of a call is told once; of what differs from the last attempt, nothing need be
 * taken back. */
static void take_call(struct shown *s, const struct model_event *e)
{
    struct shown_stream *t = &s->calls;
    const char *given = (const char *)t->given.data + t->at;
    if (is_behind(t) && strcmp(given, e->text) == 0) {
        t->at += strlen(given) + 1;
        return;
    }
    t->given.len = t->at;
    s->failed = s->failed || buf_append(&t->given, e->text, strlen(e->text) + 1) < 0;
    t->at = t->given.len;
    s->sink->event(s->sink->data, e);
}

static void take(void *data, const struct model_event *e)
{
    struct shown *s = data;
    if (e->kind == MODEL_TEXT)
        take_text(s, &s->text, e);
    else if (e->kind == MODEL_THINKING)
        take_text(s, &s->thinking, e);
    else if (e->kind == MODEL_CALL)
        take_call(s, e);
    else
        s->sink->event(s->sink->data, e);
}

struct model_sink shown_sink(struct shown *s)
{
    return (struct model_sink){.event = take, .data = s};
}
