/* The table of a training: a CSV file that grows by a line per episode. */
#pragma once

#include <stdio.h>

#include "train.h"

#define TRAIN_TABLE_HEAD "episode,return,pass_rate,calls,seconds,epsilon\n"

/* Begins a new table; or goes on with the one that is there behind its first `keep` episodes, which
 * are given (to be freed) as far as they can be read. */
int train_table_begin(const char *path, FILE **ret, struct error *err);
int train_table_resume(const char *path, uint64_t keep, FILE **ret, struct train_point **ret_points,
                       size_t *ret_n, struct error *err);
void train_table_add(FILE *f, const struct train_point *p);

/* One line as a point; false if it is none. Pure. */
bool train_table_parse(const char *line, struct train_point *ret);
