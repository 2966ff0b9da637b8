/* Signals as bytes of a pipe, so that they are read where everything else is. One user at a time.
 */
#pragma once

#include "error.h"

/* Catches SIGWINCH, SIGTERM, SIGHUP, SIGINT and SIGTSTP; the descriptor gives their numbers, a byte
 * each. */
int signals_begin(int *ret_fd, struct error *err);
void signals_end(void);
