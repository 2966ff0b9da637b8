/*
 * Names of states. A state of an episode is called by what led to it: the digest of the task, and
 * of each action since reset that may have changed something. Two episodes that did the same are in
 * the same state, and share what is known about it.
 */
#pragma once

#include <jansson.h>

#define STATE_NAME_SIZE 65 /* a SHA-256 in hexadecimal digits, and a NUL */

/* The state that reset gives. */
int state_begin(const char *task_digest, char ret[STATE_NAME_SIZE]);

/* The one that an action leads to; ret may be `name` itself. 0 or -ENOMEM. */
int state_after(const char *name, const char *tool, const json_t *input, char ret[STATE_NAME_SIZE]);
