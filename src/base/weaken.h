/*
 * Switches for mutation tests of the security tests: a build with -Dweaken=true (never an installed
 * one) reads HUTCH_WEAKEN=name,name from the environment and leaves those protections out, to show
 * that a test fails then. In every other build this is the constant false and the compiler drops
 * the branches.
 */
#pragma once

#include <stdbool.h>

#ifdef HUTCH_WEAKEN
#include <stdlib.h>
#include <string.h>

static inline bool weakened(const char *name)
{
    const char *at = getenv("HUTCH_WEAKEN");
    if (at && strcmp(name, "guest") == 0) /* passes the variable to the guest */
        return true;
    size_t n = strlen(name);
    for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}
#else
#define weakened(name) false
#endif
