/* When a request is tried again: what is worth it, and how long to wait before. Pure but for
 * retry_wait(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "transport.h"

#define RETRY_TOLD_MAX_MS 60000 /* a server's word about when is kept up to here */

/* Is an answer with this head worth another try? */
bool retry_wanted(const struct transport_answer *a);

/* How long the head says to wait, in milliseconds; -1: nothing of use. */
int64_t retry_told_ms(const struct transport_answer *a, time_t now);

/* How long to wait before try number `attempt` (from 1): what was told, if that is not too long;
 * else `base_ms`, doubled with every attempt up to 16 times, less up to a quarter by `random`. */
int retry_delay_ms(unsigned attempt, int base_ms, int64_t told_ms, uint32_t random);

/* 0, or -ECANCELED as soon as `cancel` is readable. */
int retry_wait(int ms, int cancel);
