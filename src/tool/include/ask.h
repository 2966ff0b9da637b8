/*
 * One request to the guest, from a tool: fields, DATA, answers.
 *
 *     _cleanup_ask_ struct ask a;
 *     ask_begin(&a, c, WIRE_STAT);
 *     ask_path(&a, path);
 *     r = ask_send(&a, err);
 *     while (r >= 0 && (r = ask_next(&a, &frame, err)) > 0)
 *         …one DATA or ENTRY frame…
 *     if (r == 0) …frame is the RESULT…
 *
 * The guest is not trusted: waiting for an answer has a limit, and ends when the call is cancelled.
 */
#pragma once

#include <stdbool.h>

#include "box.h"
#include "tool.h"
#include "wire.h"

#define ASK_PATIENCE_MS 60000

struct ask {
    struct box *box;
    int cancel; /* ends the wait when it becomes readable; -1: none */
    int fd;
    struct buf out;
    size_t begin;
    bool ended; /* the request's own frame is complete */
    struct wire_reader in;
    struct box_pulse pulse;
    int patience_ms; /* between two frames; may be changed before ask_send */
};

void ask_begin(struct ask *a, struct tool_call *c, enum wire_type type);

/* The same for a request that belongs to no tool's call. */
void ask_begin_box(struct ask *a, struct box *box, int cancel, enum wire_type type);
void ask_free(struct ask *a);
#define _cleanup_ask_ _cleanup_(ask_free)

/*
 * The PATH (and NAME, its root) of a path as a model writes it: relative to the workspace, or
 * absolute in the box. What begins with /workspace lies in the workspace, out of which no link
 * leads; any other absolute path is taken from the root of the box.
 */
void ask_path(struct ask *a, const char *path);

/* Ends the request's frame: further frames may be put behind it into a->out, to go out with it. */
void ask_end(struct ask *a);

/* Connects and sends what was put. */
int ask_send(struct ask *a, struct error *err);

/* DATA frames behind the request, of any length; `last` ends them. */
int ask_data(struct ask *a, const void *data, size_t n, bool last, struct error *err);

/* Sends the whole frames that were put into a->out since. 1 if the guest has answered already and
 * takes no more. */
int ask_flush(struct ask *a, struct error *err);

/* The next answer: 1 a stream frame, 0 the RESULT, or a negative errno, also that of an ERROR
 * frame. The frame is valid until the next call. */
int ask_next(struct ask *a, struct wire_frame *ret, struct error *err);

/* Sends, and gives each stream frame to `take` until the RESULT or until that returns an error:
 * -ENOMEM, or what it likes for a frame that the guest may not send. */
int ask_each(struct ask *a, int (*take)(void *data, const struct wire_frame *f), void *data,
             struct wire_frame *ret, struct error *err);

/* Both send the request if it was not sent, and wait for the RESULT. The first appends the DATA to
 * the buffer: -EFBIG if it is more than that takes. */
int ask_collect(struct ask *a, struct buf *content, struct wire_frame *ret, struct error *err);
int ask_result(struct ask *a, struct wire_frame *ret, struct error *err);

/* Files of the box that the host itself needs (configuration, manifests). Paths are those of
 * ask_path. */

/* The file's content and mode. -ENOENT if it is not there, -EFBIG if it is larger than the buffer's
 * maximum. */
int guestfile_read(struct tool_session *s, const char *path, struct buf *b, unsigned *ret_mode,
                   struct error *err);

/* The file's mode alone, that of its target if it is a link; only regular files have one here. */
int guestfile_mode(struct tool_session *s, const char *path, unsigned *ret_mode, struct error *err);

/* Each name in a folder, in order. */
int guestfile_list(struct tool_session *s, const char *path,
                   void (*each)(void *data, const char *name), void *data, struct error *err);

/* Replaces the file in one step; its mode is `mode` if it was not there. */
int guestfile_write(struct tool_call *c, const char *path, unsigned mode, const void *data,
                    size_t n, struct error *err);
