/*
 * The warm process from the host's side: started, watched until it is ready, ended. A run is in
 * warm_run.c, what happens in the process itself in warm_part/.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "box_private.h"
#include "clock.h"
#include "environment.h"
#include "io.h"
#include "sys.h"
#include "thread.h"
#include "warm_private.h"
#include "weaken.h"
#include "banned.h"

#define READY_NS    (60 * NS_PER_S)
#define LEAVING_MS  100 /* between a process's last descriptor and its end */
#define PATIENCE_S  30
#define VOICE_KEPT  4096
#define ANSWER_MAX  4096
#define ENV_BYTES   (256u << 10)
#define PROGRAM_MAX (16u << 20)

/* A process on its way to being ready: what it says, and what it prints meanwhile. */
struct hatching {
    int control, voice, cancel;
    char answer[ANSWER_MAX + 1];
    char printed[2 * VOICE_KEPT + 1];
    size_t n_printed;
};

/* A file of these bytes that the warm process reads; nothing of it is ever in its argument list. */
static int make_file(const char *text, int *ret_fd, struct error *err)
{
    size_t n = strlen(text);
    if (n > PROGRAM_MAX)
        return error_set(err, E2BIG, "the warm process's program is longer than %u bytes",
                         PROGRAM_MAX);
    _cleanup_fd_ int fd = memfd_create("hutch-warm", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, text, n, 0) != (ssize_t)n)
        return error_errno(err, errno, "cannot make a file in memory");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* The environment of a command of these boxes; and all hashes in Python come out the same every
 * time. */
static char **make_env(char *const *box_env)
{
    static char *const MORE[] = {(char *)"PYTHONHASHSEED=0", NULL};
    _cleanup_buf_ struct buf b = BUF_INIT(ENV_BYTES);
    struct wire_frame f;
    struct wire_field field;
    size_t n = 0, at = 0, begin = wire_begin(&b, WIRE_EXEC);
    environment_put(&b, box_env, MORE, false);
    wire_end(&b, begin);
    if (b.failed || wire_parse(b.data, b.len, &f) <= 0)
        return NULL;
    while (wire_next(&f, &at, &field))
        n++;
    char **env = calloc(n + 2, sizeof *env);
    at = n = 0;
    while (env && wire_next(&f, &at, &field))
        if (!(env[n++] = strndup((const char *)field.data, field.size)))
            return list_free(env);
#ifdef HUTCH_WEAKEN
    if (env && weakened("guest") &&
        asprintf(&env[n], "HUTCH_WEAKEN=%s", getenv("HUTCH_WEAKEN")) < 0)
        env[n] = NULL;
#endif
    return env;
}

/* The last of what it prints is kept, to explain why it did not start. Not waited for: something
 * that it started may have the pipe, too. */
static void listen_to(struct hatching *h)
{
    ssize_t n = read(h->voice, h->printed + h->n_printed, VOICE_KEPT);
    if (n <= 0) {
        close(TAKE_FD(h->voice));
        return;
    }
    h->n_printed += (size_t)n;
    if (h->n_printed > VOICE_KEPT) {
        memmove(h->printed, h->printed + h->n_printed - VOICE_KEPT, VOICE_KEPT);
        h->n_printed = VOICE_KEPT;
    }
}

