/* A pseudo-terminal of the box's own devpts. */
#pragma once

#include <stdint.h>

/* Opens a pair: the guest's end, non-blocking, and the command's. Neither becomes anybody's
 * controlling terminal. */
int pty_open(uint64_t rows, uint64_t cols, int *ret_master, int *ret_slave);

/* Sizes that are 0 or absurd become the usual 24 x 80. */
int pty_resize(int master, uint64_t rows, uint64_t cols);
