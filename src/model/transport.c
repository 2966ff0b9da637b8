#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "hush.h"
#include "transport_private.h"
#include "banned.h"

#define CONNECT_MS  15000L
#define HEADERS_MAX (256u << 10) /* of one answer, all lines together */
#define LINGER_MAX  (64u << 10)  /* bytes behind the end of an answer */
#define LINGER_MS   20           /* and how long its end is waited for, by the next request */
#define POLL_MS     60000

struct transport {
    CURLM *multi;
    CURL *easy;
    bool added;   /* the easy handle is in the multi handle */
    bool lingers; /* the last answer was enough, but has not come to its end */
    bool ended;
    CURLcode code; /* how it ended */
    int stopped;   /* what `take` said, or why the head was refused */
    size_t head, behind;
    uint64_t bytes; /* received in all */
    const struct transport_call *call;
    struct transport_answer answer;
    char why[CURL_ERROR_SIZE];
};

/* Once for all threads. Certificates are loaded with the first https connection, not here. */
static void global_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Sockets of ours are nobody else's: a program that another thread starts meanwhile must not
 * inherit them. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *at)
{
    return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

static size_t take_head(char *line, size_t size, size_t n, void *transport)
{
    struct transport *t = transport;
    t->bytes += n;
    t->head += n;
    if (t->head > HEADERS_MAX) {
        t->stopped = -EPROTO;
        return 0;
    }
    if (n > 5 && memcmp(line, "HTTP/", 5) == 0)
        t->answer = (struct transport_answer){0}; /* what came before was of an interim answer */
    else if (!t->lingers)
        transport_take_field(&t->answer, line, n);
    return n;
}

static size_t take_body(char *data, size_t size, size_t n, void *transport)
{
    struct transport *t = transport;
    long status = 0;
    t->bytes += n;
    if (t->lingers) {
        t->behind += n;
        return t->behind <= LINGER_MAX ? n : CURL_WRITEFUNC_ERROR;
    }
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->answer.status = (int)status;
    int r = t->call->take(t->call->data, &t->answer, data, n);
    if (r < 0)
        t->stopped = r;
    t->lingers = r > 0;
    return r < 0 ? CURL_WRITEFUNC_ERROR : n;
}

/* Which certificates are trusted, where the environment says so: libcurl itself does not look
 * there. */
static void set_certificates(CURL *e)
{
    const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
    if (file && *file)
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    if (folder && *folder)
        curl_easy_setopt(e, CURLOPT_CAPATH, folder);
}

/* What is the same for all requests. Certificates are checked, proxies of the environment are used,
 * and Nagle's algorithm is off: these are libcurl's defaults. */
static void set_options(struct transport *t)
{
    CURL *e = t->easy;
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "hutch/" HUTCH_VERSION);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_head);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    set_certificates(e);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT,
                     1L); /* who cancels does not wait for the answer of a name server */
#endif
}

int transport_new(struct transport **ret, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, global_init);
    struct transport *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ENOMEM, "no memory for a connection");
    t->multi = curl_multi_init();
    t->easy = curl_easy_init();
    if (!t->multi || !t->easy) {
        transport_free(t);
        return error_set(err, ENOMEM, "no memory for a connection");
    }
    curl_multi_setopt(t->multi, CURLMOPT_MAXCONNECTS, 2L);
    set_options(t);
    *ret = t;
    return 0;
}

static void take_out(struct transport *t)
{
    if (t->added)
        curl_multi_remove_handle(t->multi, t->easy);
    t->added = false;
    t->lingers = false;
}

struct transport *transport_free(struct transport *t)
{
    struct hush hush;
    if (!t)
        return NULL;
    hush_begin(&hush);
    take_out(t);
    curl_easy_cleanup(t->easy);
    curl_multi_cleanup(t->multi);
    hush_end(&hush);
    free(t);
    return NULL;
}

/* Lets curl do what it can. 0, or -EIO. */
static int step(struct transport *t)
{
    int running, left;
    CURLMsg *m;
    if (curl_multi_perform(t->multi, &running) != CURLM_OK)
        return -EIO;
    while ((m = curl_multi_info_read(t->multi, &left)))
        if (m->msg == CURLMSG_DONE && m->easy_handle == t->easy) {
            t->ended = true;
            t->code = m->data.result;
        }
    return 0;
}

