#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "clock.h"
#include "io.h"
#include "proxy.h"
#include "session.h"
#include "wait.h"
#include "banned.h"

#define STACK_SIZE      (512u << 10) /* a session keeps its buffers there, about 110 KiB */
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS)

/* FREE → (acceptor) BUSY → (its thread) DONE → (acceptor joins) FREE. */
enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_DONE };

struct slot {
    struct proxy *proxy;
    enum slot_state state; /* under the lock */
    pthread_t thread;
    int client;
    bool has_target; /* under the lock, as: */
    struct proxy_target target;
};

struct proxy {
    struct proxy_context context;
    int listen_fd;
    pthread_t acceptor;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a slot is done, or stopping */
    bool stopping;          /* under the lock; the same as context.stop_fd readable */
    struct slot slots[PROXY_CONNECTIONS_MAX];
};

static void slot_targets(void *data, const struct proxy_target *target)
{
    struct slot *slot = data;
    pthread_mutex_lock(&slot->proxy->lock);
    slot->has_target = true;
    slot->target = *target;
    pthread_mutex_unlock(&slot->proxy->lock);
}

/* The socket is closed under the lock: proxy_set_rules() shuts it down. */
static void *run_slot(void *data)
{
    struct slot *slot = data;
    const struct proxy_session_watch watch = {.targets = slot_targets, .data = slot};

    proxy_session_run(&slot->proxy->context, slot->client, &watch);
    pthread_mutex_lock(&slot->proxy->lock);
    close(slot->client);
    slot->has_target = false;
    slot->state = SLOT_DONE;
    pthread_cond_signal(&slot->proxy->changed);
    pthread_mutex_unlock(&slot->proxy->lock);
    return NULL;
}

static struct slot *find_slot(struct proxy *p)
{
    for (size_t i = 0; i < PROXY_CONNECTIONS_MAX; i++)
        if (p->slots[i].state != SLOT_BUSY)
            return &p->slots[i];
    return NULL;
}

/* Waits for a slot that can be used; NULL once the proxy is stopping. */
static struct slot *await_slot(struct proxy *p)
{
    struct slot *slot = NULL;
    enum slot_state state = SLOT_FREE;

    pthread_mutex_lock(&p->lock);
    while (!p->stopping && !(slot = find_slot(p)))
        pthread_cond_wait(&p->changed, &p->lock);
    if (p->stopping)
        slot = NULL;
    if (slot) {
        state = slot->state;
        slot->state = SLOT_FREE;
    }
    pthread_mutex_unlock(&p->lock);
    if (state == SLOT_DONE)
        pthread_join(slot->thread, NULL);
    return slot;
}

static int start_thread(pthread_t *ret, void *(*run)(void *), void *data)
{
    pthread_attr_t attr;

    int r = pthread_attr_init(&attr);
    if (r != 0)
        return -r;
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    r = pthread_create(ret, &attr, run, data);
    pthread_attr_destroy(&attr);
    return -r;
}

/* The state is set first: the thread may be done before this returns. */
static void start_slot(struct proxy *p, struct slot *slot, int client)
{
    slot->proxy = p;
    slot->client = client;
    slot->state = SLOT_BUSY;
    if (start_thread(&slot->thread, run_slot, slot) < 0) {
        slot->state = SLOT_FREE;
        close(client);
    }
}

/* Returns the connection, or -1 when there is none to be had; then it is worth trying again, if not
 * at once.
 */
static int accept_client(struct proxy *p)
{
    int fd = accept4(p->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        proxy_wait(-1, 0, p->context.stop_fd, clock_now() + ACCEPT_PAUSE_NS);
    return fd;
}

static void join_slots(struct proxy *p)
{
    for (size_t i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        pthread_mutex_lock(&p->lock);
        bool used = p->slots[i].state != SLOT_FREE;
        pthread_mutex_unlock(&p->lock);
        if (used)
            pthread_join(p->slots[i].thread, NULL);
    }
}

static void *run_acceptor(void *data)
{
    struct proxy *p = data;
    struct slot *slot;

    while ((slot = await_slot(p))) {
        if (proxy_wait(p->listen_fd, POLLIN, p->context.stop_fd, 0) < 0)
            break;
        int client = accept_client(p);
        if (client >= 0)
            start_slot(p, slot, client);
    }
    join_slots(p);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start_acceptor(struct proxy *p)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = start_thread(&p->acceptor, run_acceptor, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

static void proxy_free(struct proxy *p)
{
    proxy_resolver_unref(p->context.resolver);
    if (p->context.stop_fd >= 0)
        close(p->context.stop_fd);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    proxy_policy_free(p->context.policy);
    free(p);
}

static struct proxy *proxy_new(int listen_fd, const struct proxy_rules *rules, struct error *err)
{
    struct proxy *p = calloc(1, sizeof *p);
    if (!p) {
        error_errno(err, ENOMEM, "cannot make the network proxy");
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->listen_fd = listen_fd;
    p->context = (struct proxy_context){.policy = proxy_policy_new(rules, err),
                                        .resolver = proxy_resolver_new(),
                                        .stop_fd = eventfd(0, EFD_CLOEXEC)};
    if (p->context.policy && p->context.resolver && p->context.stop_fd >= 0)
        return p;
    if (p->context.policy)
        error_errno(err, ENOMEM, "cannot make the network proxy");
    proxy_free(p);
    return NULL;
}

struct proxy *proxy_start(int listen_fd, const struct proxy_rules *rules, struct error *err)
{
    struct proxy *p = proxy_new(listen_fd, rules, err);
    if (!p)
        return NULL;
    int r = io_set_nonblock(listen_fd, true);
    if (r == 0)
        r = start_acceptor(p);
    if (r == 0)
        return p;
    error_errno(err, -r, "cannot start the network proxy");
    proxy_free(p);
    return NULL;
}

int proxy_set_rules(struct proxy *p, const struct proxy_rules *rules, struct error *err)
{
    int r = proxy_policy_set(p->context.policy, rules, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        struct slot *s = &p->slots[i];
        if (s->state == SLOT_BUSY && s->has_target &&
            !proxy_policy_allows(p->context.policy, &s->target))
            shutdown(s->client, SHUT_RDWR);
    }
    pthread_mutex_unlock(&p->lock);
    return 0;
}

uint64_t proxy_refused(struct proxy *p)
{
    return p ? proxy_policy_refused(p->context.policy) : 0;
}

size_t proxy_refusals(struct proxy *p, uint64_t since, struct proxy_refusal *ret, size_t max)
{
    return p ? proxy_policy_refusals(p->context.policy, since, ret, max) : 0;
}

struct proxy *proxy_stop(struct proxy *p)
{
    if (!p)
        return NULL;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    eventfd_write(p->context.stop_fd, 1);
    pthread_join(p->acceptor, NULL);
    close(p->listen_fd);
    proxy_free(p);
    return NULL;
}
