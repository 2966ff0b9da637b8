/*
 * A box of this process: opened over a machine of its backend, closed, asked what there is to know.
 * Commands are in exec.c, snapshots and views in snapshot.c, the network in net/network.c, whether
 * the guest is well in pulse.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apply.h"
#include "local_box.h"
#include "proxy/proxy.h"
#include "thread.h"
#include "banned.h"

#define LIMIT_FIELDS (BOX_SET_MEMORY | BOX_SET_CPUS | BOX_SET_PIDS | BOX_SET_TIMEOUT)

char **list_copy_n(const char *const *list, size_t n)
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
    return list_copy_n((const char *const *)list, n);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t box_time(void)
{
    return clock_ns(CLOCK_REALTIME_COARSE);
}

int64_t box_time_after_now(void)
{
    int64_t now = clock_ns(CLOCK_REALTIME), coarse;
    while ((coarse = box_time()) <= now)
        usleep(500);
    return coarse;
}

struct box *box_new(void)
{
    struct box *b = calloc(1, sizeof *b);
    if (b) {
        b->ops = &LOCAL_BOX;
        b->folder = b->registry = -1;
        b->pulse = BOX_PULSE_INIT;
        pthread_rwlock_init(&b->frozen, NULL);
        pthread_mutex_init(&b->settings, NULL);
    }
    return b;
}

/* No process of a box that begins now looks a name up before the coarse clock of change times has
 * ticked. */
void box_begin_now(struct box *b)
{
    b->fresh_ns = clock_ns(CLOCK_REALTIME) + 1;
}