static bool is_cancelled(int cancel)
{
    struct pollfd p = {.fd = cancel, .events = POLLIN};
    return cancel >= 0 && poll(&p, 1, 0) > 0;
}

/* Bytes in both directions so far: whether something moves. */
static uint64_t moved(struct transport *t)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return t->bytes + (uint64_t)sent;
}

/* Until the answer has ended or is enough, nobody wants it, or it is dead. */
static int pump(struct transport *t)
{
    const struct transport_call *c = t->call;
    struct curl_waitfd cancel = {.fd = c->cancel, .events = CURL_WAIT_POLLIN};
    uint64_t before = 0;
    int64_t deadline = clock_now() + c->idle_ms * NS_PER_MS;
    for (;;) {
        if (step(t) < 0)
            return -EIO;
        if (t->stopped || t->ended || t->lingers)
            return 0;
        if (is_cancelled(c->cancel))
            return -ECANCELED;
        uint64_t now = moved(t);
        if (now != before)
            deadline = clock_now() + c->idle_ms * NS_PER_MS;
        before = now;
        int left = clock_poll_ms(deadline);
        if (left == 0)
            return -ETIMEDOUT;
        if (curl_multi_poll(t->multi, &cancel, c->cancel >= 0 ? 1 : 0,
                            left < POLL_MS ? left : POLL_MS, NULL) != CURLM_OK)
            return -EIO;
    }
}

/* An answer that came before all of the request was sent: the rest of the request is not there any
 * more. */
static bool is_sent(struct transport *t, const struct transport_call *c)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return (size_t)sent >= c->n;
}

/* The end of the last answer has mostly come by now, or comes at once, and its connection can be
 * used again; else it is given up. */
static void finish_last(struct transport *t)
{
    int64_t deadline = clock_now() + LINGER_MS * NS_PER_MS;
    while (t->added && t->lingers && step(t) == 0 && !t->ended) {
        int left = clock_poll_ms(deadline);
        if (left == 0 || curl_multi_poll(t->multi, NULL, 0, left, NULL) != CURLM_OK)
            break;
    }
    take_out(t);
}

static int begin(struct transport *t, const struct transport_call *c)
{
    CURL *e = t->easy;
    finish_last(t);
    t->call = c;
    t->answer = (struct transport_answer){0};
    t->ended = false;
    t->stopped = 0;
    t->head = t->behind = 0;
    t->bytes = 0;
    t->why[0] = 0;
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->n);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->body);
    if (curl_easy_setopt(e, CURLOPT_URL, c->url) != CURLE_OK ||
        curl_multi_add_handle(t->multi, e) != CURLM_OK)
        return -ENOMEM;
    t->added = true;
    return 0;
}

static int explain(struct transport *t, struct error *err)
{
    if (t->stopped == -EPROTO && t->head > HEADERS_MAX)
        return error_set(err, EPROTO, "more than %u bytes of headers", HEADERS_MAX);
    if (t->stopped)
        return t->stopped;
    int r = transport_errno(t->code);
    return error_set(err, -r, "%s", t->why[0] ? t->why : curl_easy_strerror(t->code));
}

static void take_location(struct transport *t)
{
    char *to = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to);
    if (to)
        transport_copy_value(t->answer.location, sizeof t->answer.location, to, strlen(to));
}

static int post(struct transport *t, const struct transport_call *c, struct transport_answer *ret,
                struct error *err)
{
    long status = 0;
    int r = begin(t, c);
    if (r == 0)
        r = pump(t);
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->answer.status = (int)status;
    take_location(t);
    *ret = t->answer;
    t->call = NULL;
    if (r == 0 && t->lingers && is_sent(t, c))
        return 0;
    bool good = r == 0 && (t->lingers || (t->ended && t->code == CURLE_OK));
    take_out(t);
    if (good)
        return 0;
    if (r == -ETIMEDOUT)
        return error_set(err, ETIMEDOUT, "nothing came for %g s", c->idle_ms / 1000.0);
    return r < 0 ? error_errno(err, -r, "cannot ask") : explain(t, err);
}

int transport_post(struct transport *t, const struct transport_call *c,
                   struct transport_answer *ret, struct error *err)
{
    struct hush hush;
    hush_begin(&hush);
    int r = post(t, c, ret, err);
    hush_end(&hush);
    return r;
}
