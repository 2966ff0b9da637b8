#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>

#include "cleanup.h"
#include "resolve.h"
#include "wait.h"
#include "banned.h"

#define LOOKUPS_MAX 64
#define STACK_SIZE  (256u << 10)

/* Lives as long as the proxy or a lookup that it left behind. */
struct proxy_resolver {
    atomic_uint refs;
    atomic_uint lookups;
};

/* Shared by who asks and the thread that looks up; the last one frees it. */
struct lookup {
    atomic_uint refs;
    struct proxy_resolver *resolver;
    int done_fd;
    atomic_int result; /* number of addresses or negative errno, once done_fd is readable */
    struct proxy_address addresses[PROXY_ADDRESSES_MAX];
    char name[PROXY_NAME_MAX + 1];
};

struct proxy_resolver *proxy_resolver_new(void)
{
    struct proxy_resolver *r = calloc(1, sizeof *r);
    if (r)
        atomic_init(&r->refs, 1);
    return r;
}

struct proxy_resolver *proxy_resolver_unref(struct proxy_resolver *r)
{
    if (r && atomic_fetch_sub(&r->refs, 1) == 1)
        free(r);
    return NULL;
}

static void lookup_unref(struct lookup *l)
{
    if (atomic_fetch_sub(&l->refs, 1) != 1)
        return;
    close(l->done_fd);
    atomic_fetch_sub(&l->resolver->lookups, 1);
    proxy_resolver_unref(l->resolver);
    free(l);
}

/* In the system's order of preference (RFC 6724). */
static int collect(const struct addrinfo *list, struct proxy_address *ret)
{
    int n = 0;
    for (const struct addrinfo *i = list; i && n < PROXY_ADDRESSES_MAX; i = i->ai_next) {
        if (i->ai_family == AF_INET)
            ret[n++] =
                proxy_address_make(AF_INET, &((const struct sockaddr_in *)i->ai_addr)->sin_addr);
        else if (i->ai_family == AF_INET6)
            ret[n++] =
                proxy_address_make(AF_INET6, &((const struct sockaddr_in6 *)i->ai_addr)->sin6_addr);
    }
    return n ? n : -ENOENT;
}

static void *run_lookup(void *data)
{
    struct lookup *l = data;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int result = -ENOENT;

    if (getaddrinfo(l->name, NULL, &hints, &list) == 0) {
        result = collect(list, l->addresses);
        freeaddrinfo(list);
    }
    atomic_store(&l->result, result);
    eventfd_write(l->done_fd, 1);
    lookup_unref(l);
    return NULL;
}

static struct lookup *lookup_new(struct proxy_resolver *r, const char *name)
{
    struct lookup *l = calloc(1, sizeof *l);
    int fd = eventfd(0, EFD_CLOEXEC);

    if (!l || fd < 0) {
        if (fd >= 0)
            close(fd);
        free(l);
        return NULL;
    }
    atomic_init(&l->refs, 1);
    atomic_fetch_add(&r->refs, 1);
    atomic_fetch_add(&r->lookups, 1);
    l->resolver = r;
    l->done_fd = fd;
    memccpy(l->name, name, '\0', sizeof l->name - 1);
    return l;
}

/* Signals are inherited blocked from the thread that asks. */
static int lookup_start(struct lookup *l)
{
    pthread_attr_t attr;
    pthread_t thread;

    if (pthread_attr_init(&attr) != 0)
        return -EAGAIN;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    atomic_store(&l->refs, 2);
    int r = pthread_create(&thread, &attr, run_lookup, l);
    pthread_attr_destroy(&attr);
    if (r != 0)
        atomic_store(&l->refs, 1);
    return -r;
}

int proxy_resolve(struct proxy_resolver *r, const char *name, int stop_fd, int64_t deadline,
                  struct proxy_address *ret_addresses)
{
    if (atomic_load(&r->lookups) >= LOOKUPS_MAX)
        return -EAGAIN;
    struct lookup *l = lookup_new(r, name);
    if (!l)
        return -EAGAIN;
    int n = lookup_start(l);
    if (n == 0)
        n = proxy_wait(l->done_fd, POLLIN, stop_fd, deadline);
    if (n == 0) {
        n = atomic_load(&l->result);
        if (n > 0)
            memcpy(ret_addresses, l->addresses, (size_t)n * sizeof *ret_addresses);
    }
    lookup_unref(l);
    return n;
}
