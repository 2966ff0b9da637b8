/* Messages and their content blocks, as model.h and history.h describe them: small helpers. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "json.h"

static inline bool block_is(const json_t *block, const char *type)
{
    const char *its = json_get_string(block, "type");
    return its && strcmp(its, type) == 0;
}

static inline json_t *text_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}
