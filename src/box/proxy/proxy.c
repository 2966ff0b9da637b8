#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "io.h"
#include "proxy.h"
#include "session.h"
#include "thread.h"
#include "banned.h"

#define STACK_SIZE      (512u << 10) /* a session keeps its buffers there, about 110 KiB */
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS)

/* FREE → (acceptor) BUSY → (its thread) DONE → (acceptor joins) FREE. */
enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_DONE };

struct slot {
    struct proxy *proxy;
    enum slot_state state; /* under the lock */
    pthread_t thread;
    struct proxy_client client;
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

/* The socket is closed under the lock, since proxy_set_rules() may shut it down. */
static void *slot_thread(void *data)
{
    struct slot *slot = data;
    struct proxy *p = slot->proxy;

    proxy_session_run(&p->context, &slot->client);
    pthread_mutex_lock(&p->lock);
    close(slot->client.fd);
    slot->client.has_target = false;
    slot->state = SLOT_DONE;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Waits for a slot that can be used; NULL once the proxy is stopping. */
static struct slot *slot_await(struct proxy *p)
{
    struct slot *slot = NULL;

    pthread_mutex_lock(&p->lock);
    while (!p->stopping && !slot) {
        for (size_t i = 0; i < PROXY_CONNECTIONS_MAX && !slot; i++)
            if (p->slots[i].state != SLOT_BUSY)
                slot = &p->slots[i];
        if (!slot)
            pthread_cond_wait(&p->changed, &p->lock);
    }
    bool joins = slot && slot->state == SLOT_DONE;
    if (slot)
        slot->state = SLOT_FREE;
    pthread_mutex_unlock(&p->lock);
    if (joins)
        pthread_join(slot->thread, NULL);
    return slot;
}

static int proxy_thread_start(pthread_t *ret, void *(*run)(void *), void *data)
{
    pthread_attr_t attr;

    int r = pthread_attr_init(&attr);
    if (r != 0)
        return -r;
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    r = thread_start(ret, &attr, run, data);
    pthread_attr_destroy(&attr);
    return r;
}

static void *acceptor_thread(void *data)
{
    struct proxy *p = data;
    struct slot *slot;

    while ((slot = slot_await(p))) {
        if (proxy_wait(p->listen_fd, POLLIN, p->context.stop_fd, 0) < 0)
            break;
        int client = accept4(p->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) {
            /* Out of descriptors or memory: pause, or this would be a busy loop. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                proxy_wait(-1, 0, p->context.stop_fd, clock_now() + ACCEPT_PAUSE_NS);
            continue;
        }
        /* The state is set first: the thread may be done before the call returns. */
        slot->proxy = p;
        slot->client = (struct proxy_client){.fd = client, .lock = &p->lock};
        slot->state = SLOT_BUSY;
        if (proxy_thread_start(&slot->thread, slot_thread, slot) < 0) {
            slot->state = SLOT_FREE;
            close(client);
        }
    }
    for (size_t i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        pthread_mutex_lock(&p->lock);
        bool used = p->slots[i].state != SLOT_FREE;
        pthread_mutex_unlock(&p->lock);
        if (used)
            pthread_join(p->slots[i].thread, NULL);
    }
    return NULL;
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

struct proxy *proxy_start(int listen_fd, const struct proxy_rules *rules, struct error *err)
{
    struct proxy *p = calloc(1, sizeof *p);
    if (!p) {
        error_errno(err, ENOMEM, "cannot start the network proxy");
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->listen_fd = listen_fd;
    p->context = (struct proxy_context){.policy = proxy_policy_new(rules, err),
                                        .resolver = proxy_resolver_new(),
                                        .stop_fd = eventfd(0, EFD_CLOEXEC)};
    int r = p->context.resolver && p->context.stop_fd >= 0 ? 0 : -ENOMEM;
    if (r == 0)
        r = io_set_nonblock(listen_fd, true);
    if (r == 0 && p->context.policy)
        r = proxy_thread_start(&p->acceptor, acceptor_thread, p);
    if (r == 0 && p->context.policy)
        return p;
    if (p->context.policy)
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
        if (s->state == SLOT_BUSY && s->client.has_target &&
            !proxy_policy_allows(p->context.policy, &s->client.target))
            shutdown(s->client.fd, SHUT_RDWR);
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
