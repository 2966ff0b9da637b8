/*
 * File requests, as a worker serves them.
 *
 * The host names the paths, but the agent can change the tree while a request is served. So the
 * kernel resolves a path in one step, beneath the root, whatever links and renames the agent makes;
 * and a worker examines what it led to before it opens it, so that a FIFO, a device or a socket is
 * an error and never a wait.
 */
#pragma once

#include <limits.h>
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

/* Serves the request in a process of its own; the connection is gone afterwards. */
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

/* Opens c->path for reading if it is a regular file. If it is missing, the error says which name on
 * the way is, and what it may have meant. */
int file_open_regular(struct file_call *c, int *ret_fd, struct stat *ret_st, struct error *err);

/* Fills err for a failure with a path. */
int file_error(struct file_call *c, int code, const char *path, struct error *err);

/* -EINVAL, or -EISDIR, with a message unless the mode is a regular file's. */
int file_need_regular(const char *path, mode_t mode, struct error *err);

/* All DATA frames after the request into a buffer or a file, if they are given (NULL, -1). They are
 * read to their end also after a failure, so that the host can send them whole before it reads the
 * answer. -ENOBUFS if they do not fit, -EPROTO if they are malformed. */
int file_receive(struct file_call *c, struct buf *b, int fd, uint64_t *ret_size);

/* A DATA frame. */
void file_put_data(struct buf *b, const void *data, size_t n);

/* The fields MODE, SIZE and MTIME_NS. */
void file_put_stat(struct buf *b, const struct stat *st);

/*
 * The target of a write: an open folder and a name in it.
 *
 * A link is followed within the root, step by step, because its target is what gets replaced. The
 * kernel resolves each step beneath the root again, so a link that is swapped at the same time
 * cannot lead out.
 */
struct write_target {
    char path[PATH_MAX]; /* as it was asked for, or as a link said */
    const char *name;    /* within path */
    int dir;
    bool exists;
    struct stat st;
};

#define WRITE_TARGET_INIT ((struct write_target){.dir = -1})

void write_target_close(struct write_target *p);
#define _cleanup_write_target_ _cleanup_(write_target_close)

/* The target of c->path, with all links followed; makes missing folders. */
int write_target_find(struct file_call *c, struct write_target *p);

/* -EACCES with a message if the mode of an existing file forbids writing, even where its folder
 * allows replacing it. */
int write_target_need_writable(const struct write_target *p, const char *path, struct error *err);

/* A new file in a folder, with an unused name. */
#define TEMPORARY_NAME_MAX 64
int temporary_open(int dir, char name[TEMPORARY_NAME_MAX], int *ret_fd);

/* Lines of a text that is read piece by piece: an open file of any size, or bytes in memory. */
#define LINE_SOURCE_BLOCK (256u << 10)

struct line_source {
    int fd; /* or -1, and: */
    const uint8_t *text;
    size_t size;
    uint8_t *block; /* LINE_SOURCE_BLOCK bytes for what was read of the file */
    uint64_t at;    /* where it lies in the file */
    size_t len;
};

#define LINE_SCAN_MAX  ((uint64_t)4 << 30)  /* bytes that are searched for the first line */
#define LINE_COUNT_MAX ((uint64_t)64 << 20) /* bytes after the last one that are counted */

struct line_want {
    int64_t first;     /* from 1; or negative, from the end: -1 is the last line */
    uint64_t count;    /* lines */
    size_t bytes;      /* of all of them */
    size_t characters; /* of one */
};

struct line_got {
    uint64_t first, count;
    uint64_t lines;   /* how many the text has, or has at least */
    bool lines_known; /* it is exactly so many */
    bool more;        /* there is text after them */
    uint64_t cut;     /* lines that were too long */
    unsigned endings; /* WIRE_ENDS_…, of what was taken */
};

/* Appends the lines to `out`, which has room for line_scan_room(). 0, -ERANGE with a message if
 * there is no such line, or another negative errno. */
int line_scan(struct line_source *s, const struct line_want *want, struct buf *out,
              struct line_got *ret, struct error *err);

/* How large `out` has to be for what is wanted. */
size_t line_scan_room(const struct line_want *want);

/* The requests. LIST: the entries of one folder by name. STAT: one path, without following a last
 * link. READ: a range of a regular file. The others: see their files. */
int file_list(struct file_call *c, struct error *err);
int file_stat(struct file_call *c, struct error *err);
int file_read(struct file_call *c, struct error *err);
int file_lines(struct file_call *c, struct error *err);
int file_write(struct file_call *c, struct error *err);
int file_put(struct file_call *c, struct error *err);
int stage_serve(struct file_call *c, struct error *err);