int box_begin(const struct box_options *o, struct box **ret, struct error *err)
{
    _cleanup_box_ struct box *b = box_new();
    if (!b)
        return error_errno(err, ENOMEM, "the box did not start");
    b->limits = o->limits;
    b->limits.sockets = o->net->uses_host ? 0 : limit_sockets(&o->limits);
    b->mode = o->mode;
    box_begin_now(b);
    b->own_env = list_copy_n(o->env, o->n_env);
    b->workspace = o->workspace ? strdup(o->workspace) : NULL;
    if (!b->own_env || box_network_init(b, o) < 0 || (o->workspace && !b->workspace))
        return error_errno(err, ENOMEM, "the box did not start");
    if (o->workspace) {
        b->folder = open(o->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (b->folder < 0)
            return error_errno(err, errno, "cannot open the folder %s", o->workspace);
    }
    int r = o->backend->open(o, &b->machine, err);
    if (r == 0 && box_has_proxy(o))
        r = box_network_start(b, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

int box_open(const struct box_options *o, struct box **ret, struct error *err)
{
    _cleanup_box_ struct box *b = NULL;
    int r = box_begin(o, &b, err);
    if (r == 0 && b)
        r = box_wait(b, err);
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
    box_pulse_end(&b->pulse);
    if (b->machine) {
        b->machine->backend->close(b->machine);
        machine_unref(b->machine);
    }
    cleanup_close(&b->folder);
    cleanup_close(&b->registry);
    seen_unref(b->seen);
    applied_log_free(b->log);
    list_free(b->env);
    list_free(b->own_env);
    box_network_free(&b->network);
    pthread_mutex_destroy(&b->settings);
    free(b->workspace);
    pthread_rwlock_destroy(&b->frozen);
    free(b);
    return NULL;
}

static int local_connect(struct box *b, struct buf *request, int *ret_fd, struct error *err)
{
    int r = box_wait(b, err);
    if (r < 0)
        return r;
    pthread_rwlock_rdlock(&b->frozen);
    r = b->machine->backend->connect(b->machine, request, NULL, 0, ret_fd);
    pthread_rwlock_unlock(&b->frozen);
    return box_unreached(b, r, err);
}

pid_t box_pid(struct box *b)
{
    struct machine_status status;
    if (box_wait(b, NULL) < 0)
        return 0;
    b->machine->backend->status(b->machine, 0, &status);
    return status.pid;
}

static int box_set_limits(struct box *b, const struct box_limits *l, unsigned fields,
                          struct error *err)
{
    const struct backend *backend = b->machine->backend;
    struct box_limits next = b->limits;
    if (fields & BOX_SET_MEMORY)
        next.memory = l->memory;
    if (fields & BOX_SET_CPUS)
        next.cpus = l->cpus;
    if (fields & BOX_SET_PIDS)
        next.pids = l->pids;
    if (fields & BOX_SET_TIMEOUT)
        next.timeout_ns = l->timeout_ns;
    next.sockets = b->limits.sockets ? limit_sockets(&next) : 0;
    int r = backend->set_limits ? backend->set_limits(b->machine, &next, fields, err)
                                : backend_cannot(backend, "change the limits of a box", err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&b->settings);
    b->limits = next;
    pthread_mutex_unlock(&b->settings);
    return 0;
}

static int local_adjust(struct box *b, const struct box_options *o, unsigned fields,
                        struct error *err)
{
    int r = fields & LIMIT_FIELDS ? box_set_limits(b, &o->limits, fields, err) : 0;
    if (r == 0 && fields & (BOX_SET_NET | BOX_SET_NET_ADD))
        r = box_network_set(b, o, fields & BOX_SET_NET_ADD, err);
    return r;
}

int box_inherit_settings(struct box *fresh, struct box *current, struct error *err)
{
    const struct box_limits *a = &fresh->limits, *b = &current->limits;
    unsigned fields = (a->memory != b->memory ? BOX_SET_MEMORY : 0) |
                      (a->cpus != b->cpus ? BOX_SET_CPUS : 0) |
                      (a->pids != b->pids ? BOX_SET_PIDS : 0) |
                      (a->timeout_ns != b->timeout_ns ? BOX_SET_TIMEOUT : 0);
    int r = fields ? box_set_limits(fresh, b, fields, err) : 0;
    return r < 0 ? r : box_network_inherit(fresh, current, err);
}

struct box_limits box_limits_of(struct box *b)
{
    pthread_mutex_lock(&b->settings);
    struct box_limits l = b->limits;
    pthread_mutex_unlock(&b->settings);
    return l;
}

static int local_info(struct box *b, struct box_info *ret, struct error *err)
{
    struct box_info i = {.mode = b->mode, .net = box_net_text(b), .limits = box_limits_of(b)};
    i.workspace = b->workspace ? strdup(b->workspace) : NULL;
    if (!i.net || (b->workspace && !i.workspace)) {
        box_info_free(&i);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = i;
    return 0;
}

const struct box_ops LOCAL_BOX = {
    .connect = local_connect,
    .exec = local_exec,
    .adjust = local_adjust,
    .changes = local_changes,
    .diff = local_diff,
    .apply = local_apply,
    .sync = local_sync,
    .note_seen = local_note_seen,
    .info = local_info,
};

int box_connect(struct box *b, struct buf *request, int *ret_fd, struct error *err)
{
    return b->ops->connect(b, request, ret_fd, err);
}

int box_exec(struct box *b, const struct box_command *c, struct box_result *ret, struct error *err)
{
    return b->ops->exec(b, c, ret, err);
}

int box_adjust(struct box *b, const struct box_options *o, unsigned fields, struct error *err)
{
    return b->ops->adjust(b, o, fields, err);
}

int box_changes(struct box *b, struct box_changes *ret, struct error *err)
{
    return b->ops->changes(b, ret, err);
}

int box_diff(struct box *b, bool stat, int out, struct error *err)
{
    return b->ops->diff(b, stat, out, err);
}

int box_apply(struct box *b, const struct apply_options *o, const struct apply_report *report,
              struct error *err)
{
    return b->ops->apply(b, o, report, err);
}

int box_sync(struct box *b, const struct apply_options *o, const struct apply_report *report,
             struct error *err)
{
    return b->ops->sync(b, o, report, err);
}

int box_note_seen(struct box *b, struct error *err)
{
    return b->ops->note_seen(b, err);
}

int box_info(struct box *b, struct box_info *ret, struct error *err)
{
    return b->ops->info(b, ret, err);
}

void box_info_free(struct box_info *i)
{
    free(i->workspace);
    free(i->net);
    i->workspace = i->net = NULL;
}

const char *box_id(const struct box *b)
{
    return b->registry >= 0 ? b->id.text : NULL;
}

const char *box_workspace(const struct box *b)
{
    return b->workspace ? b->workspace : "";
}

enum box_mode box_mode_of(const struct box *b)
{
    return b->mode;
}
