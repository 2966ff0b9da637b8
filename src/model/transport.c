/* The transport: see http.h. libcurl is used here and for URLs in http.c only. */
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "http.h"
#include "io.h"
#include "thread.h"
#include "banned.h"

#define CONNECT_MS  15000L
#define HEADERS_MAX (256u << 10) /* of one answer, all lines together */
/* After the last event of a stream the body should end at once. Waiting a little for that end lets
 * the next request reuse the connection. */
#define LINGER_MAX (64u << 10)
#define LINGER_MS  20
#define POLL_MS    60000

struct transport {
    CURLM *multi;
    CURL *easy;
    bool complete; /* `take` had enough; the body may not have ended yet */
    bool ended;
    CURLcode code; /* how it ended */
    int stopped;   /* an error of `take`, or why the head was refused */
    size_t head, behind;
    uint64_t bytes; /* received in all */
    const struct transport_call *call;
    struct transport_answer answer;
    char why[CURL_ERROR_SIZE];
};

/* Copies a header's value without the spaces around it, if it fits and is printable. */
static void header_copy_value(char *to, size_t size, const char *from, size_t n)
{
    while (n > 0 && (*from == ' ' || *from == '\t')) {
        from++;
        n--;
    }
    while (n > 0 && (unsigned char)from[n - 1] <= ' ')
        n--;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)from[i] < ' ' || (unsigned char)from[i] >= 0x7f)
            return;
    if (n >= size)
        return;
    memcpy(to, from, n);
    to[n] = 0;
}

static int errno_of_curl(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        return -ECONNREFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return -EKEYREJECTED;
    case CURLE_UNSUPPORTED_PROTOCOL: /* not HTTP */
    case CURLE_WEIRD_SERVER_REPLY:
        return -EPROTO;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
        return -EPIPE;
    default:
        return -EIO;
    }
}

/* Once for all threads. Certificates are loaded with the first https connection, not here. */
static void curl_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Close-on-exec: a program that another thread starts meanwhile must not inherit the socket. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *at)
{
    return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

static size_t transport_take_head(char *line, size_t size, size_t n, void *transport)
{
    struct transport *t = transport;
    struct transport_answer *a = &t->answer;
    const struct {
        const char *name;
        char *to;
        size_t size;
    } wanted[] = {
        {"x-should-retry", a->should_retry, sizeof a->should_retry},
        {"retry-after-ms", a->retry_ms, sizeof a->retry_ms},
        {"retry-after", a->retry_after, sizeof a->retry_after},
    };
    t->bytes += n;
    t->head += n;
    if (t->head > HEADERS_MAX) {
        t->stopped = -EPROTO;
        return 0;
    }
    if (n > 5 && memcmp(line, "HTTP/", 5) == 0) {
        *a = (struct transport_answer){0}; /* the headers so far were of an interim answer */
        return n;
    }
    const char *colon = t->complete ? NULL : memchr(line, ':', n);
    size_t name = colon ? (size_t)(colon - line) : 0;
    for (size_t i = 0; colon && i < ARRAY_SIZE(wanted); i++)
        if (name == strlen(wanted[i].name) && strncasecmp(line, wanted[i].name, name) == 0)
            header_copy_value(wanted[i].to, wanted[i].size, colon + 1, n - name - 1);
    return n;
}

static size_t transport_take_body(char *data, size_t size, size_t n, void *transport)
{
    struct transport *t = transport;
    long status = 0;
    t->bytes += n;
    if (t->complete) {
        t->behind += n;
        return t->behind <= LINGER_MAX ? n : CURL_WRITEFUNC_ERROR;
    }
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->answer.status = (int)status;
    int r = t->call->take(t->call->data, &t->answer, data, n);
    if (r < 0)
        t->stopped = r;
    t->complete = r > 0;
    return r < 0 ? CURL_WRITEFUNC_ERROR : n;
}

int transport_new(struct transport **ret, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, curl_init);
    struct transport *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ENOMEM, "out of memory");
    t->multi = curl_multi_init();
    t->easy = curl_easy_init();
    if (!t->multi || !t->easy) {
        transport_free(t);
        return error_set(err, ENOMEM, "out of memory");
    }
    curl_multi_setopt(t->multi, CURLMOPT_MAXCONNECTS, 2L);

    /* What is the same for all requests. Certificates are checked, proxies of the environment are
     * used, and Nagle's algorithm is off: these are libcurl's defaults. */
    const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
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
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, transport_take_head);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, transport_take_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    if (file && *file) /* libcurl itself does not look at these */
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    if (folder && *folder)
        curl_easy_setopt(e, CURLOPT_CAPATH, folder);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A cancelled request does not wait for the answer of a name server. */
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
    *ret = t;
    return 0;
}

