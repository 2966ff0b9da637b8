/* The options of boxes and commands as a JSON object, see hutch.h; the words are
 * box/box_options_parse.h's. */
#pragma once

#include <jansson.h>

#include "box_options.h"

/* All strings live as long as `texts`, an array, and `options`, which may be NULL. Unknown members
 * are errors. */
int options_box(json_t *options, json_t *texts, struct box_spec *w, struct error *err);

struct exec_options {
    struct box_spec spec; /* env, and the times */
    const char *cwd;
    const char *input; /* what the command reads; NULL: nothing */
    size_t n_input;
    int64_t timeout_ns, cpu_time_ns; /* as box_command's */
};
int options_exec(json_t *options, json_t *texts, struct exec_options *ret, struct error *err);
