/*
 * Bytes through server-sent events and a decoder to a reply, for the three model protocols. The
 * bits of the first byte say how: 0x10 Anthropic, else 0x20 Responses, else Chat Completions; 0x80
 * a whole answer instead of a stream; 0x40 cut off; 0x07 the size of the pieces. Texts must be
 * whole characters, and the content must fit into a conversation.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
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

/* A reply's content can be sent in a conversation to any provider, once its calls are answered. */
static void check_content(json_t *content)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct shown shown = {0};
    struct model_sink sink = {show, &shown};
    struct decoder *d = NULL;
    uint8_t how = n ? data[0] : 0;
    const struct provider *api = how & 0x10   ? &PROVIDER_ANTHROPIC
                                 : how & 0x20 ? &PROVIDER_OPENAI_RESPONSES
                                              : &PROVIDER_OPENAI_CHAT;
    if (n < 2 || decoder_new(api->decoder, "p/m", &sink, &d) < 0)
        return 0;
    const char *rest = (const char *)data + 1;
    struct retry_hint trouble;
    int r = how & 0x80 ? decoder_take_whole(d, rest, n - 1, &trouble, NULL)
                       : feed(d, rest, n - 1, how % 8 * 3 + 1);
    if (r >= 0) {
        bool cut = how & 0x40;
        struct model_reply reply = {0};
        struct error err = {0};
        r = decoder_finish(d, cut, &reply, &err);
        assert(r >= 0 || (!cut && err.code == -r));
        if (r >= 0)
            check_content(reply.content);
        model_reply_free(&reply);
    }
    decoder_free(d);
    return 0;
}