/* 1 once it has spoken or is gone. */
static int wait_for_word(struct hatching *h, struct error *err)
{
    int64_t deadline = clock_now() + READY_NS;
    for (;;) {
        struct pollfd p[] = {{.fd = h->control, .events = POLLIN},
                             {.fd = h->voice, .events = POLLIN},
                             {.fd = h->cancel, .events = POLLIN}};
        int n = poll(p, ARRAY_SIZE(p), clock_poll_ms(deadline));
        if (n < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait for the warm process");
        if (n == 0)
            return error_set(err, ETIMEDOUT, "the warm process was not ready within %d seconds",
                             (int)(READY_NS / NS_PER_S));
        if (n > 0 && p[2].revents)
            return error_set(err, ECANCELED, "interrupted");
        if (n > 0 && p[1].revents)
            listen_to(h);
        if (n > 0 && p[0].revents)
            return 0;
    }
}

/* The last line that holds something, which is where Python says what went wrong. */
static const char *last_line(char *text)
{
    size_t n = strlen(text);
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        text[--n] = 0;
    const char *nl = strrchr(text, '\n');
    return nl ? nl + 1 : text;
}

static int hatch(struct hatching *h, struct error *err)
{
    int r = wait_for_word(h, err);
    if (r < 0)
        return r;
    ssize_t n = recv(h->control, h->answer, ANSWER_MAX, 0);
    if (n == 1 && h->answer[0] == 'R')
        return 0;
    if (n > 1)
        return error_set(err, EOPNOTSUPP, "the warm process could not be prepared: %s",
                         last_line(h->answer + 1));
    while (h->voice >= 0)
        listen_to(h);
    return error_set(err, EOPNOTSUPP, "python3 of these boxes did not start: %s",
                     h->n_printed ? last_line(h->printed) : "it said nothing");
}

/*
 * Children inherit its memory, each as a copy. Memory that is shared and can be written would not
 * be copied: a child, which is the box's, could write what the process itself reads. There is none
 * unless a library that the program loaded has made it. A second thread would not be forked, in
 * whatever it held.
 */
static int check_alone(pid_t pid, struct error *err)
{
    char path[64], line[512];
    unsigned threads = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    _cleanup_fclose_ FILE *maps = fopen(path, "re");
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    _cleanup_fclose_ FILE *status = fopen(path, "re");
    if (!maps || !status)
        return error_errno(err, errno, "cannot look at the warm process's memory");
    for (bool whole = true; fgets(line, sizeof line, maps); whole = strchr(line, '\n') != NULL) {
        const char *rights = whole ? strchr(line, ' ') : NULL;
        if (rights && rights[2] == 'w' && rights[4] == 's')
            return error_set(err, EOPNOTSUPP,
                             "the warm process would share memory with its children");
    }
    while (fgets(line, sizeof line, status) && sscanf(line, "Threads: %u", &threads) != 1)
        ;
    return threads == 1 ? 0
                        : error_set(err, EOPNOTSUPP, "the warm process has %u threads", threads);
}

static int start(struct warm *w, int cancel, struct guest *ret, struct error *err)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int ends[2], voice[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_errno(err, errno, "cannot make a socket");
    _cleanup_fd_ int ours = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    if (pipe2(voice, O_CLOEXEC) < 0 || io_set_nonblock(voice[0], true) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    struct hatching h = {.control = ours, .voice = voice[0], .cancel = cancel};
    struct guest g = GUEST_NONE;
    struct backend_warm how = {.control = theirs,
                               .voice = voice[1],
                               .program = w->program,
                               .setup = w->setup,
                               .env = w->env};
    int r = w->backend->warm(w->place, &how, &g.pid, err);
    close(TAKE_FD(theirs));
    close(voice[1]);
    if (r == 0)
        r = hatch(&h, err);
    if (r == 0)
        r = check_alone(g.pid, err);
    cleanup_close(&h.voice);
    if (r < 0) {
        guest_end(&g);
        return r;
    }
    setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    g.pidfd = sys_pidfd_open(g.pid, 0);
    g.control = TAKE_FD(ours);
    *ret = g;
    return 0;
}

static void drop(struct warm **w)
{
    warm_close(*w);
}

int warm_open(const struct warm_options *o, struct warm **ret, struct error *err)
{
    _cleanup_(drop) struct warm *w = calloc(1, sizeof *w);
    if (!w)
        return error_errno(err, ENOMEM, "the warm process did not start");
    const struct box *like = snapshot_like(o->family);
    *w = (struct warm){.backend = like->backend,
                       .place = like->backend->ref(snapshot_place(o->family)),
                       .program = -1,
                       .setup = -1,
                       .reviving = cancel_lock_open(),
                       .process = GUEST_NONE};
    pthread_mutex_init(&w->lock, NULL);
    w->env = make_env(like->env);
    if (!w->env || w->reviving < 0)
        return error_errno(err, ENOMEM, "the warm process did not start");
    int r = make_file(o->program, &w->program, err);
    if (r == 0)
        r = make_file(o->setup ? o->setup : "", &w->setup, err);
    if (r == 0)
        r = start(w, o->cancel, &w->process, err);
    if (r == 0)
        *ret = TAKE_PTR(w);
    return r;
}

struct warm *warm_close(struct warm *w)
{
    if (!w)
        return NULL;
    guest_end(&w->process);
    w->backend->unref(w->place);
    cleanup_close(&w->program);
    cleanup_close(&w->setup);
    cleanup_close(&w->reviving);
    list_free(w->env);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

int warm_send(struct warm *w, const int *fds, size_t n_fds, unsigned *ret_generation)
{
    pthread_mutex_lock(&w->lock);
    *ret_generation = w->generation;
    ssize_t n =
        w->process.control < 0 ? -EPIPE : io_send_fds(w->process.control, "W", 1, fds, n_fds);
    pthread_mutex_unlock(&w->lock);
    if (n == -ECONNRESET || n == -ENOTCONN || n == -EAGAIN)
        return -EPIPE;
    return n < 0 ? (int)n : 0;
}

bool warm_is_gone(struct warm *w, unsigned generation)
{
    pthread_mutex_lock(&w->lock);
    struct pollfd p = {.fd = w->process.pidfd, .events = POLLIN};
    bool gone = w->generation != generation || w->process.pid <= 0 || poll(&p, 1, LEAVING_MS) == 1;
    pthread_mutex_unlock(&w->lock);
    return gone;
}

static unsigned generation_of(struct warm *w)
{
    pthread_mutex_lock(&w->lock);
    unsigned n = w->generation;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* Without a new process the old one stays, which is gone: whoever comes next tries again. */
static int replace(struct warm *w, int cancel, struct error *err)
{
    struct guest fresh = GUEST_NONE;
    int r = start(w, cancel, &fresh, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&w->lock);
    struct guest old = w->process;
    w->process = fresh;
    w->generation++;
    pthread_mutex_unlock(&w->lock);
    guest_end(&old);
    return 0;
}

int warm_revive(struct warm *w, unsigned generation, int cancel, struct error *err)
{
    int r = cancel_lock_take(w->reviving, cancel);
    if (r < 0)
        return error_errno(err, -r, "cannot start the warm process again");
    if (generation_of(w) == generation)
        r = replace(w, cancel, err);
    cancel_lock_give(w->reviving);
    return r;
}
