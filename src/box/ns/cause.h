/*
 * Why this host refuses a step of a box's set-up, and what to do about it: one sentence, for errors
 * of `hutch run` and for `hutch doctor` alike. The kernel says EPERM for many reasons; which one it
 * was is read off the host's settings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum cause_step {
    CAUSE_USER_NAMESPACE,
    CAUSE_PROC, /* mounting the box's procfs */
    CAUSE_OTHER,
};

#define CAUSE_TEXT_MAX 384

/* Fills the text with cause and remedy and returns true, or returns false where nothing is known.
 */
bool cause_find(enum cause_step step, int code, char *text, size_t size);

/* Whether a system call filter is on us: that of a container. */
bool cause_is_filtered(void);
