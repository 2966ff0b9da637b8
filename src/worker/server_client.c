/* Requests to the server over libcurl: see server_client.h. */
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "io.h"
#include "job.h"
#include "json.h"
#include "thread.h"
#include "banned.h"

#define LOST_LEASE    "lost-lease" /* the end of the problem's type */
#define CONNECT_MS    5000L
#define ANSWER_MS     60000
#define ANSWER_MAX    (64u << 20) /* bytes of JSON */
#define FILE_MAX      (4ull << 30)
#define SLOW_S        60L /* a transfer that makes no progress for so long has failed */
#define POLL_MS       250
#define IDLE_MAX      64 /* connections that are kept */
#define DELAY_FIRST   100
#define DELAY_MOST    5000
#define STOP_PATIENCE (5 * NS_PER_S) /* of requests, once the worker shuts down */

/* A connection with the request that is under way on it. */
struct connection {
    struct connection *next;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers, *bytes_headers; /* of JSON, of a file */
    struct buf body;                            /* JSON that came */
    int file;                                   /* where a GET's bytes go; -1: into `body` */
    uint64_t received, sent;
    const struct client_call *call;
    int trouble; /* an errno of the local side */
    char why[CURL_ERROR_SIZE];
};

struct server_client {
    char *base, *socket, *authorization;
    pthread_mutex_t lock;
    struct connection *idle;
    unsigned n_idle;
};

static void client_init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

int server_client_new(const char *server, const char *key, struct server_client **ret,
                      struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool local = strncmp(server, "unix:", 5) == 0;
    if (!local && strncasecmp(server, "http://", 7) != 0 && strncasecmp(server, "https://", 8) != 0)
        return error_set(err, EINVAL,
                         "the server '%.200s' must begin with http://, https:// or unix:", server);
    pthread_once(&once, client_init_curl);
    struct server_client *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, ENOMEM, "no memory");
    size_t n = strlen(server);
    while (n > 0 && server[n - 1] == '/')
        n--;
    pthread_mutex_init(&c->lock, NULL);
    c->base = local ? strdup("http://localhost") : strndup(server, n);
    c->socket = local ? strdup(server + 5) : NULL;
    c->authorization = key ? str_printf("Authorization: Bearer %s", key) : NULL;
    if (!c->base || (local && !c->socket) || (key && !c->authorization)) {
        server_client_free(c);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = c;
    return 0;
}

static void connection_free(struct connection *k)
{
    curl_easy_cleanup(k->easy);
    curl_multi_cleanup(k->multi);
    curl_slist_free_all(k->headers);
    curl_slist_free_all(k->bytes_headers);
    buf_free(&k->body);
    free(k);
}

struct server_client *server_client_free(struct server_client *c)
{
    if (!c)
        return NULL;
    for (struct connection *k = c->idle, *next; k; k = next) {
        next = k->next;
        connection_free(k);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->base);
    free(c->socket);
    free(c->authorization);
    free(c);
    return NULL;
}

