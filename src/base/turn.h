/*
 * A lock for what may take long: whoever waits for it can be told to stop waiting (cancel.h). An
 * eventfd that counts: 1 while it is free.
 */
#pragma once

/* The lock, free; or a negative errno. It is closed like any descriptor. */
int turn_open(void);

/* 0, or -ECANCELED, or another negative errno. */
int turn_take(int turn, int cancel);
void turn_give(int turn);
