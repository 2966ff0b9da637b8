/*
 * What qlearn has learned, as a JSON file from which training continues exactly: numbers have all
 * their digits, and the state of the dice is part of it.
 */
#pragma once

#include <jansson.h>

#include "error.h"
#include "qtable.h"
#include "task.h"

#define CHECKPOINT_VERSION    1
#define CHECKPOINT_BYTES_MAX  (256u << 20)
#define CHECKPOINT_VALUES_MAX 8000000u

/* The options of qlearn that are in force. */
struct checkpoint_options {
    double epsilon_start, epsilon_end;
    uint64_t epsilon_decay;
    double alpha, gamma;
};

struct checkpoint {
    char task[TASK_NAME_MAX];
    char digest[65];
    uint64_t seed;
    uint64_t episodes; /* played so far */
    struct checkpoint_options options;
    struct dice dice;
    struct qtable table;
};
void checkpoint_free(struct checkpoint *c);

json_t *checkpoint_json(const struct checkpoint *c); /* NULL without memory */

/* The file may come from anybody. It must be of this task; `name` is for messages. */
int checkpoint_parse(const struct task *t, const char *text, size_t n, const char *name,
                     struct checkpoint *ret, struct error *err);
int checkpoint_load(const struct task *t, const char *path, struct checkpoint *ret,
                    struct error *err);
int checkpoint_save(const struct checkpoint *c, const char *path, struct error *err);
