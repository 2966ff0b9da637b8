/* Whole reads and writes, and small things about file descriptors. All return 0 or more, or a
 * negative errno. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "error.h"
#include "text.h"

/* Writes all n bytes, through short writes and EINTR (not for non-blocking descriptors). */
int io_write_all(int fd, const void *data, size_t n);

/* At an offset, through short calls and EINTR. The number of bytes read is less than n only at the
 * end of the file. */
ssize_t io_read_at(int fd, void *data, size_t n, uint64_t offset);
int io_write_at(int fd, const void *data, size_t n, uint64_t offset);

/* Reads until the end or until the buffer's maximum, in which case it returns -ENOBUFS. */
int io_read_all(int fd, struct buf *b);

/* Opens, reads whole and closes a file that the host itself owns (never one that a box can
 * write). */
int io_read_file(int dirfd, const char *path, struct buf *b);

/* Opens a regular file beneath a folder that others may write: links are followed only within the
 * folder (-EXDEV), and opening never blocks. A descriptor, or -EINVAL: not a regular file. */
int io_open_beneath(const char *folder, const char *path, struct stat *ret_st);

/* Bytes of the nearest folder at or above `folder` that holds an entry `name`; 0: none does. */
size_t io_folder_with(const char *folder, const char *name);

/* Writes a short string to an existing file such as those of /proc and cgroupfs, in one write. */
int io_write_file(int dirfd, const char *path, const char *text);

int io_set_nonblock(int fd, bool on);

/* Sends or receives up to `max` descriptors along with bytes; both ends of a unix socket. Received
 * ones are CLOEXEC. */
ssize_t io_send_fds(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
ssize_t io_recv_fds(int sock, void *data, size_t n, int *fds, size_t max_fds, size_t *ret_n_fds,
                    int flags);

/* A file without a name, in $TMPDIR or /tmp, else in memory. A descriptor or a negative errno. */
int io_unnamed_file(void);

/* A file in memory that holds these bytes, positioned at its start. Likewise. */
int io_memory_file(const void *data, size_t n);

/* Blocks SIGPIPE in this thread while it writes to a descriptor that may be closed at the other
 * end. sigpipe_restore consumes one that was raised meanwhile. */
struct sigpipe {
    sigset_t mask;
    bool was_pending; /* the caller's, which stays */
};
void sigpipe_block(struct sigpipe *ret_before);
void sigpipe_restore(const struct sigpipe *before);

/*
 * Files that the user wrote for hutch: configuration, manifests, tools. They are trusted only if
 * they belong to the user or root and are not writable by everybody.
 */

/* Opens a regular file, or a folder, after these checks. -ENOENT with a text if it does not
 * exist. */
int ownfile_open(const char *path, int *ret_fd, struct stat *ret_st, struct error *err);
int ownfile_open_folder(const char *path, int *ret_fd, struct error *err);

/* Reads it whole; -EFBIG beyond the buffer's maximum. */
int ownfile_read(const char *path, struct buf *b, struct error *err);

/* $XDG_CONFIG_HOME/hutch or ~/.config/hutch, with `name` behind it if that is not NULL; a new
 * string. NULL: the home directory is unknown, or no memory. */
char *ownfile_config_path(const char *name);

/* The same for $XDG_STATE_HOME/hutch or ~/.local/state/hutch: hutch's records of this machine. */
char *ownfile_state_path(const char *name);

/* Makes each folder of the path that does not exist, with mode 0700. */
int ownfile_make_folders(char *path);
