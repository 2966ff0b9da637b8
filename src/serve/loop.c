/*
 * The loop's descriptors: listening sockets, signals, a timer, and the clients that are watched for
 * their end. Each is a `source` that libwebsockets polls with its connections.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "server.h"
#include "banned.h"

#define HEAD_SECONDS      15 /* for the head of a request */
#define KEEPALIVE_SECONDS 75
#define ACCEPT_AT_ONCE    64
#define STOP_SECONDS      10
#define WATCHED_AT_ONCE   64

struct loop_source {
    bool is_conn; /* see struct conn */
    bool local, listens;
    int fd;
    void (*ready)(struct serve *s, struct loop_source *source);
    struct lws *wsi;
    struct loop_source *next;
};

int loop_source_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                         size_t n)
{
    struct loop_source *source = lws_get_opaque_user_data(wsi);
    if (reason == LWS_CALLBACK_RAW_RX_FILE && source)
        source->ready(lws_context_user(lws_get_context(wsi)), source);
    /* Clients choose a protocol by name: not this one. */
    return reason == LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION ? -1 : 0;
}

/* Takes the descriptor over. */
static int loop_add(struct serve *s, int fd,
                    void (*ready)(struct serve *s, struct loop_source *source),
                    struct loop_source **ret, struct error *err)
{
    struct loop_source *source = calloc(1, sizeof *source);
    if (!source) {
        close(fd);
        return error_set(err, ENOMEM, "out of memory");
    }
    *source = (struct loop_source){.fd = fd, .ready = ready, .next = s->sources};
    s->sources = source;
    lws_adopt_desc_t how = {.vh = s->vhost,
                            .type = LWS_ADOPT_RAW_FILE_DESC,
                            .fd.filefd = fd,
                            .vh_prot_name = "source",
                            .opaque = source};
    source->wsi = lws_adopt_descriptor_vhost_via_info(&how);
    if (ret)
        *ret = source;
    return source->wsi ? 0 : error_set(err, ENOMEM, "cannot watch a descriptor: out of memory");
}

/* --- connections --- */

void loop_conn_free(struct serve *s, struct lws *wsi)
{
    struct conn *c = lws_get_opaque_user_data(wsi);
    if (!c || !c->is_conn)
        return;
    lws_set_opaque_user_data(wsi, NULL);
    request_unref(c->upgrade);
    free(c);
    s->connections--;
}

static void conn_set_address(struct conn *c, const struct sockaddr_storage *peer)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
    if (peer->ss_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, c->address, sizeof c->address);
    else if (peer->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], c->address, sizeof c->address);
    else if (peer->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, c->address, sizeof c->address);
    else
        memcpy(c->address, "local", sizeof "local");
}

/* Only processes of our own user, or root's, are workers without a key. */
static bool conn_is_ours(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static void conn_accept(struct serve *s, struct loop_source *source)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t n = sizeof peer;
        int fd = accept4(source->fd, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        struct conn *c = NULL;
        if (s->connections >= s->max_connections || (source->local && !conn_is_ours(fd)) ||
            !(c = calloc(1, sizeof *c))) {
            close(fd);
            continue;
        }
        *c = (struct conn){.is_conn = true, .serve = s, .local = source->local};
        conn_set_address(c, &peer);
        s->connections++;
        unsigned tls = source->local ? 0 : LWS_ADOPT_ALLOW_SSL;
        lws_adopt_desc_t how = {.vh = s->vhost,
                                .type =
                                    (lws_adoption_type)(LWS_ADOPT_HTTP | LWS_ADOPT_SOCKET | tls),
                                .fd.sockfd = fd,
                                .opaque = c};
        if (!lws_adopt_descriptor_vhost_via_info(&how))
            log_message(LOG_DEBUG, "a connection of %s failed at once",
                        peer.ss_family == AF_UNIX ? "a worker" : "a client");
    }
}

/* Clients whose function waits, and who have closed their side. */
static void conn_ended(struct serve *s, struct loop_source *source)
{
    struct epoll_event events[WATCHED_AT_ONCE];
    int n = epoll_wait(source->fd, events, WATCHED_AT_ONCE, 0);
    for (int i = 0; i < n; i++) {
        struct request *q = events[i].data.ptr;
        if (q->wsi)
            lws_set_timeout(q->wsi, 1, LWS_TO_KILL_ASYNC);
    }
}

/* --- listening --- */

