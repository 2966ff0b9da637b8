/* How much memory there is for boxes: the machine's, or less where a control group limits us, as
 * that of a container does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bytes; UINT64_MAX if nothing is known. *ret_limited (which may be NULL) tells whether a control
 * group makes it less than the machine has. */
uint64_t host_memory(bool *ret_limited);

/* What a box and its files in memory may use of a limited one: the rest of the container goes on
 * living. */
#define HOST_MEMORY_FOR_BOX(total) ((total) / 4 * 3)
