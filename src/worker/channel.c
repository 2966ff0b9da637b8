/*
 * Channels by libwebsockets. Its loop has one thread, which alone touches its objects: other threads
 * queue messages and wake the loop up. A channel that broke is made again after a delay that grows
 * to 2 s; whether the job is still this worker's is the lease's matter.
 */
#include <errno.h>
#include <libwebsockets.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "thread.h"
#include "banned.h"

#define MESSAGE_MAX     (2u << 20) /* of the server, a whole one */
#define RECEIVE_SIZE    (64u << 10)
#define RETRY_FIRST_MS  50
#define RETRY_MOST_MS   2000
#define WRITES_AT_ONCE  16
#define PING_AFTER_S    20
#define HANGUP_AFTER_S  40
#define HANDSHAKE_BYTES (16u << 10)

struct message {
    struct message *next;
    size_t n;
    bool binary;
    uint8_t data[]; /* LWS_PRE bytes that libwebsockets writes its header into, then n */
};

struct channel {
    struct channels *all;
    struct channel *next;
    char *path;
    struct channel_events events;
    /* Guarded by the lock of all: */
    bool up, closing, detached, was_full;
    struct message *first, **last; /* to send */
    size_t queued;                 /* bytes of them */
    /* The loop's: */
    struct lws *wsi;
    bool started;
    lws_sorted_usec_list_t retry;
    unsigned failures;
    struct buf in;
};

struct channels {
    struct lws_context *context;
    struct lws_vhost *vhost;
    char *url; /* what address and prefix point into, unless it is a socket's */
    const char *address, *prefix;
    int port;
    bool tls;
    const char *key;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t detached;
    bool ending;
    struct channel *list;
};

/* --- the loop --- */

