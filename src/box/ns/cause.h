/*
 * Why this host refuses a step of a box's set-up, and what to do about it: one sentence, for errors
 * of `hutch run` and for `hutch doctor` alike. The kernel says EPERM for many reasons; the host's
 * settings tell which one it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

enum cause_step {
    CAUSE_USER_NAMESPACE,
    CAUSE_PROC, /* mounting the box's procfs */
    CAUSE_OTHER,
};

#define CAUSE_TEXT_MAX 384

/* Fills the text with cause and remedy and returns true, or returns false where nothing is
 * known. */
bool cause_find(enum cause_step step, int code, char *text, size_t size);

/* "the box did not start: cannot WHAT", the error of the call, and what to do about it. Returns
 * -code. */
int start_error(struct error *err, enum cause_step step, int code, const char *what);