struct transport *transport_free(struct transport *t)
{
    struct sigpipe before;
    if (!t)
        return NULL;
    sigpipe_block(&before); /* OpenSSL writes without MSG_NOSIGNAL */
    curl_easy_cleanup(t->easy);
    curl_multi_cleanup(t->multi);
    sigpipe_restore(&before);
    free(t);
    return NULL;
}

/* Runs until the answer has ended or is complete, is cancelled, or the connection is dead. */
static int transport_pump(struct transport *t)
{
    const struct transport_call *c = t->call;
    struct curl_waitfd cancel = {.fd = c->cancel, .events = CURL_WAIT_POLLIN};
    uint64_t before = 0;
    int64_t deadline = clock_now() + c->idle_ms * NS_PER_MS;
    for (bool lingers = false;;) {
        int running, left;
        CURLMsg *m;
        if (curl_multi_perform(t->multi, &running) != CURLM_OK)
            return -EIO;
        while ((m = curl_multi_info_read(t->multi, &left)))
            if (m->msg == CURLMSG_DONE && m->easy_handle == t->easy) {
                t->ended = true;
                t->code = m->data.result;
            }
        if (t->stopped || t->ended)
            return 0;
        if (cancel_asked(c->cancel))
            return t->complete ? 0 : -ECANCELED;
        curl_off_t sent = 0;
        curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
        uint64_t now = t->bytes + (uint64_t)sent;
        if (t->complete && !lingers)
            deadline = clock_now() + LINGER_MS * NS_PER_MS;
        else if (now != before && !lingers)
            deadline = clock_now() + c->idle_ms * NS_PER_MS;
        lingers = t->complete;
        before = now;
        left = clock_poll_ms(deadline);
        if (left == 0)
            return t->complete ? 0 : -ETIMEDOUT;
        if (curl_multi_poll(t->multi, &cancel, c->cancel >= 0 ? 1 : 0,
                            left < POLL_MS ? left : POLL_MS, NULL) != CURLM_OK)
            return -EIO;
    }
}

static int transport_exchange(struct transport *t, const struct transport_call *c,
                              struct transport_answer *ret, struct error *err)
{
    CURL *e = t->easy;
    long status = 0;
    char *to = NULL;
    t->call = c;
    t->answer = (struct transport_answer){0};
    t->complete = t->ended = false;
    t->stopped = 0;
    t->head = t->behind = 0;
    t->bytes = 0;
    t->why[0] = 0;
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->n);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->body);
    if (curl_easy_setopt(e, CURLOPT_URL, c->url) != CURLE_OK ||
        curl_multi_add_handle(t->multi, e) != CURLM_OK)
        return error_set(err, ENOMEM, "out of memory");
    int r = transport_pump(t);
    curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
    t->answer.status = (int)status;
    curl_easy_getinfo(e, CURLINFO_REDIRECT_URL, &to);
    if (to)
        header_copy_value(t->answer.location, sizeof t->answer.location, to, strlen(to));
    *ret = t->answer;
    t->call = NULL;
    curl_multi_remove_handle(t->multi, e); /* closes the connection unless the answer has ended */
    if (r == 0 && (t->complete || (t->ended && t->code == CURLE_OK)))
        return 0;
    if (r == -ETIMEDOUT)
        return error_set(err, ETIMEDOUT, "no byte for %g s", c->idle_ms / 1000.0);
    if (r < 0)
        return error_errno(err, -r, "cannot send the request");
    if (t->stopped == -EPROTO && t->head > HEADERS_MAX)
        return error_set(err, EPROTO, "more than %u bytes of headers", HEADERS_MAX);
    if (t->stopped)
        return t->stopped;
    return error_set(err, -errno_of_curl(t->code), "%s",
                     t->why[0] ? t->why : curl_easy_strerror(t->code));
}

int transport_post(struct transport *t, const struct transport_call *c,
                   struct transport_answer *ret, struct error *err)
{
    struct sigpipe before;
    sigpipe_block(&before);
    int r = transport_exchange(t, c, ret, err);
    sigpipe_restore(&before);
    return r;
}