static void channel_drop_queue(struct channel *c)
{
    for (struct message *m = c->first, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    c->first = NULL;
    c->last = &c->first;
    c->queued = 0;
}

static void channel_connect(lws_sorted_usec_list_t *retry);

/* The connection has ended, or was not made. */
static void channel_lost(struct channel *c)
{
    pthread_mutex_lock(&c->all->lock);
    bool was_up = c->up;
    c->up = c->was_full = false;
    channel_drop_queue(c);
    pthread_mutex_unlock(&c->all->lock);
    c->wsi = NULL;
    buf_free(&c->in);
    c->in = BUF_INIT(MESSAGE_MAX);
    if (was_up)
        c->events.down(c->events.data);
    unsigned delay = RETRY_FIRST_MS << (c->failures < 6 ? c->failures : 6);
    c->failures++;
    lws_sul_schedule(c->all->context, 0, &c->retry, channel_connect,
                     (lws_usec_t)(delay < RETRY_MOST_MS ? delay : RETRY_MOST_MS) * LWS_US_PER_MS);
}

static void channel_connect(lws_sorted_usec_list_t *retry)
{
    static const lws_retry_bo_t alive = {.secs_since_valid_ping = PING_AFTER_S,
                                         .secs_since_valid_hangup = HANGUP_AFTER_S};
    struct channel *c = lws_container_of(retry, struct channel, retry);
    struct channels *all = c->all;
    const struct lws_client_connect_info i = {.context = all->context,
                                              .vhost = all->vhost,
                                              .address = all->address,
                                              .port = all->port,
                                              .ssl_connection = all->tls ? LCCSCF_USE_SSL : 0,
                                              .path = c->path,
                                              .host = all->url ? all->address : "localhost",
                                              .ietf_version_or_minus_one = -1,
                                              .opaque_user_data = c,
                                              .retry_and_idle_policy = &alive,
                                              .pwsi = &c->wsi};
    struct lws *wsi = lws_client_connect_via_info(&i);
    /* If it fails at once, the callback may have been called already, or not. */
    if (!wsi && !c->retry.list.owner)
        channel_lost(c);
}

static void channel_up(struct channel *c)
{
    pthread_mutex_lock(&c->all->lock);
    c->up = true;
    pthread_mutex_unlock(&c->all->lock);
    c->failures = 0;
    c->events.up(c->events.data);
}

/* A piece of a message. Negative: the connection is closed. */
static int channel_received(struct channel *c, struct lws *wsi, const void *bytes, size_t n)
{
    if (buf_append(&c->in, bytes, n) < 0)
        return -1;
    if (!lws_is_final_fragment(wsi) || lws_remaining_packet_payload(wsi))
        return 0;
    int r = c->events.message(c->events.data, c->in.data, c->in.len, lws_frame_is_binary(wsi));
    c->in.len = 0;
    return r < 0 ? -1 : 0;
}

static struct message *channel_next(struct channel *c, bool *ret_room)
{
    LOCKED(&c->all->lock);
    struct message *m = c->first;
    if (m && !(c->first = m->next))
        c->last = &c->first;
    c->queued -= m ? m->n : 0;
    *ret_room = c->was_full && c->queued <= CHANNEL_QUEUE_MAX / 2;
    if (*ret_room)
        c->was_full = false;
    return m;
}

static int channel_write(struct channel *c, struct lws *wsi)
{
    for (int i = 0; i < WRITES_AT_ONCE && !lws_send_pipe_choked(wsi); i++) {
        bool room;
        struct message *m = channel_next(c, &room);
        if (!m)
            return 0;
        int n =
            lws_write(wsi, m->data + LWS_PRE, m->n, m->binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT);
        free(m);
        if (n < 0)
            return -1;
        if (room)
            c->events.room(c->events.data);
    }
    lws_callback_on_writable(wsi);
    return 0;
}

/* Does what other threads asked for. */
static void channels_look(struct channels *all)
{
    LOCKED(&all->lock);
    for (struct channel *c = all->list; c; c = c->next) {
        if (c->closing && !c->detached) {
            lws_sul_cancel(&c->retry);
            if (c->wsi) {
                lws_set_opaque_user_data(c->wsi, NULL);
                lws_set_timeout(c->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
                c->wsi = NULL;
            }
            c->detached = true;
            pthread_cond_broadcast(&all->detached);
        } else if (!c->started) {
            c->started = true;
            lws_sul_schedule(all->context, 0, &c->retry, channel_connect, 1);
        } else if (c->up && c->first) {
            lws_callback_on_writable(c->wsi);
        }
    }
}

static int channel_add_key(const struct channels *all, struct lws *wsi, uint8_t **at, size_t room)
{
    char value[4096];
    if (!all->key)
        return 0;
    int n = snprintf(value, sizeof value, "Bearer %s", all->key);
    if (n < 0 || (size_t)n >= sizeof value)
        return -1;
    return lws_add_http_header_by_token(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, (uint8_t *)value, n, at,
                                        *at + room);
}

static int channel_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                            size_t n)
{
    struct channels *all = lws_context_user(lws_get_context(wsi));
    if (reason == LWS_CALLBACK_EVENT_WAIT_CANCELLED) {
        channels_look(all);
        return 0;
    }
    struct channel *c = lws_get_opaque_user_data(wsi);
    if (!c)
        return 0;
    switch (reason) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        return channel_add_key(all, wsi, in, n);
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        channel_up(c);
        return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        return channel_received(c, wsi, in, n);
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return channel_write(c, wsi);
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
    case LWS_CALLBACK_CLIENT_CLOSED:
        lws_set_opaque_user_data(wsi, NULL);
        channel_lost(c);
        return 0;
    default:
        return 0;
    }
}

static void *channels_thread(void *data)
{
    struct channels *all = data;
    for (bool ending = false; !ending && lws_service(all->context, 0) >= 0;) {
        LOCKED(&all->lock);
        ending = all->ending;
    }
    return NULL;
}

/* --- other threads --- */

