/* Files between a box and the worker: see box_files.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box_files.h"
#include "io.h"
#include "thread.h"
#include "banned.h"

#define PIECE      (256u << 10)
#define TIMEOUT_NS (1800 * NS_PER_S)

struct spool {
    pthread_t thread;
    int from, file;
    uint64_t size, max;
    int failed; /* an errno */
};

static void *spool_main(void *data)
{
    struct spool *s = data;
    char *piece = malloc(PIECE);
    ssize_t n = 0;
    while (piece && !s->failed && (n = read(s->from, piece, PIECE)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        s->size += n > 0 ? (uint64_t)n : 0;
        s->failed = n < 0              ? errno
                    : s->size > s->max ? EFBIG
                                       : -io_write_all(s->file, piece, (size_t)n);
    }
    if (!piece)
        s->failed = ENOMEM;
    close(TAKE_FD(s->from)); /* the writer must not wait for a reader that has given up */
    free(piece);
    return NULL;
}

static void spool_free(struct spool *s)
{
    cleanup_close(&s->from);
    cleanup_close(&s->file);
    free(s);
}

int spool_begin(uint64_t max, struct spool **ret, int *ret_fd, struct error *err)
{
    int ends[2];
    struct spool *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    if (pipe2(ends, O_CLOEXEC) < 0) {
        free(s);
        return error_errno(err, errno, "cannot create a pipe");
    }
    _cleanup_fd_ int write_end = ends[1];
    *s = (struct spool){.from = ends[0], .file = io_unnamed_file(), .max = max};
    int r = s->file < 0 ? s->file : thread_start(&s->thread, NULL, spool_main, s);
    if (r < 0) {
        spool_free(s);
        return error_errno(err, -r, "cannot keep a file of a box");
    }
    *ret = s;
    *ret_fd = TAKE_FD(write_end);
    return 0;
}

int spool_end(struct spool *s, int fd, int *ret_fd, uint64_t *ret_size, struct error *err)
{
    cleanup_close(&fd);
    pthread_join(s->thread, NULL);
    int r = 0;
    if (s->failed == EFBIG)
        r = error_set(err, EFBIG, "larger than %llu MB", (unsigned long long)(s->max >> 20));
    else if (s->failed || lseek(s->file, 0, SEEK_SET) < 0)
        r = error_errno(err, s->failed ? s->failed : errno, "cannot keep a file of a box");
    if (r == 0) {
        *ret_fd = TAKE_FD(s->file);
        *ret_size = s->size;
    }
    spool_free(s);
    return r;
}

/* What a command that failed printed, on one line. */
static int command_failed(const char *what, const struct box_result *r, struct error *err)
{
    const struct buf *said = &r->err.head;
    _cleanup_free_ char *text =
        foreign_text(said->len ? (const char *)said->data : "", said->len, 300);
    for (char *at = text; at && *at; at++)
        if (*at == '\n')
            *at = at[1] ? ';' : 0;
    if (r->failure[0])
        return error_set(err, EIO, "%s: %s", what, r->failure);
    return error_set(err, EIO, "%s: %s%sexit status %d", what, text ? text : "",
                     text && *text ? ", " : "", r->exit_code);
}

int box_tar(struct box *b, const struct buf *names, bool recursive, uint64_t max, int cancel,
            int *ret_fd, uint64_t *ret_size, struct error *err)
{
    const char *const argv[] = {"tar",
                                "--create",
                                "--file=-",
                                "--format=posix",
                                "--sparse",
                                "--hard-dereference",
                                "--ignore-failed-read",
                                "--warning=none",
                                recursive ? "--recursion" : "--no-recursion",
                                "--null",
                                "--files-from=-",
                                NULL};
    const char *const env[] = {"LC_ALL=C.UTF-8", "TAR_OPTIONS=", NULL};
    struct box_result result = {0};
    struct spool *spool = NULL;
    int to = -1, r = spool_begin(max, &spool, &to, err);
    if (r < 0)
        return r;
    _cleanup_fd_ int input = io_memory_file(names->data, names->len);
    const struct box_command command = {.argv = (char *const *)argv,
                                        .env = (char *const *)env,
                                        .timeout_ns = TIMEOUT_NS,
                                        .in = input,
                                        .out = to,
                                        .err = -1,
                                        .cancel = cancel};
    r = input < 0 ? error_errno(err, -input, "cannot keep a list of files")
                  : box_exec(b, &command, &result, err);
    /* 1: some files changed while tar read them, because processes still run in the box. */
    bool failed = r == 0 && result.exit_code > 1;
    int end = spool_end(spool, to, ret_fd, ret_size, r == 0 ? err : NULL);
    if (r == 0 && end < 0)
        r = end;
    else if (r == 0 && failed)
        r = command_failed("tar in the box failed", &result, err);
    if (r < 0 && end == 0)
        close(*ret_fd);
    box_result_free(&result);
    return r;
}

int box_script(struct box *b, const char *script, int input, int cancel, struct error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const env[] = {"LC_ALL=C.UTF-8", "TAR_OPTIONS=", NULL};
    struct box_result result = {0};
    const struct box_command command = {.argv = (char *const *)argv,
                                        .env = (char *const *)env,
                                        .timeout_ns = TIMEOUT_NS,
                                        .in = input,
                                        .out = -1,
                                        .err = -1,
                                        .capture = true,
                                        .cancel = cancel};
    int r = box_exec(b, &command, &result, err);
    if (r == 0 && result.exit_code != 0)
        r = command_failed("a command in the box failed", &result, err);
    box_result_free(&result);
    return r;
}
