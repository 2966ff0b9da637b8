/* What the two files of the validator share. */
#pragma once

#include <stdbool.h>

#include "schema.h"

#define SCHEMA_DEPTH_MAX 64
#define SCHEMA_STEPS_MAX 200000
#define SCHEMA_PATH_MAX  256

struct check {
    const json_t *root;
    struct error *err; /* NULL while only the answer matters (anyOf, not…) */
    unsigned steps;
    unsigned depth;
    size_t path_len;
    char path[SCHEMA_PATH_MAX]; /* of the value that is being looked at */
};

/* 0, -EINVAL (told in c->err), or -ELOOP. */
int schema_apply(struct check *c, const json_t *schema, const json_t *value);

/* Says what is wrong with the value at the present path. Returns -EINVAL. */
int schema_say(struct check *c, const char *fmt, ...) PRINTF(2, 3);

/* Goes down to a member or an item, and back to what schema_enter returned. */
size_t schema_enter(struct check *c, const char *member, size_t index);
void schema_leave(struct check *c, size_t path_len);

/* $ref, type, enum, const, and what combines schemas. */
int schema_check_combined(struct check *c, const json_t *schema, const json_t *value);

/* The keywords of one kind of value. */
int schema_check_string(struct check *c, const json_t *schema, const json_t *value);
int schema_check_number(struct check *c, const json_t *schema, const json_t *value);

/* 1 if the text matches the pattern, 0 if not, -EINVAL if it is no pattern or too much work. */
int schema_matches(const char *pattern, const char *text, size_t n);