/* "HOST:PORT", "[::1]:PORT". */
int listen_parse(const char *text, char *host, size_t size, const char **ret_port,
                 struct error *err)
{
    const char *colon = strrchr(text, ':'), *end = colon;
    bool bracket = text[0] == '[' && colon && colon > text && colon[-1] == ']';
    const char *start = bracket ? text + 1 : text;
    if (bracket)
        end--;
    size_t n = colon ? (size_t)(end - start) : 0;
    if (!colon || n >= size || (!bracket && memchr(start, ':', n)))
        return error_set(err, EINVAL, "'%s' is not HOST:PORT or [IPV6]:PORT", text);
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits == 0 || digits > 5 || colon[1 + digits] || strtoul(colon + 1, NULL, 10) > 65535)
        return error_set(err, EINVAL, "cannot listen on %s: the port must be 0 to 65535", text);
    memcpy(host, start, n);
    host[n] = 0;
    *ret_port = colon + 1;
    return 0;
}

static int listen_tcp(const char *where, struct error *err)
{
    char host[256];
    const char *port = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int r = listen_parse(where, host, sizeof host, &port, err);
    if (r < 0)
        return r;
    int failed = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    if (failed)
        return error_set(err, EINVAL, "cannot listen on %s: %s", where, gai_strerror(failed));
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, 1024) < 0) {
        r = error_errno(err, errno, "cannot listen on %s", where);
        if (fd >= 0)
            close(fd);
        fd = r;
    }
    freeaddrinfo(found);
    return fd;
}

/* DATA/worker.sock, for processes of our own user only. */
static int listen_local(const char *data, struct error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s/worker.sock", data);
    if (n < 0 || (size_t)n >= sizeof at.sun_path)
        return error_set(err, ENAMETOOLONG,
                         "the path of the data folder is too long for a socket: %s", data);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(err, errno, "cannot make a socket");
    unlink(at.sun_path); /* of an earlier server: jobs_open() has made sure that it is gone */
    mode_t mask = umask(0177);
    int r = bind(fd, (struct sockaddr *)&at, sizeof at);
    umask(mask);
    if (r < 0 || listen(fd, 1024) < 0) {
        r = error_errno(err, errno, "cannot listen on %s", at.sun_path);
        close(fd);
        return r;
    }
    return fd;
}

static int loop_listen(struct serve *s, int fd, bool local, struct error *err)
{
    struct loop_source *source;
    int r = loop_add(s, fd, conn_accept, &source, err);
    if (r < 0)
        return r;
    source->local = local;
    source->listens = true;
    return 0;
}

static int loop_listen_all(struct serve *s, struct error *err)
{
    int passed = sd_listen_fds(1), r = 0;
    if (passed < 0)
        return error_errno(err, -passed, "cannot take over the sockets of systemd");
    for (int i = 0; i < passed && r == 0; i++) {
        if (sd_is_socket(SD_LISTEN_FDS_START + i, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
            return error_set(err, EINVAL,
                             "systemd passed something that is not a listening socket");
        r = loop_listen(s, SD_LISTEN_FDS_START + i, false, err);
    }
    if (passed == 0) {
        int fd = listen_tcp(s->options->listen, err);
        r = fd < 0 ? fd : loop_listen(s, fd, false, err);
    }
    if (r < 0)
        return r;
    int fd = s->sources->fd;
    struct sockaddr_in6 at = {0}; /* the port of IPv4 is at the same place */
    socklen_t n = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &n) == 0)
        s->port = ntohs(at.sin6_port);
    fd = listen_local(s->options->data, err);
    return fd < 0 ? fd : loop_listen(s, fd, true, err);
}

/* --- signals and time --- */

/* No more connections; requests that wait are asked to end. */
static void loop_stop(struct serve *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    s->stop_at = clock_now() + STOP_SECONDS * NS_PER_S;
    sd_notify(0, "STOPPING=1");
    for (struct loop_source *source = s->sources; source; source = source->next)
        if (source->listens && !source->local)
            lws_set_timeout(source->wsi, 1, LWS_TO_KILL_ASYNC);
    feeds_end(s);
    supervisor_stop(s->supervisor); /* workers still give their jobs back, over the local socket */
    for (struct request *q = s->open; q; q = q->next_open) {
        LOCKED(&q->lock);
        q->stopping = true;
        if (q->cancel >= 0)
            eventfd_write(q->cancel, 1);
        if (q->ws)
            eventfd_write(q->ws->event, 1);
        pthread_cond_broadcast(&q->drained);
    }
}

