/*
 * The wish that something end: a descriptor, an eventfd say, that becomes readable and stays so.
 * Whoever waits for something waits for it, too; whoever works looks at it now and then. It is
 * borrowed; -1: nobody wishes.
 */
#pragma once

#include "error.h"

bool cancel_asked(int cancel);

/* 0, or -ECANCELED with "interrupted". */
int cancel_check(int cancel, struct error *err);

/* Waits until `fd` has one of poll's events: 1; 0 after timeout_ms (-1: however long it takes);
 * -ECANCELED; or another negative errno. */
int cancel_wait(int fd, short events, int timeout_ms, int cancel);
