/* Signals by name: "SIGKILL", "SIGRTMIN+3". */
#pragma once

#include <stddef.h>

void signame_format(int number, char *name, size_t size);
