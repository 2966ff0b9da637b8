/* What isolation this host can give, each ingredient tried for real: `hutch doctor`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum probe_state {
    PROBE_YES,
    PROBE_DEGRADED,
    PROBE_NO,
    PROBE_NOT_TRIED, /* something that it needs failed */
};

struct probe_result {
    const char *name;
    enum probe_state state;
    bool required; /* without it no box starts */
    char detail[384];
    char remedy[384];
};

#define PROBE_MAX 32

/* Runs all probes; returns how many results were filled. */
size_t probe_all(struct probe_result *results, size_t max);