/* Close-on-exec: a box that another thread starts meanwhile must not inherit the socket. */
static curl_socket_t connection_open_socket(void *connection, curlsocktype purpose,
                                            struct curl_sockaddr *at)
{
    /* libcurl repeats a request by itself when a kept connection breaks, and does not always rewind
     * the body (7.88): a new connection has got none of it. */
    ((struct connection *)connection)->sent = 0;
    return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

static size_t connection_take(char *data, size_t size, size_t n, void *connection)
{
    struct connection *k = connection;
    long status = 0;
    curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    if (k->file < 0 || status != 200) {
        k->trouble = -buf_append(&k->body, data, n);
    } else {
        k->received += n;
        k->trouble = k->received > FILE_MAX ? EFBIG : -io_write_all(k->file, data, n);
    }
    return k->trouble ? CURL_WRITEFUNC_ERROR : n;
}

static size_t connection_give(char *data, size_t size, size_t n, void *connection)
{
    struct connection *k = connection;
    uint64_t left = k->call->size - k->sent;
    ssize_t got = io_read_at(k->call->fd, data, left < n ? (size_t)left : n, k->sent);
    if (got < 0 || (got == 0 && left)) {
        k->trouble = got < 0 ? (int)-got : EIO;
        return CURL_READFUNC_ABORT;
    }
    k->sent += (uint64_t)got;
    return (size_t)got;
}

/* libcurl sends a body again when a connection that was kept turns out to be closed. */
static int connection_seek(void *connection, curl_off_t offset, int origin)
{
    struct connection *k = connection;
    k->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* NULL: no memory. */
static struct curl_slist *connection_headers(const struct server_client *c, const char *type)
{
    /* Without "Expect:" libcurl waits a second for the server to agree to a large body. */
    const char *const lines[] = {type, "Expect:", c->authorization};
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(lines) && lines[i]; i++) {
        struct curl_slist *more = curl_slist_append(list, lines[i]);
        if (!more) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = more;
    }
    return list;
}

static struct connection *connection_new(const struct server_client *c)
{
    struct connection *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->body = BUF_INIT(ANSWER_MAX);
    k->file = -1;
    k->multi = curl_multi_init();
    k->easy = curl_easy_init();
    k->headers = connection_headers(c, "Content-Type: application/json");
    k->bytes_headers = connection_headers(c, "Content-Type: application/octet-stream");
    if (!k->multi || !k->easy || !k->headers || !k->bytes_headers) {
        connection_free(k);
        return NULL;
    }
    const char *file = getenv("SSL_CERT_FILE");
    CURL *e = k->easy;
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "hutch-worker/" HUTCH_VERSION);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, connection_open_socket);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, k);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, k->why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, connection_take);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, k);
    curl_easy_setopt(e, CURLOPT_READFUNCTION, connection_give);
    curl_easy_setopt(e, CURLOPT_READDATA, k);
    curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, connection_seek);
    curl_easy_setopt(e, CURLOPT_SEEKDATA, k);
    if (c->socket) {
        curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->socket);
        curl_easy_setopt(e, CURLOPT_PROXY, "");
    }
    if (file && *file) /* libcurl itself does not look at it */
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    return k;
}

static struct connection *client_take(struct server_client *c)
{
    struct connection *k;
    {
        LOCKED(&c->lock);
        k = c->idle;
        if (k) {
            c->idle = k->next;
            c->n_idle--;
        }
    }
    return k ? k : connection_new(c);
}

static void client_give(struct server_client *c, struct connection *k)
{
    k->body.len = 0;
    k->body.failed = false;
    if (k->body.cap > (1u << 20))
        buf_free(&k->body);
    {
        LOCKED(&c->lock);
        if (c->n_idle < IDLE_MAX) {
            k->next = c->idle;
            c->idle = TAKE_PTR(k);
            c->n_idle++;
        }
    }
    if (k)
        connection_free(k);
}

/* Runs the request to its end: what libcurl says, or CURLE_ABORTED_BY_CALLBACK. */
static CURLcode connection_perform(struct connection *k)
{
    const struct client_call *q = k->call;
    CURLcode code = CURLE_FAILED_INIT;
    bool ended = false;
    if (curl_multi_add_handle(k->multi, k->easy) != CURLM_OK)
        return code;
    while (!ended) {
        struct curl_waitfd cancel = {.fd = q->cancel, .events = CURL_WAIT_POLLIN};
        int running, queued;
        if (curl_multi_perform(k->multi, &running) != CURLM_OK)
            break;
        for (CURLMsg *m; (m = curl_multi_info_read(k->multi, &queued));)
            if (m->msg == CURLMSG_DONE) {
                code = m->data.result;
                ended = true;
            }
        if (ended)
            break;
        if (cancel_asked(q->cancel) || (q->give_up && q->give_up(q->data))) {
            code = CURLE_ABORTED_BY_CALLBACK;
            break;
        }
        curl_multi_poll(k->multi, &cancel, q->cancel >= 0 ? 1 : 0, POLL_MS, NULL);
    }
    curl_multi_remove_handle(k->multi, k->easy);
    return code;
}

/* An answer that is no success, from its status and its problem. */
static int client_refusal(long status, const json_t *problem, const char *path, struct error *err)
{
    static const struct {
        long status;
        int code;
    } CODES[] = {{400, EINVAL}, {401, EACCES}, {403, EACCES}, {404, ENOENT},
                 {409, EBUSY},  {413, EFBIG},  {422, EINVAL}, {429, EAGAIN}};
    const char *type = json_get_string_or(problem, "type", "");
    size_t n = strlen(type), n_lost = strlen(LOST_LEASE);
    const char *detail = json_get_string(problem, "detail");
    int code = status >= 500 ? EAGAIN : EPROTO;
    for (size_t i = 0; i < ARRAY_SIZE(CODES); i++)
        if (CODES[i].status == status)
            code = CODES[i].code;
    if (status == 409 && n >= n_lost && strcmp(type + n - n_lost, LOST_LEASE) == 0)
        code = ESTALE;
    if (!detail)
        detail = json_get_string_or(problem, "title", "no reason given");
    return error_set(err, code, "the server answered %s with status %ld: %.700s", path, status,
                     detail);
}

