/*
 * Files of the box, as the host's own needs are (configuration, manifests): read, listed and
 * written by the guest, bounded, in a session rather than in a call. Paths are those of ask_path.
 */
#pragma once

#include "session.h"
#include "buf.h"

/* The file's content and mode. -ENOENT if it is not there, -EFBIG if it is larger than the buffer's
 * maximum.
 */
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
