/* Targets of the small option tables of `hutch box`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fork_options {
    uint64_t count;
    bool json;
};
