/*
 * The workers of this host: starts them on the local socket, replaces those that die, and passes
 * their messages on with a prefix. One thread does all of it, because a child ends with the thread
 * that started it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box_host.h"
#include "child.h"
#include "io.h"
#include "server.h"
#include "banned.h"

#define SLOTS          "4" /* jobs at once of each */
#define SOON_SECONDS   5   /* a worker that ends so early was not well */
#define DELAY_FIRST_MS 200
#define DELAY_MAX_MS   30000
#define END_SECONDS    8
#define LINE_MAX_BYTES 4096
#define WORKERS_MAX    256

struct worker_child {
    unsigned number;
    char name[48];      /* of this process, in its leases */
    struct child child; /* pid 0: waits for its time */
    int64_t started, start_at, delay_ms;
    struct buf line;
};

struct supervisor {
    struct serve *serve;
    pthread_t thread;
    int wake; /* readable: end them */
    unsigned n_started;
    atomic_bool ended;
    char program[LIBEXEC_PATH_MAX], server[4200];
    size_t n;
    struct worker_child children[];
};

static void worker_start(struct supervisor *v, struct worker_child *w)
{
    char *argv[] = {(char *)"hutch-worker",
                    (char *)"worker",
                    (char *)"--server",
                    v->server,
                    (char *)"--slots",
                    (char *)SLOTS,
                    (char *)"--name",
                    w->name,
                    NULL};
    struct child_options o = {.command = v->program, .argv = argv, .env = environ, .cwd = "/"};
    struct error err = {0};
    snprintf(w->name, sizeof w->name, "local-%d-%u", (int)getpid(), v->n_started++);
    w->started = clock_now();
    w->start_at = 0;
    if (child_start(&o, &w->child, &err) == 0)
        return;
    log_message(LOG_WARN, "cannot start worker %u: %s", w->number, err.text);
    w->child = CHILD_NONE;
    w->start_at = clock_now() + DELAY_MAX_MS * NS_PER_MS;
}

/* Prints whole lines; what is longer is cut into several. */
static void worker_pass_on(struct worker_child *w, int *fd)
{
    uint8_t data[4096];
    ssize_t n = read(*fd, data, sizeof data);
    if (n == 0) {
        close(*fd);
        *fd = -1;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (data[i] != '\n')
            buf_append(&w->line, &data[i], 1);
        if (data[i] == '\n' || w->line.len == LINE_MAX_BYTES) {
            char *text = foreign_text((const char *)w->line.data, w->line.len, LINE_MAX_BYTES);
            dprintf(STDERR_FILENO, "worker %u: %s\n", w->number, text ? text : "");
            free(text);
            w->line.len = 0;
        }
    }
}

static void worker_ended(struct supervisor *v, struct worker_child *w)
{
    int status = child_end(&w->child, 0);
    jobs_worker_lost(v->serve->jobs, w->name);
    bool soon = clock_now() - w->started < SOON_SECONDS * NS_PER_S;
    w->child = CHILD_NONE;
    w->delay_ms = !soon ? DELAY_FIRST_MS : 2 * w->delay_ms;
    w->delay_ms = w->delay_ms > DELAY_MAX_MS ? DELAY_MAX_MS : w->delay_ms;
    w->start_at = clock_now() + w->delay_ms * NS_PER_MS;
    log_message(LOG_WARN, "worker %u ended (%s %d); starting another in %lld ms", w->number,
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                (long long)w->delay_ms);
}

