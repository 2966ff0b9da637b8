/*
 * Errors: negative errno inside, one error object at the edges.
 *
 * A function that can fail in a way a person should read takes a `struct error *` as its last
 * parameter, fills it and returns the negative errno. A person sees one line: what was being done,
 * to what, why it failed, what to do. Only src/cli prints it. Passing NULL is allowed
 * everywhere and drops the text.
 */
#pragma once

#include <stdbool.h>

#include "cleanup.h"

#define ERROR_TEXT_MAX 1024

struct error {
    int code; /* positive errno, 0 while there is no error */
    char text[ERROR_TEXT_MAX];
};

/* Sets the text as given and returns -code, so that `return error_set(err, EINVAL, "…")` reads
 * well. */
int error_set(struct error *err, int code, const char *fmt, ...) PRINTF(3, 4);

/* Like error_set, with ": " and the system's text for code behind. */
int error_errno(struct error *err, int code, const char *fmt, ...) PRINTF(3, 4);

/* Puts context in front of an error that is already set, and returns its negative code. */
int error_wrap(struct error *err, const char *fmt, ...) PRINTF(2, 3);

#ifdef __clang_analyzer__
/* The analyzer cannot see across files that none of them returns 0. */
#define ERROR_FAILS(call)                                                                          \
    ({                                                                                             \
        int failed_ = (call);                                                                      \
        __builtin_assume(failed_ < 0);                                                             \
        failed_;                                                                                   \
    })
#define error_set(...)   ERROR_FAILS(error_set(__VA_ARGS__))
#define error_errno(...) ERROR_FAILS(error_errno(__VA_ARGS__))
#define error_wrap(...)  ERROR_FAILS(error_wrap(__VA_ARGS__))
#endif
