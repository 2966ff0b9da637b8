/* A diff on a terminal: in colours, and with nothing in it that the terminal would obey. */
#pragma once

#include <stdbool.h>

/* Copies what `from` holds to `to`, line by line. 0 or a negative errno. */
int show_diff(int from, int to, bool colours);
