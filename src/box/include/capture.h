/* Keeping the head and the tail of a stream within a limit, and counting all of it. */
#pragma once

#include "box.h"

void capture_init(struct box_capture *c, uint64_t limit);
/* Only the tail is kept. */
void capture_init_tail(struct box_capture *c, uint64_t limit);
int capture_add(struct box_capture *c, const void *data, size_t n);
void capture_finish(struct box_capture *c); /* tail holds exactly the kept bytes afterwards */
