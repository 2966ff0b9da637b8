/* What box.c and snapshot.c lend to each other and to pool.c. */
#pragma once

#include "backend.h"

struct box *box_new(void);
int box_start_proxy(struct box *b, struct error *err);

/* A prepared box begins when it is taken: what changed in the person's folder before is no conflict. */
void box_begin_now(struct box *b);

/* A snapshot of a box in which nothing was done yet: free, and its forks have no layer of it. */
int box_template(struct box *b, struct snapshot **ret, struct error *err);

/* The place that forks of a snapshot start from, and a box without one that has their options. */
struct place *snapshot_place(const struct snapshot *s);
const struct box *snapshot_like(const struct snapshot *s);

char **list_copy(char *const *list);
char **list_free(char **list);
