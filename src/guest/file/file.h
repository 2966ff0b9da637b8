/*
 * File requests, as a worker serves them.
 *
 * The host names the paths, but the agent can change the tree while a request is served. So the
 * kernel resolves a path in one step, beneath the root, whatever links and renames the agent makes;
 * and a worker examines what it led to before it opens it, so that a FIFO, a device or a socket is
 * an error and never a wait.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "error.h"
#include "wire.h"

struct file_call {
    struct wire_reader *in; /* further frames, for a request that has some */
    struct wire_frame request;
    struct buf out; /* frames to send; sent by file_send */
    char *path;     /* PATH */
    char *root_path;
    int root;
    bool whole; /* the root is / */
};

/* A request of this kind. Composes its RESULT into c->out; a failure becomes an ERROR frame. */
typedef int (*file_serve)(struct file_call *c, struct error *err);

/* worker.c: serves the request in a process of its own; the connection is gone afterwards. */
struct guest;
struct conn;
void worker_start(struct conn *conn, const struct wire_frame *f, file_serve serve);
bool worker_is(struct guest *g, pid_t pid);

/* A child was reaped: true if it was a worker. */
bool worker_ended(struct guest *g, pid_t pid);

/* Ends the workers that code of the box has stopped, but not while the box is frozen. */
void worker_kill_stopped(struct guest *g);

/* The whole way from the request to its sent answer. */
void file_answer(struct wire_reader *in, const struct wire_frame *request, file_serve serve);

/* Sends what was composed so far. */
int file_send(struct file_call *c);

/* Opens a path beneath the root. -EXDEV if it leads out of it. */
int file_resolve(struct file_call *c, const char *path, int flags, int *ret_fd);

/* Opens c->path for reading if it is a regular file. */
int file_open_regular(struct file_call *c, int *ret_fd, struct stat *ret_st, struct error *err);

/* Fills err for a failure with a path. */
int file_error(struct file_call *c, int code, const char *path, struct error *err);

/* -EINVAL, or -EISDIR, with a message unless the mode is a regular file's. */
int file_need_regular(const char *path, mode_t mode, struct error *err);

/* The next DATA frame after the request: 1 with its bytes, 0 if it was the last. */
int file_next_data(struct file_call *c, struct wire_field *ret);

/* All DATA frames into a buffer, or into a file (-1: they are dropped). They are read to their end
 * also after a failure, so that the host can send them whole before it reads the answer. -ENOBUFS
 * if they do not fit, -EPROTO if they are malformed. */
int file_receive(struct file_call *c, struct buf *b);
int file_receive_to(struct file_call *c, int fd, uint64_t *ret_size);

/* A DATA frame. */
void file_put_data(struct buf *b, const void *data, size_t n);

/* The fields MODE, SIZE and MTIME_NS. */
void file_put_stat(struct buf *b, const struct stat *st);

/* The requests. LIST: the entries of one folder by name. STAT: one path, without following a last
 * link. READ: a range of a regular file. The others: see their files. */
int file_list(struct file_call *c, struct error *err);
int file_stat(struct file_call *c, struct error *err);
int file_read(struct file_call *c, struct error *err);
int file_lines(struct file_call *c, struct error *err);
int file_write(struct file_call *c, struct error *err);
int file_put(struct file_call *c, struct error *err);
int stage_serve(struct file_call *c, struct error *err);
