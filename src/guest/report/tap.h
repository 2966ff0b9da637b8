/* TAP inside another report: what one test program printed. */
#pragma once

#include <stdbool.h>

struct report;

/* Has it a plan or a version, and tests? */
bool tap_looks_like(const char *text);

int tap_parse_text(struct report *r, const char *text);
