/* The owner's calls: open, close, what there is to know. Commands are in exec.c, snapshots in snapshot.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "apply.h"
#include "backend.h"
#include "clock.h"
#include "proxy/proxy.h"
#include "box_private.h"
#include "banned.h"

/* What a box writes is kept in memory: on a small host the default is half of it. */
static uint64_t default_disk(void)
{
    struct sysinfo info;
    uint64_t half = sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit / 2;
    return half < 1ULL << 30 ? half >> 20 << 20 : 1ULL << 30;
}

void box_options_default(struct box_options *o)
{
    *o = (struct box_options){
        .mode = BOX_COW,
        .net = BOX_NET_OFF,
        .limits =
            {
                .timeout_ns = 600 * NS_PER_S,
                .memory = 512ULL << 20,
                .pids = 256,
                .files = 1024,
                .disk = default_disk(),
                .output = 1ULL << 20,
                .output_total = 64ULL << 30,
            },
    };
}

static char **copy_list(const char *const *list, size_t n)
{
    char **copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(list[i]);
        if (!copy[i])
            return list_free(copy);
    }
    return copy;
}

char **list_free(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
    return NULL;
}

char **list_copy(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return copy_list((const char *const *)list, n);
}

static int64_t real_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Programs in the box find the proxy by the variables that they all know. */
static const char *const PROXY_ENV[] = {
    "http_proxy=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128",
    "HTTP_PROXY=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128",
    "no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1",
};

static char **make_env(const struct box_options *o)
{
    const char *list[BOX_ENV_MAX + ARRAY_SIZE(PROXY_ENV)];
    size_t n = 0;
    for (size_t i = 0; o->net == BOX_NET_ALLOW && i < ARRAY_SIZE(PROXY_ENV); i++)
        list[n++] = PROXY_ENV[i];
    for (size_t i = 0; i < o->n_env; i++)
        list[n++] = o->env[i];
    return copy_list(list, n);
}

struct box *box_new(void)
{
    struct box *b = calloc(1, sizeof *b);
    if (b) {
        b->backend = &BACKEND_NS;
        b->folder = -1;
        pthread_rwlock_init(&b->frozen, NULL);
    }
    return b;
}

