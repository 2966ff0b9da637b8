/* Messages and their content blocks, as model.h and history.h describe them: small helpers. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "buf.h"

/* A member that is a string; NULL if it is not there or none. */
static inline const char *member_string(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static inline bool block_is(const json_t *block, const char *type)
{
    const char *its = member_string(block, "type");
    return its && strcmp(its, type) == 0;
}

static inline json_t *text_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

/* For json_dump_callback: appends to a struct buf. */
static inline int buf_append_json(const char *text, size_t n, void *buf)
{
    return buf_append(buf, text, n) < 0 ? -1 : 0;
}
