#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "shell/session.h"
#include "sys.h"
#include "banned.h"

#define FOLDER "/tmp/.hutch"
#define SHELLS FOLDER "/shell"

/* Never waits: a FIFO opened like this does not, and what is no regular file is not read. */
void session_load(struct session *s)
{
    char path[sizeof SHELLS + 1 + SESSION_NAME_MAX];
    struct stat st;
    struct state state;
    snprintf(path, sizeof path, SHELLS "/%s", s->name);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    void *at = buf_reserve(&s->raw, STATE_MAX);
    ssize_t n = at && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= STATE_MAX
                    ? pread(fd, at, STATE_MAX, 0)
                    : -1;
    s->unloadable = n < 0 || !state_parse(at, (size_t)n, &state);
    s->raw.len = s->unloadable ? 0 : (size_t)n;
}

void session_store(struct session *s)
{
    char path[sizeof SHELLS + 1 + SESSION_NAME_MAX], fresh[sizeof SHELLS + 8 + SESSION_NAME_MAX];
    snprintf(path, sizeof path, SHELLS "/%s", s->name);
    snprintf(fresh, sizeof fresh, SHELLS "/.%s.new", s->name);
    mkdir(FOLDER, 0700);
    mkdir(SHELLS, 0700);
    unlink(fresh);
    _cleanup_fd_ int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* A full disk costs only what a fork would begin with, until the next call. */
    s->unwritten = fd < 0 || io_write_all(fd, s->raw.data, s->raw.len) < 0 ||
                   sys_renameat2(AT_FDCWD, fresh, AT_FDCWD, path, 0) < 0;
    if (s->unwritten)
        unlink(fresh);
}
