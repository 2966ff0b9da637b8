/* Targets of the option tables of `hutch history`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct history_ls_options {
    uint64_t count; /* 0: all */
    const char *workspace;
    bool json;
};

struct history_show_options {
    bool json, full;
};

struct history_export_options {
    const char *format, *output;
};

struct history_search_options {
    uint64_t count;
    const char *session;
    bool json;
};
