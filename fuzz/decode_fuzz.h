/* Bytes through server-sent events and a decoder to a reply, for the fuzz targets of the model
 * protocols. */
#pragma once

#include "decode.h"
#include "provider.h"

/* The first byte says how: in which pieces the rest comes, whether it is a whole answer or a
 * stream, and whether it is cut off. What comes out is looked at: texts of whole characters,
 * content that a conversation may hold. */
void decode_fuzz(const struct provider *api, const uint8_t *data, size_t n);
