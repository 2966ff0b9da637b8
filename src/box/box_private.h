/* What box.c lends to snapshot.c. */
#pragma once

#include "backend.h"

struct box *box_new(void);
int box_start_proxy(struct box *b, struct error *err);

char **list_copy(char *const *list);
char **list_free(char **list);
