/*
 * Frames out of any bytes: what a fuzzer changes is then what the fields say, not whether their
 * lengths add up. Raw bytes are fuzzed beside it, for the lengths.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define COMPOSE_STOP 0xff

/* Appends frames and says how many bytes of the recipe were used: all, or up to and with the first
 * COMPOSE_STOP. */
size_t compose_frames(const uint8_t *recipe, size_t n, struct buf *out);

/* Ends the program, which the fuzzer reports as a finding. */
void require(int held);