static int keep_options(struct box *b, const struct box_options *o, struct error *err)
{
    b->limits = o->limits;
    b->mode = o->mode;
    b->since_ns = real_time();
    b->env = make_env(o);
    b->allow = copy_list(o->allow, o->n_allow);
    b->n_allow = o->n_allow;
    b->workspace = o->workspace ? strdup(o->workspace) : NULL;
    if (!b->env || !b->allow || (o->workspace && !b->workspace))
        return error_errno(err, ENOMEM, "the box did not start");
    if (o->workspace) {
        b->folder = open(o->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (b->folder < 0)
            return error_errno(err, errno, "cannot open the folder %s", o->workspace);
    }
    return 0;
}

int box_start_proxy(struct box *b, struct error *err)
{
    int r = b->backend->ready(b->place, err);
    if (r < 0)
        return r;
    int listener = b->backend->listener(b->place);
    if (listener < 0)
        return 0;
    int own = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return error_errno(err, errno, "cannot start the network proxy");
    b->proxy = proxy_start(own, (const char *const *)b->allow, b->n_allow, err);
    return b->proxy ? 0 : -EIO;
}

static void drop_box(struct box **b)
{
    box_close(*b);
}

int box_begin(const struct box_options *o, struct box **ret, struct error *err)
{
    _cleanup_(drop_box) struct box *b = box_new();
    if (!b)
        return error_errno(err, ENOMEM, "the box did not start");
    int r = keep_options(b, o, err);
    if (r == 0)
        r = b->backend->open(o, &b->place, err);
    if (r == 0 && o->net == BOX_NET_ALLOW)
        r = box_start_proxy(b, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

int box_open(const struct box_options *o, struct box **ret, struct error *err)
{
    _cleanup_(drop_box) struct box *b = NULL;
    int r = box_begin(o, &b, err);
    if (r == 0 && b)
        r = b->backend->ready(b->place, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

struct box *box_close(struct box *b)
{
    if (!b)
        return NULL;
    if (b->proxy)
        proxy_stop(b->proxy);
    if (b->place) {
        b->backend->end(b->place);
        b->backend->unref(b->place);
    }
    cleanup_close(&b->folder);
    apply_memory_free(b->applied);
    list_free(b->env);
    list_free(b->allow);
    free(b->workspace);
    pthread_rwlock_destroy(&b->frozen);
    free(b);
    return NULL;
}

void box_begin_now(struct box *b)
{
    b->since_ns = real_time();
}

static int tell_unreached(int r, struct error *err)
{
    if (r == -EPIPE || r == -ECONNRESET)
        return error_set(err, EPIPE, "the box has ended");
    return r < 0 ? error_errno(err, -r, "cannot reach the box") : 0;
}

int box_connect(struct box *b, int *ret_fd, struct error *err)
{
    int r = b->backend->ready(b->place, err);
    if (r < 0)
        return r;
    r = guest_connect(b->backend->guest(b->place), NULL, NULL, 0, ret_fd);
    return tell_unreached(r, err);
}

int box_request(struct box *b, struct buf *request, int *ret_fd, struct error *err)
{
    int r = b->backend->ready(b->place, err);
    if (r < 0)
        return r;
    pthread_rwlock_rdlock(&b->frozen);
    r = guest_connect(b->backend->guest(b->place), request, NULL, 0, ret_fd);
    pthread_rwlock_unlock(&b->frozen);
    return tell_unreached(r, err);
}

int box_give(struct box *b, int stream, struct error *err)
{
    int r = b->backend->ready(b->place, err);
    if (r < 0)
        return r;
    pthread_rwlock_rdlock(&b->frozen);
    r = guest_give(b->backend->guest(b->place), stream);
    pthread_rwlock_unlock(&b->frozen);
    return tell_unreached(r, err);
}

/* Between calls only background commands run; a box whose processes use more memory than it may have is
 * ended. */
int box_tick(struct box *b)
{
    struct usage now;
    if (b->backend->ready(b->place, NULL) < 0)
        return 0;
    b->backend->usage(b->place, true, &now);
    if (!now.counted || now.memory <= b->limits.memory)
        return 0;
    b->backend->kill(b->place);
    return -ENOMEM;
}

static int ping(const struct guest *g)
{
    _cleanup_buf_ struct buf request = BUF_INIT(64);
    _cleanup_fd_ int fd = -1;
    struct wire_frame answer;
    wire_end(&request, wire_begin(&request, WIRE_PING));
    int r = guest_connect_patient(g, &request, &fd);
    if (r < 0)
        return r;
    struct wire_reader reader = WIRE_READER_INIT(fd);
    bool there = wire_read(&reader, &answer) == 1 && answer.type == WIRE_RESULT;
    wire_reader_free(&reader);
    return there ? 0 : -EPIPE;
}

int box_check(struct box *b, struct error *err)
{
    struct usage now;
    int r = b->backend->ready(b->place, err);
    if (r == 0)
        r = ping(b->backend->guest(b->place));
    if (r == 0)
        return 0;
    if (r != -EPIPE && r != -ECONNRESET) /* it is the host that cannot go on */
        return error_errno(err, -r, "cannot reach the box");
    b->backend->usage(b->place, false, &now);
    if (now.oom_kills)
        return error_set(err, EPIPE, "the box has ended: it needed more memory than it may have");
    if (now.disk_full)
        return error_set(err, EPIPE, "the box has ended: its disk is full");
    if (now.pids_hits)
        return error_set(err, EPIPE, "the box has ended: it needed more processes than it may have");
    return error_set(err, EPIPE, "the box has ended");
}

pid_t box_pid(struct box *b)
{
    return b->backend->ready(b->place, NULL) < 0 ? 0 : b->backend->guest(b->place)->pid;
}

const char *box_workspace(const struct box *b)
{
    return b->workspace ? b->workspace : "";
}

enum box_mode box_mode_of(const struct box *b)
{
    return b->mode;
}
