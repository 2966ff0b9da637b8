/*
 * A recording, and what a provider says instead of an answer, of any bytes. Whatever a recording
 * holds, its answers are told in whole characters and make a content of blocks that are whole;
 * whatever a refusal says becomes one harmless line without the key.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "http.h"
#include "replay.h"
#include "text.h"
#include "banned.h"

#define KEY "sk-fuzz"

static void hear(void *data, const struct model_event *e)
{
    assert(e->n > 0 && e->text[e->n] == 0 && utf8_valid((const uint8_t *)e->text, e->n));
}

static void check_block(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (strcmp(type, "tool_use") == 0)
        assert(json_is_string(json_object_get(block, "id")) &&
               json_is_string(json_object_get(block, "name")) &&
               json_is_object(json_object_get(block, "input")));
    else
        assert(json_is_string(json_object_get(block, "text")) || strcmp(type, "other") == 0);
}

static void play(const char *text, size_t n)
{
    static const struct model_sink SINK = {.event = hear};
    const struct model_request q = {.cancel = -1};
    struct replay *p = NULL;
    if (replay_parse("r", text, n, &p, NULL) < 0)
        return;
    for (size_t i = 0; i <= replay_count(p); i++) {
        _cleanup_reply_ struct model_reply reply = {0};
        size_t at;
        json_t *block;
        int r = replay_ask(p, &q, 0, &SINK, &reply, NULL);
        assert((r == 0) == (i < replay_count(p)));
        json_array_foreach(reply.content, at, block)
        {
            check_block(block);
        }
    }
    replay_free(p);
}

static void refuse(const char *text, size_t n)
{
    static const int STATUSES[] = {400, 401, 404, 429, 500, 529};
    const struct model_spec spec = {.provider = "anthropic", .name = "m", .key = KEY};
    for (size_t i = 0; i < ARRAY_SIZE(STATUSES); i++) {
        struct error err = {0};
        int64_t told = 0;
        int r = provider_error_of_status(&spec, "m", STATUSES[i], text, n, &told, &err);
        assert(r < 0 && told >= -1 && !strstr(err.text, KEY));
        for (const char *at = err.text; *at; at++)
            assert((unsigned char)*at >= ' ' && *at != 0x7f);
        assert(utf8_valid((const uint8_t *)err.text, strlen(err.text)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    play((const char *)data, n);
    refuse((const char *)data, n);
    return 0;
}
