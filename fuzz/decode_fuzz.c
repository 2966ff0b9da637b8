#include <assert.h>
#include <errno.h>
#include <string.h>

#include "decode_fuzz.h"
#include "encode.h"
#include "decode.h"
#include "provider.h"
#include "text.h"
#include "banned.h"

static const char *const APIS[] = {"anthropic", "chat", "responses"};

struct shown {
    size_t text, thinking, calls;
};

static void show(void *data, const struct model_event *e)
{
    struct shown *s = data;
    assert(e->n > 0 && e->text[e->n] == 0 && strlen(e->text) == e->n);
    assert(utf8_valid((const uint8_t *)e->text, e->n));
    assert(e->kind == MODEL_TEXT || e->kind == MODEL_THINKING || e->kind == MODEL_CALL);
    *(e->kind == MODEL_TEXT       ? &s->text
      : e->kind == MODEL_THINKING ? &s->thinking
                                  : &s->calls) += e->n;
}

static int feed(struct decoder *d, const char *data, size_t n, size_t piece)
{
    _cleanup_sse_ struct sse s = SSE_INIT(1 << 16);
    struct retry_hint trouble;
    struct error err = {0};
    struct sse_event e;
    int r = 0;
    for (size_t at = 0; r == 0 && at < n; at += piece) {
        const char *from = data + at;
        size_t left = n - at < piece ? n - at : piece;
        while (r == 0 && sse_take(&s, &from, &left, &e) > 0)
            r = decoder_take(d, &e, &trouble, &err);
    }
    assert(r >= 0 || (err.code == -r && err.text[0]));
    assert(r >= 0 || trouble.after_ms >= -1);
    return r;
}

/* What a reply holds can go on in a conversation, once its calls are answered, to any provider. */
static void go_on(json_t *content)
{
    _cleanup_json_ json_t *results = json_array();
    json_t *block;
    size_t i;
    json_array_foreach(content, i, block)
    {
        if (strcmp(json_string_value(json_object_get(block, "type")), "tool_use") == 0)
            json_array_append_new(results, json_pack("{s:s, s:O, s:[]}", "type", "tool_result",
                                                     "tool_use_id", json_object_get(block, "id"),
                                                     "content"));
    }
    _cleanup_json_ json_t *messages =
        json_pack("[{s:s, s:[]}, {s:s, s:O}, {s:s, s:O}]", "role", "user", "content", "role",
                  "assistant", "content", content, "role", "user", "content", results);
    for (size_t i_api = 0; i_api < ARRAY_SIZE(APIS); i_api++) {
        const struct provider *api = provider_find("", APIS[i_api], NULL);
        struct model_spec spec = {.api = api, .provider = "p", .name = "m"};
        struct model_request q = {.messages = messages};
        _cleanup_buf_ struct buf body = BUF_INIT(ENCODER_BYTES_MAX);
        struct error err = {0};
        assert(encode_request(&spec, &q, &body, &err) == 0);
        struct lenient_json l;
        assert(lenient_json_parse((char *)body.data, body.len, &l) == 0 && !l.mended);
        json_decref(l.value);
    }
}

static void finish(struct decoder *d, bool cut)
{
    struct model_reply reply = {0};
    struct error err = {0};
    int r = decoder_finish(d, cut, &reply, &err);
    if (r < 0) {
        assert(!cut && err.code == -r);
        return;
    }
    go_on(reply.content);
    model_reply_free(&reply);
}

void decode_fuzz(const struct provider *api, const uint8_t *data, size_t n)
{
    struct shown shown = {0};
    struct model_sink sink = {show, &shown};
    struct decoder *d = NULL;
    if (n < 2 || decoder_new(api->decoder, "p/m", &sink, &d) < 0)
        return;
    uint8_t how = data[0];
    const char *rest = (const char *)data + 1;
    struct retry_hint trouble;
    int r = how & 0x80 ? decoder_take_whole(d, rest, n - 1, &trouble, NULL)
                       : feed(d, rest, n - 1, how % 8 * 3 + 1);
    if (r >= 0)
        finish(d, how & 0x40);
    decoder_free(d);
}