/* Waits until something happens to a worker, or one is to be started; false: they are to end. */
static bool supervisor_wait(struct supervisor *v)
{
    struct pollfd fds[1 + 3 * WORKERS_MAX] = {{v->wake, POLLIN, 0}};
    int64_t next = 0;
    for (size_t i = 0; i < v->n; i++) {
        struct worker_child *w = &v->children[i];
        bool runs = w->child.pid > 0;
        fds[1 + 3 * i] = (struct pollfd){runs ? w->child.pidfd : -1, POLLIN, 0};
        fds[2 + 3 * i] = (struct pollfd){runs ? w->child.out : -1, POLLIN, 0};
        fds[3 + 3 * i] = (struct pollfd){runs ? w->child.err : -1, POLLIN, 0};
        if (!runs && (!next || w->start_at < next))
            next = w->start_at;
    }
    if (poll(fds, 1 + 3 * v->n, clock_poll_ms(next)) < 0)
        return true;
    for (size_t i = 0; i < v->n; i++) {
        struct worker_child *w = &v->children[i];
        if (fds[2 + 3 * i].revents)
            worker_pass_on(w, &w->child.out);
        if (fds[3 + 3 * i].revents)
            worker_pass_on(w, &w->child.err);
        if (fds[1 + 3 * i].revents)
            worker_ended(v, w);
    }
    return !fds[0].revents;
}

static void supervisor_end_all(struct supervisor *v)
{
    int64_t until = clock_now() + END_SECONDS * NS_PER_S;
    for (size_t i = 0; i < v->n; i++)
        if (v->children[i].child.pid > 0)
            kill(v->children[i].child.pid, SIGTERM);
    for (size_t i = 0; i < v->n; i++) {
        struct worker_child *w = &v->children[i];
        if (w->child.pid <= 0)
            continue;
        struct pollfd fds[] = {{w->child.pidfd, POLLIN, 0}, {w->child.err, POLLIN, 0}};
        while (poll(fds, 2, clock_poll_ms(until)) > 0 && !fds[0].revents && w->child.err >= 0) {
            worker_pass_on(w, &w->child.err);
            fds[1].fd = w->child.err;
        }
        child_end(&w->child, 0);
    }
}

static void *supervisor_run(void *data)
{
    struct supervisor *v = data;
    do {
        for (size_t i = 0; i < v->n; i++)
            if (v->children[i].child.pid <= 0 && v->children[i].start_at <= clock_now())
                worker_start(v, &v->children[i]);
    } while (supervisor_wait(v));
    supervisor_end_all(v);
    v->ended = true;
    return NULL;
}

int supervisor_start(struct serve *s, struct supervisor **ret, struct error *err)
{
    size_t n = s->options->workers > WORKERS_MAX ? WORKERS_MAX : s->options->workers;
    if (n == 0)
        return 0;
    struct supervisor *v = calloc(1, sizeof *v + n * sizeof v->children[0]);
    if (!v)
        return error_set(err, ENOMEM, "out of memory");
    v->serve = s;
    v->n = n;
    v->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    snprintf(v->server, sizeof v->server, "unix:%s/worker.sock", s->options->data);
    for (size_t i = 0; i < n; i++)
        v->children[i] = (struct worker_child){.number = (unsigned)i + 1,
                                               .child = CHILD_NONE,
                                               .delay_ms = DELAY_FIRST_MS,
                                               .line = BUF_INIT(LINE_MAX_BYTES)};
    int r = v->wake < 0 ? error_errno(err, errno, "cannot start workers")
                        : libexec_find("hutch-worker", v->program, err);
    if (r == 0 && (r = thread_start(&v->thread, NULL, supervisor_run, v)) < 0)
        error_errno(err, -r, "cannot start workers");
    if (r < 0) {
        if (v->wake >= 0)
            close(v->wake);
        free(v);
        return r;
    }
    *ret = v;
    return 0;
}

void supervisor_stop(struct supervisor *v)
{
    if (v)
        eventfd_write(v->wake, 1);
}

bool supervisor_has_ended(const struct supervisor *v)
{
    return !v || v->ended;
}

void supervisor_free(struct supervisor *v)
{
    if (!v)
        return;
    supervisor_stop(v);
    pthread_join(v->thread, NULL);
    for (size_t i = 0; i < v->n; i++)
        buf_free(&v->children[i].line);
    close(v->wake);
    free(v);
}
