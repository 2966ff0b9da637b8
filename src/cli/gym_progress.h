/* How far a training is: a bar on a terminal, else a line now and then. On stderr. */
#pragma once

#include <stdbool.h>

#include "train.h"

#define PROGRESS_MEAN 100 /* episodes that the figures are means of */

struct gym_progress {
    uint64_t total;
    bool bar, silent;
    int64_t began, shown;
    double returns[PROGRESS_MEAN], rates[PROGRESS_MEAN];
    uint64_t n; /* of this run */
};

void gym_progress_begin(struct gym_progress *p, uint64_t total, bool json);
void gym_progress_episode(void *data, const struct train_point *at);
void gym_progress_searching(void *data);
void gym_progress_end(struct gym_progress *p); /* the line of the bar is cleared */
