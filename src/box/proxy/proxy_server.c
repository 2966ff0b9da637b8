/*
 * One thread accepts, and one serves each connection, PROXY_CONNECTIONS_MAX at most; more wait to
 * be accepted. Every wait has a limit and ends at once when the proxy stops.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "io.h"
#include "session.h"
#include "thread.h"
#include "banned.h"

#define STACK_SIZE      (512u << 10) /* a session keeps its buffers there, about 110 KiB */
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS)

int proxy_wait(const struct proxy *p, int fd, short events, int64_t deadline)
{
    int n = cancel_wait(fd, events, clock_poll_ms(deadline), p->stop_fd);
    return n == 0 ? -ETIMEDOUT : n < 0 ? n : 0;
}

/* The lock is held. */
static bool proxy_allows(const struct proxy *p, const struct proxy_target *target)
{
    bool yes = false;
    for (size_t i = 0; i < p->n_allow && !yes; i++)
        yes = proxy_allow_matches(&p->allow[i], target);
    return yes;
}

bool proxy_session_may_begin(struct proxy_session *s, const struct proxy_target *target)
{
    LOCKED(&s->proxy->lock);
    s->has_target = true;
    s->target = *target;
    return proxy_allows(s->proxy, target);
}

bool proxy_may_reach(struct proxy *p, const struct proxy_target *target,
                     const struct proxy_address *a)
{
    const struct proxy_target literal = {.host = {.kind = PROXY_HOST_ADDRESS, .address = *a},
                                         .port = target->port};
    bool named = false;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n_allow && !named; i++)
        named = proxy_allow_matches(&p->allow[i], &literal) ||
                (p->allow[i].may_be_private && proxy_allow_matches(&p->allow[i], target));
    pthread_mutex_unlock(&p->lock);
    if (named || !proxy_address_is_public(a))
        return named;

    /* An address of this machine's own, even if public: a connection from inside goes round the
     * firewall that guards it. The routing table tells; nothing is sent to this port. */
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer, self = {.any.sa_family = AF_UNSPEC};
    socklen_t peer_len = proxy_socket_address(a, 9, &peer), self_len = sizeof self;
    _cleanup_fd_ int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false; /* fail closed: it may be ours */
    if (connect(fd, &peer.any, peer_len) < 0 || getsockname(fd, &self.any, &self_len) < 0)
        return true;
    struct proxy_address own = a->family == AF_INET
                                   ? proxy_address_make(AF_INET, &self.v4.sin_addr)
                                   : proxy_address_make(AF_INET6, &self.v6.sin6_addr);
    return !proxy_address_equal(&own, a);
}

/* One slot per target; a new target replaces the one that was refused longest ago. */
void proxy_refuse(struct proxy *p, const char *target, bool is_private)
{
    LOCKED(&p->lock);
    size_t slot = 0;
    for (size_t i = 0; i < PROXY_REFUSALS_KEPT; i++) {
        if (p->refusals[i].number && strcmp(p->refusals[i].refusal.target, target) == 0) {
            slot = i;
            break;
        }
        if (p->refusals[i].number < p->refusals[slot].number)
            slot = i;
    }
    struct proxy_refusal *r = &p->refusals[slot].refusal;
    p->refusals[slot].number = ++p->n_refused;
    r->is_private = is_private;
    snprintf(r->target, sizeof r->target, "%s", target);
}

uint64_t proxy_refused(struct proxy *p)
{
    LOCKED(&p->lock);
    return p->n_refused;
}

size_t proxy_refusals(struct proxy *p, uint64_t since, struct proxy_refusal *ret, size_t max)
{
    LOCKED(&p->lock);
    size_t n = 0;
    for (size_t i = 0; i < PROXY_REFUSALS_KEPT && n < max; i++)
        if (p->refusals[i].number > since)
            ret[n++] = p->refusals[i].refusal;
    return n;
}

/* The socket is closed under the lock, since proxy_set_rules() may shut it down. */
static void *session_thread(void *data)
{
    struct proxy_session *s = data;
    proxy_session_run(s);
    LOCKED(&s->proxy->lock);
    close(s->client);
    s->has_target = false;
    s->state = SESSION_DONE;
    pthread_cond_signal(&s->proxy->changed);
    return NULL;
}

