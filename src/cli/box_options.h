/* Targets of the small option tables of `hutch box`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of apply and sync. */
struct apply_command_options {
    const char *on_conflict;
    bool new_folder;
    bool allow_git_dirs;
};

struct fork_options {
    uint64_t count;
    bool json;
};
