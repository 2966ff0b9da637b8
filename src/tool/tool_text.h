/* What tools share: input and text of the file tools, and the output of commands. */
#pragma once

#include "ask.h"
#include "box.h"

/* The path of the input, for ask_path. NULL with the result marked as failed if it holds a NUL. */
const char *file_input_path(struct tool_call *c);

/* The GLOB fields of a request: of a string or a list of them. */
void file_put_globs(struct buf *b, const json_t *glob);

/* Adds to a failed file request (`search`: a search or a listing) what to do about it. Returns
 * -err->code. */
int file_hint(struct error *err, bool search);

/*
 * Names of files as they come out of a box: any bytes but NUL.
 *
 * A name that is UTF-8 is itself in data. Any other is quoted as git does ("caf\351.txt") with the
 * bytes beside it in base64, so that nothing is lost. In text a name with control characters is
 * quoted as well: it can neither end its line nor reach a terminal.
 */

/* What goes before the names that the guest reports, for a path of the input. */
const char *file_name_prefix(const char *path);

/* Sets `key` of the object, and `key`_base64 if the name is not UTF-8. 0 or -ENOMEM. */
int file_name_set(json_t *o, const char *key, const char *prefix, const void *name, size_t n);

/* Appends it for a model. */
int file_name_append(struct buf *b, const char *prefix, const void *name, size_t n);

/* Appends lines with numbers from `first` on, as valid UTF-8, without a CR before the newline. */
void numbered_append(struct buf *out, const uint8_t *text, size_t n, uint64_t first);

/* Appends the lines that a unified diff leaves in the file, with their numbers; "..." between two
 * hunks. */
void numbered_append_diff(struct buf *out, const uint8_t *diff, size_t n);

/*
 * The output of a command on its way to a model: the head and the tail are kept, the middle is
 * counted, and once there is a middle all of it goes to a file in the box, while it comes.
 */
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
