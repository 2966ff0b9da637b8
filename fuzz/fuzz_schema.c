/*
 * The validator on arbitrary schemas and values: two JSON texts, split at the first NUL byte. It always ends,
 * its answer is one of three, a refusal has a text that begins with the path, and asking again gives the
 * same.
 */
#include <errno.h>
#include <string.h>

#include "compose.h"
#include "schema.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static json_t *load(const uint8_t *text, size_t n)
{
    return json_loadb((const char *)text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

static void check(const json_t *schema, const json_t *value)
{
    struct error first = {0}, second = {0};
    int r = schema_check(schema, value, "input", &first);
    require(r == 0 || r == -EINVAL || r == -ELOOP);
    require((r == 0) == (first.code == 0));
    require(r == 0 || strncmp(first.text, "input", 5) == 0);
    require(schema_check(schema, value, "input", &second) == r && strcmp(first.text, second.text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *split = n ? memchr(data, 0, n) : NULL;
    if (!split)
        return 0;
    json_t *schema = load(data, (size_t)(split - data));
    json_t *value = schema ? load(split + 1, n - (size_t)(split - data) - 1) : NULL;
    if (value)
        check(schema, value);
    json_decref(schema);
    json_decref(value);
    return 0;
}
