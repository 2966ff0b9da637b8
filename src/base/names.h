/* Names for people: the known name that a mistyped one most likely meant, and signals by name. */
#pragma once

#include <stddef.h>

struct nearest {
    const char *wanted;
    size_t size;
    const char *best; /* NULL while nothing offered is near enough */
    size_t distance;
};

struct nearest nearest_to(const char *wanted, size_t size);
void nearest_offer(struct nearest *n, const char *name);

/* "SIGKILL", "SIGRTMIN+3". */
void signame_format(int number, char *name, size_t size);