static int client_take_answer(struct connection *k, struct client_answer *ret, struct error *err)
{
    char *type = NULL;
    long status = 0;
    json_error_t at;
    curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(k->easy, CURLINFO_CONTENT_TYPE, &type);
    _cleanup_json_ json_t *json =
        k->body.len ? json_loadb((const char *)k->body.data, k->body.len, 0, &at) : NULL;
    if (status == 204 || (status == 200 && k->file >= 0)) {
        if (k->file >= 0 && lseek(k->file, 0, SEEK_SET) < 0)
            return error_errno(err, errno, "cannot read a file that the server sent");
        ret->fd = status == 200 ? TAKE_FD(k->file) : -1;
        snprintf(ret->type, sizeof ret->type, "%s", type ? type : "");
        return 0;
    }
    if (status < 200 || status > 299)
        return client_refusal(status, json, k->call->path, err);
    if (!json)
        return error_set(err, EPROTO, "the server's answer to %s is not JSON", k->call->path);
    ret->json = TAKE_PTR(json);
    return 0;
}

int server_client_call(struct server_client *c, const struct client_call *q,
                       struct client_answer *ret, struct error *err)
{
    bool posts = q->body, puts = !posts && q->fd >= 0;
    char *text = posts ? json_dumps(q->body, JSON_COMPACT) : NULL;
    _cleanup_free_ char *body = text, *url = str_printf("%s%s", c->base, q->path);
    struct connection *k = client_take(c);
    *ret = (struct client_answer){.fd = -1};
    if (!k || !url || (posts && !body)) {
        if (k)
            client_give(c, k);
        return error_set(err, ENOMEM, "no memory");
    }
    k->call = q;
    k->trouble = 0;
    k->received = k->sent = 0;
    k->file = posts || puts ? -1 : io_unnamed_file();
    CURL *e = k->easy;
    curl_easy_setopt(e, CURLOPT_URL, url);
    k->why[0] = 0;
    curl_easy_setopt(e, CURLOPT_UPLOAD, puts ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, puts ? k->bytes_headers : k->headers);
    if (posts) {
        curl_easy_setopt(e, CURLOPT_POST, 1L);
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    } else if (puts) {
        curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->size);
    } else {
        curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
    }
    /* Of an upload or download the time depends on its size: only its stalling is limited. */
    int timeout_ms = q->timeout_ms ? q->timeout_ms : ANSWER_MS;
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, posts ? (long)timeout_ms : 0L);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, posts ? timeout_ms / 1000 + SLOW_S : SLOW_S);

    struct sigpipe before;
    sigpipe_block(&before); /* OpenSSL writes without MSG_NOSIGNAL */
    CURLcode code = connection_perform(k);
    sigpipe_restore(&before);
    int r = code == CURLE_OK ? client_take_answer(k, ret, err)
            : code == CURLE_ABORTED_BY_CALLBACK && !k->trouble
                ? error_set(err, ECANCELED, "interrupted")
            : k->trouble ? error_errno(err, k->trouble, "cannot exchange a file with the server")
                         : error_set(err, EAGAIN, "cannot reach the server %s: %s",
                                     c->socket ? c->socket : c->base,
                                     k->why[0] ? k->why : curl_easy_strerror(code));
    cleanup_close(&k->file);
    k->file = -1;
    k->call = NULL;
    client_give(c, k);
    return r;
}

int server_delay_ms(unsigned n)
{
    unsigned most = DELAY_FIRST, random = 0;
    while (--n > 0 && most < DELAY_MOST)
        most *= 2;
    most = most < DELAY_MOST ? most : DELAY_MOST;
    if (getrandom(&random, sizeof random, 0) < 0)
        random = 0;
    return (int)(most - random % (most / 2));
}

/* --- requests of a job --- */

struct job_call {
    struct worker *worker;
    struct job_lease *lease;
    int64_t stop_at; /* once the worker shuts down; 0: it does not */
};

static bool job_call_is_over(void *data)
{
    struct job_call *j = data;
    if (!lease_is_held(j->lease))
        return true;
    if (!j->stop_at && cancel_asked(j->worker->stop))
        j->stop_at = clock_now() + STOP_PATIENCE;
    return j->stop_at && clock_now() > j->stop_at;
}