static int channels_parse_server(struct channels *all, const char *server, struct error *err)
{
    const char *scheme, *path;
    all->prefix = "";
    if (strncmp(server, "unix:", 5) == 0) {
        all->address = all->url = str_printf("+%s", server + 5);
        return all->url ? 0 : error_set(err, ENOMEM, "no memory");
    }
    all->url = strdup(server);
    if (!all->url)
        return error_set(err, ENOMEM, "no memory");
    if (lws_parse_uri(all->url, &scheme, &all->address, &all->port, &path) != 0 ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        return error_set(err, EINVAL, "the server must be http://…, https://… or unix:PATH: %s",
                         server);
    all->tls = strcmp(scheme, "https") == 0;
    all->prefix = path;
    return 0;
}

int channels_open(const char *server, const char *key, struct channels **ret, struct error *err)
{
    static const struct lws_protocols protocols[] = {
        {.name = "hutch", .callback = channel_callback, .rx_buffer_size = RECEIVE_SIZE}, {0}};
    struct channels *all = calloc(1, sizeof *all);
    if (!all)
        return error_set(err, ENOMEM, "no memory");
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->detached, NULL);
    all->key = key;
    int r = channels_parse_server(all, server, err);
    lws_set_log_level(0, NULL);
    const struct lws_context_creation_info info = {.port = CONTEXT_PORT_NO_LISTEN,
                                                   .protocols = protocols,
                                                   .options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT |
                                                              LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
                                                   .pt_serv_buf_size = HANDSHAKE_BYTES,
                                                   .user = all,
                                                   .gid = -1,
                                                   .uid = -1};
    if (r == 0)
        all->context = lws_create_context(&info);
    if (all->context)
        all->vhost = lws_create_vhost(all->context, &info);
    if (r == 0 && !all->vhost)
        r = error_set(err, ENOMEM, "cannot set up connections to %s", server);
    if (r == 0 && (r = thread_start(&all->thread, NULL, channels_thread, all)) < 0)
        error_errno(err, -r, "cannot start a thread");
    if (r < 0) {
        all->ending = true; /* there is no thread */
        channels_close(all);
        return r;
    }
    *ret = all;
    return 0;
}

struct channels *channels_close(struct channels *all)
{
    if (!all)
        return NULL;
    pthread_mutex_lock(&all->lock);
    bool runs = !all->ending;
    all->ending = true;
    pthread_mutex_unlock(&all->lock);
    if (runs) {
        lws_cancel_service(all->context);
        pthread_join(all->thread, NULL);
    }
    if (all->context)
        lws_context_destroy(all->context);
    pthread_cond_destroy(&all->detached);
    pthread_mutex_destroy(&all->lock);
    free(all->url);
    free(all);
    return NULL;
}

int channel_open(struct channels *all, const char *path, const struct channel_events *events,
                 struct channel **ret, struct error *err)
{
    struct channel *c = calloc(1, sizeof *c);
    char *full = str_printf("%s%s%s", *all->prefix ? "/" : "", all->prefix, path);
    if (!c || !full) {
        free(c);
        free(full);
        return error_set(err, ENOMEM, "no memory");
    }
    *c = (struct channel){.all = all, .path = full, .events = *events, .in = BUF_INIT(MESSAGE_MAX)};
    c->last = &c->first;
    pthread_mutex_lock(&all->lock);
    c->next = all->list;
    all->list = c;
    pthread_mutex_unlock(&all->lock);
    lws_cancel_service(all->context);
    *ret = c;
    return 0;
}

struct channel *channel_close(struct channel *c)
{
    if (!c)
        return NULL;
    struct channels *all = c->all;
    pthread_mutex_lock(&all->lock);
    c->closing = true;
    lws_cancel_service(all->context);
    while (!c->detached)
        pthread_cond_wait(&all->detached, &all->lock);
    struct channel **at = &all->list;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&all->lock);
    channel_drop_queue(c);
    buf_free(&c->in);
    free(c->path);
    free(c);
    return NULL;
}

bool channel_send(struct channel *c, const void *prefix, size_t m, const void *data, size_t n,
                  bool binary)
{
    struct message *message = malloc(sizeof *message + LWS_PRE + m + n);
    if (!message)
        return false;
    *message = (struct message){.n = m + n, .binary = binary};
    memcpy(message->data + LWS_PRE, prefix, m);
    if (n)
        memcpy(message->data + LWS_PRE + m, data, n);
    pthread_mutex_lock(&c->all->lock);
    bool up = c->up, wake = up && !c->first;
    if (up) {
        *c->last = message;
        c->last = &message->next;
        c->queued += message->n;
        c->was_full |= c->queued > CHANNEL_QUEUE_MAX;
    }
    pthread_mutex_unlock(&c->all->lock);
    if (!up)
        free(message);
    else if (wake)
        lws_cancel_service(c->all->context);
    return up;
}

bool channel_is_full(struct channel *c)
{
    LOCKED(&c->all->lock);
    return c->was_full;
}