static void loop_signal(struct serve *s, struct loop_source *source)
{
    struct signalfd_siginfo info;
    while (read(source->fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGHUP)
            tls_reload(s, true);
        else
            loop_stop(s);
}

static void loop_tick(struct serve *s, struct loop_source *source)
{
    uint64_t times;
    if (read(source->fd, &times, sizeof times) < 0)
        return;
    sd_notify(0, "WATCHDOG=1");
    feeds_tick(s);
    tls_reload(s, false);
}

static int loop_add_signals(struct serve *s, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? error_errno(err, errno, "cannot watch for signals")
                  : loop_add(s, fd, loop_signal, NULL, err);
}

static int loop_add_timer(struct serve *s, struct error *err)
{
    struct itimerspec every = {{1, 0}, {1, 0}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0 || timerfd_settime(fd, 0, &every, NULL) < 0) {
        int r = error_errno(err, errno, "cannot make a timer");
        if (fd >= 0)
            close(fd);
        return r;
    }
    return loop_add(s, fd, loop_tick, NULL, err);
}

static int loop_add_epoll(struct serve *s, struct error *err)
{
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    return s->epoll < 0 ? error_errno(err, errno, "cannot watch connections")
                        : loop_add(s, s->epoll, conn_ended, NULL, err);
}

/* --- the loop --- */

static void loop_log(int level, const char *line)
{
    log_message(LOG_DEBUG, "libwebsockets: %.*s", (int)strcspn(line, "\n"), line);
}

int loop_open(struct serve *s, struct error *err)
{
    static const lws_retry_bo_t alive = {.secs_since_valid_ping = 30,
                                         .secs_since_valid_hangup = 60};
    struct rlimit files = {0};
    /* libwebsockets makes a table with a place for each descriptor that the limit allows. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > 4 * CONNECTIONS_MAX) {
        files.rlim_cur = 4 * CONNECTIONS_MAX;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    /* The rest is for files, workers and functions: accept() must not fail, or poll() would spin. */
    s->max_connections =
        files.rlim_cur / 2 < CONNECTIONS_MAX ? (unsigned)files.rlim_cur / 2 : CONNECTIONS_MAX;
    lws_set_log_level(LLL_ERR | LLL_WARN, loop_log);
    s->scratch = malloc(LWS_PRE + SCRATCH_SIZE + 4096);
    if (!s->scratch)
        return error_set(err, ENOMEM, "out of memory");
    s->ready_end = &s->ready;
    s->loop_thread = pthread_self();
    pthread_mutex_init(&s->lock, NULL);
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = HTTP_PROTOCOLS,
        .user = s,
        .gid = (gid_t)-1,
        .uid = (uid_t)-1,
        .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
                   LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME |
                   (s->tls ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0),
        .max_http_header_data = 8192,
        .max_http_header_pool = 16384,
        .timeout_secs = HEAD_SECONDS,
        .timeout_secs_ah_idle = HEAD_SECONDS,
        .keepalive_timeout = KEEPALIVE_SECONDS,
        .pt_serv_buf_size = 16384,
        .retry_and_idle_policy = &alive,
        .vhost_name = "hutch",
        .http2_settings = {1, 4096, 0, 100, 65535, 16384, 16384},
    };
    s->context = lws_create_context(&info);
    if (!s->context)
        return error_set(err, ENOMEM, "cannot set libwebsockets up");
    int r = tls_prepare(s, &info, err);
    if (r < 0)
        return r;
    s->vhost = lws_create_vhost(s->context, &info);
    if (!s->vhost)
        return error_set(err, EINVAL, "cannot set libwebsockets up%s",
                         s->tls ? ": is the certificate valid?" : "");
    r = loop_listen_all(s, err);
    if (r == 0)
        r = loop_add_signals(s, err);
    if (r == 0)
        r = loop_add_timer(s, err);
    if (r == 0)
        r = loop_add_epoll(s, err);
    return r;
}

void loop_run(struct serve *s)
{
    while (!s->stopping ||
           ((s->requests > 0 || !supervisor_has_ended(s->supervisor)) && clock_now() < s->stop_at))
        if (lws_service(s->context, 0) < 0)
            break;
}

void loop_close(struct serve *s)
{
    if (s->context)
        lws_context_destroy(s->context); /* closes connections and sources */
    s->context = NULL;
    for (struct loop_source *source = s->sources, *next; source; source = next) {
        next = source->next;
        free(source);
    }
    s->sources = NULL;
    free(s->scratch);
    s->scratch = NULL;
}
