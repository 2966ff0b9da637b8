/* What a shell is started with: the commands that restore a session, wait for a script, run it and
 * save. */
#pragma once

#include <stdbool.h>

#include "buf.h"

/* A descriptor above which bash keeps its report while the script runs: out of reach of every
 * command, and of the numbers that scripts choose. The low one is for shells that may have few. */
#define PRELUDE_HIGH 59
#define PRELUDE_LOW  7

/* For `bash --norc --noprofile -c TEXT bash`. */
int prelude_put_bash(struct buf *b, int anchor);

/* For `sh -c TEXT sh EXPORTS FOLDER CWD HAS_INPUT SCRIPT`, which is not started before its call. */
extern const char *const PRELUDE_SH;
