/* Conversations of any form, as a history that somebody has edited may hold them: what passes the
 * check is encoded for every protocol, to JSON without a mistake. */
#include <assert.h>
#include <errno.h>

#include "encode.h"
#include "decode.h"
#include "provider.h"

static const char *const APIS[] = {"anthropic", "chat", "responses"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lenient_json l;
    if (lenient_json_parse((const char *)data, n, &l) < 0)
        return 0;
    _cleanup_json_ json_t *value = l.value;
    _cleanup_json_ json_t *messages = lenient_json_settle(value, l.mended);
    for (size_t i_api = 0; i_api < ARRAY_SIZE(APIS); i_api++) {
        const struct provider *api = provider_find("", APIS[i_api], NULL);
        struct model_spec spec = {.api = api, .provider = "p", .name = "m"};
        struct model_request q = {.messages = messages, .system = "s"};
        _cleanup_buf_ struct buf body = BUF_INIT(ENCODER_BYTES_MAX);
        struct error err = {0};
        int r = encode_request(&spec, &q, &body, &err);
        assert(r == 0 || (r == -EINVAL && err.text[0] && body.len == 0));
        if (r < 0)
            continue;
        json_t *again =
            json_loadb((char *)body.data, body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        assert(json_is_object(again));
        json_decref(again);
    }
    return 0;
}