/* Repeats the request until it got an answer, the lease is lost, or the worker gave up. */
static int server_call(struct worker *w, const struct job_lease *l, const struct client_call *asked,
                       struct client_answer *ret, struct error *err)
{
    struct job_call j = {.worker = w, .lease = (struct job_lease *)l};
    struct client_call q = *asked;
    q.cancel = -1;
    q.give_up = job_call_is_over;
    q.data = &j;
    for (unsigned tries = 1;; tries++) {
        if (!lease_is_held(j.lease))
            return error_set(err, ESTALE, "the lease of the job %s is lost", l->id);
        int r = server_client_call(w->client, &q, ret, err);
        if (r == -ESTALE || (r == -ECANCELED && !lease_is_held(j.lease)))
            lease_lose(j.lease);
        if (r != -EAGAIN)
            return r == -ECANCELED && j.lease->lost
                       ? error_set(err, ESTALE, "the lease of the job %s is lost", l->id)
                       : r;
        for (int64_t until = clock_now() + server_delay_ms(tries) * NS_PER_MS;
             clock_now() < until;) {
            if (job_call_is_over(&j))
                return j.lease->lost
                           ? error_set(err, ESTALE, "the lease of the job %s is lost", l->id)
                           : r;
            cancel_wait(-1, 0, clock_poll_ms(until) < POLL_MS ? clock_poll_ms(until) : POLL_MS, -1);
        }
    }
}

int server_post(struct worker *w, const struct job_lease *l, const char *path, json_t *body,
                json_t **ret_answer, struct error *err)
{
    _cleanup_json_ json_t *owned = body;
    _cleanup_free_ char *full = str_printf("/v1/worker/jobs/%s/%s", l->id, path);
    struct client_answer answer;
    if (!full || !body || json_object_set_new(body, "token", json_integer(l->token)) < 0)
        return error_set(err, ENOMEM, "no memory");
    struct client_call q = {.path = full, .body = body, .fd = -1};
    int r = server_call(w, l, &q, &answer, err);
    if (r < 0)
        return r;
    if (ret_answer)
        *ret_answer = answer.json;
    else
        json_decref(answer.json);
    return 0;
}

/* Every byte but letters, digits, "-._~" and the slash becomes %XX. */
static int path_escape(struct buf *b, const char *path)
{
    for (; *path; path++)
        if (strchr("-._~/", *path) || (*path >= '0' && *path <= '9') ||
            ((*path | 32) >= 'a' && (*path | 32) <= 'z'))
            buf_append(b, path, 1);
        else
            buf_printf(b, "%%%02X", (unsigned char)*path);
    return b->failed ? -ENOMEM : 0;
}

int server_put(struct worker *w, const struct job_lease *l, const char *path, const char *kind,
               uint64_t offset, int fd, uint64_t size, json_t **ret_answer, struct error *err)
{
    _cleanup_buf_ struct buf full = BUF_INIT(64u << 10);
    struct client_answer answer;
    buf_printf(&full, "/v1/worker/jobs/%s/files/", l->id);
    path_escape(&full, path);
    buf_printf(&full, "?token=%u&kind=%s", l->token, kind);
    if (offset)
        buf_printf(&full, "&offset=%llu", (unsigned long long)offset);
    if (!buf_cstr(&full) || full.failed)
        return error_set(err, ENAMETOOLONG, "the path of an artifact is too long");
    struct client_call q = {.path = (char *)full.data, .fd = fd, .size = size};
    int r = server_call(w, l, &q, &answer, err);
    if (r < 0)
        return r;
    if (ret_answer)
        *ret_answer = answer.json;
    else
        json_decref(answer.json);
    return 0;
}

int server_get(struct worker *w, const struct job_lease *l, const char *what, int *ret_fd,
               char ret_type[32], struct error *err)
{
    _cleanup_free_ char *full = str_printf("/v1/worker/jobs/%s/%s?token=%u", l->id, what, l->token);
    struct client_answer answer;
    if (!full)
        return error_set(err, ENOMEM, "no memory");
    struct client_call q = {.path = full, .fd = -1};
    int r = server_call(w, l, &q, &answer, err);
    if (r < 0)
        return r;
    *ret_fd = answer.fd;
    memcpy(ret_type, answer.type, sizeof answer.type);
    return 0;
}
