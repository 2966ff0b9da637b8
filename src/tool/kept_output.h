/*
 * The output of a command on its way to a model: the head and the tail are kept, the middle is
 * counted, and once there is a middle all of it goes to a file in the box, while it comes.
 */
#pragma once

#include "ask.h"
#include "box.h"

#define KEPT_OUTPUT_MAX (30000u) /* bytes shown */
#define KEPT_FILE_MAX   (64u << 20)

struct kept_output {
    struct tool_call *call;
    struct box_capture kept;
    uint64_t lines;   /* line ends so far */
    bool uncounted;   /* not known: not all of it came by here */
    uint64_t dropped; /* bytes that the given file does not have either */
    char path[64];    /* of the file; empty: there is none */
    struct ask file;
    bool open;            /* the file is being written */
    bool capped;          /* it has only the first KEPT_FILE_MAX bytes */
    struct error failure; /* why the file is not there */
};

void kept_output_init(struct kept_output *o, struct tool_call *c);
void kept_output_free(struct kept_output *o);
#define _cleanup_kept_output_ _cleanup_(kept_output_free)

void kept_output_add(struct kept_output *o, const void *data, size_t n);

/* All has come: finishes the file. */
void kept_output_finish(struct kept_output *o);

/* The kept text, valid UTF-8, with a line in the middle that says what was left out and where it
 * is. `file` has it if there is no file of this output's own; NULL: nothing has. */
int kept_output_text(const struct kept_output *o, const char *file, struct buf *text);
bool kept_output_is_cut(const struct kept_output *o);

/* Tells the frontend of a call, about twice a second, that a command still runs and what it printed
 * last. */
struct ticker {
    const struct tool_progress *progress; /* or NULL */
    int64_t began, next;
};

void ticker_start(struct ticker *t, const struct tool_call *c);

/* May be called at any rate, with the output so far. */
void ticker_tick(struct ticker *t, const struct box_capture *output);