/* Waits for a session that can be used; NULL once the proxy is stopping. */
static struct proxy_session *session_await(struct proxy *p)
{
    struct proxy_session *s = NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping && !s) {
        for (size_t i = 0; i < PROXY_CONNECTIONS_MAX && !s; i++)
            if (p->sessions[i].state != SESSION_BUSY)
                s = &p->sessions[i];
        if (!s)
            pthread_cond_wait(&p->changed, &p->lock);
    }
    bool joins = s && s->state == SESSION_DONE;
    if (s)
        s->state = SESSION_FREE;
    pthread_mutex_unlock(&p->lock);
    if (joins)
        pthread_join(s->thread, NULL);
    return s;
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
    for (struct proxy_session *s; (s = session_await(p));) {
        if (proxy_wait(p, p->listen_fd, POLLIN, 0) < 0)
            break;
        int client = accept4(p->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) {
            /* Out of descriptors or memory: pause, or this would be a busy loop. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                proxy_wait(p, -1, 0, clock_now() + ACCEPT_PAUSE_NS);
            continue;
        }
        /* The state is set first: the thread may be done before the call returns. */
        pthread_mutex_lock(&p->lock);
        *s = (struct proxy_session){.proxy = p, .client = client, .state = SESSION_BUSY};
        pthread_mutex_unlock(&p->lock);
        if (proxy_thread_start(&s->thread, session_thread, s) < 0) {
            s->state = SESSION_FREE;
            close(client);
        }
    }
    for (size_t i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        pthread_mutex_lock(&p->lock);
        bool used = p->sessions[i].state != SESSION_FREE;
        pthread_mutex_unlock(&p->lock);
        if (used)
            pthread_join(p->sessions[i].thread, NULL);
    }
    return NULL;
}

static void proxy_free(struct proxy *p)
{
    cleanup_close(&p->stop_fd);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    if (p->lookups && --*p->lookups == 0)
        free(p->lookups);
    free(p->allow);
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
    p->stop_fd = eventfd(0, EFD_CLOEXEC);
    p->lookups = malloc(sizeof *p->lookups);
    if (p->lookups)
        *p->lookups = 1;
    proxy_upstreams_read(&p->upstreams);
    int r = proxy_set_rules(p, rules, err);
    if (r == 0) {
        r = p->stop_fd < 0 ? -errno : p->lookups ? io_set_nonblock(listen_fd, true) : -ENOMEM;
        if (r == 0)
            r = proxy_thread_start(&p->acceptor, acceptor_thread, p);
        if (r < 0)
            error_errno(err, -r, "cannot start the network proxy");
    }
    if (r == 0)
        return p;
    proxy_free(p);
    return NULL;
}

int proxy_set_rules(struct proxy *p, const struct proxy_rules *rules, struct error *err)
{
    size_t n = rules->n_allow + rules->n_hosts;
    struct proxy_allow *allow = calloc(n ? n : 1, sizeof *allow);
    if (!allow)
        return error_errno(err, ENOMEM, "cannot read the list of allowed hosts");
    for (size_t i = 0; i < n; i++) {
        bool of_packages = i >= rules->n_allow;
        const char *spec = of_packages ? rules->hosts[i - rules->n_allow] : rules->allow[i];
        int r = proxy_parse_allow(spec, &allow[i], err);
        if (r < 0) {
            free(allow);
            return r;
        }
        allow[i].may_be_private = of_packages;
    }
    LOCKED(&p->lock);
    free(p->allow);
    p->allow = allow;
    p->n_allow = n;
    for (size_t i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        const struct proxy_session *s = &p->sessions[i];
        if (s->state == SESSION_BUSY && s->has_target && !proxy_allows(p, &s->target))
            shutdown(s->client, SHUT_RDWR);
    }
    return 0;
}

struct proxy *proxy_stop(struct proxy *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    eventfd_write(p->stop_fd, 1);
    pthread_join(p->acceptor, NULL);
    close(p->listen_fd);
    proxy_free(p);
    return NULL;
}
