/* A request: its life, and what the routes' functions read of it. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server.h"
#include "banned.h"

struct request *request_new(struct serve *s, const struct conn *c)
{
    struct request *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->serve = s;
    q->local = c->local;
    memcpy(q->address, c->address, sizeof q->address);
    q->refs = 1;
    q->body = BUF_INIT(s->max_body);
    q->headers_out = BUF_INIT(HEADERS_OUT_MAX);
    q->out = BUF_INIT(UNSENT_MAX + MESSAGE_MAX);
    q->upload = q->file = q->cancel = -1;
    q->began = clock_now();
    uint8_t random[8];
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(q->id, sizeof q->id, random, sizeof random);
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&q->drained, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return q;
}

void request_ref(struct request *q)
{
    q->refs++;
}

static void request_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void websocket_free(struct websocket *ws)
{
    if (!ws)
        return;
    for (struct ws_message *m = ws->in, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    for (struct ws_message *m = ws->out, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    buf_free(&ws->partial);
    request_close(ws->event);
    free(ws);
}

void request_unref(struct request *q)
{
    if (!q || --q->refs > 0)
        return;
    websocket_free(q->ws);
    request_close(q->upload);
    request_close(q->file);
    request_close(q->cancel);
    json_decref(q->json);
    api_key_free(&q->key);
    free(q->text);
    for (unsigned i = 0; i < ROUTE_PARAMS_MAX; i++)
        free(q->params[i]);
    buf_free(&q->body);
    buf_free(&q->headers_out);
    buf_free(&q->out);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->drained);
    free(q);
}

void request_mark_gone(struct request *q)
{
    LOCKED(&q->lock);
    q->gone = true;
    if (q->cancel >= 0)
        eventfd_write(q->cancel, 1);
    if (q->ws)
        eventfd_write(q->ws->event, 1);
    pthread_cond_broadcast(&q->drained);
}

/* --- what functions read --- */

struct jobs *request_jobs(struct request *q)
{
    return q->serve->jobs;
}

struct serve *request_serve(struct request *q)
{
    return q->serve;
}

struct live *serve_live(struct serve *s)
{
    return s->live;
}

const struct route *request_route(const struct request *q)
{
    return q->route;
}

const struct caller *request_caller(const struct request *q)
{
    return &q->caller;
}

const char *request_id(const struct request *q)
{
    return q->id;
}

const char *request_param(const struct request *q, unsigned i)
{
    return i < ROUTE_PARAMS_MAX && q->params[i] ? q->params[i] : "";
}

const char *request_query(const struct request *q, const char *name)
{
    for (size_t i = 0; i < q->n_query; i++)
        if (strcmp(q->query[i].name, name) == 0)
            return q->query[i].value;
    return NULL;
}

int64_t request_query_int(const struct request *q, const char *name, int64_t fallback)
{
    const char *text = request_query(q, name);
    return text ? strtoll(text, NULL, 10) : fallback; /* the schema has checked its form */
}

const char *request_header(const struct request *q, const char *name)
{
    for (size_t i = 0; i < q->n_headers; i++)
        if (strcasecmp(q->headers[i].name, name) == 0)
            return q->headers[i].value;
    return NULL;
}

json_t *request_body(const struct request *q)
{
    return q->json;
}

const void *request_bytes(const struct request *q, size_t *ret_n)
{
    *ret_n = q->body.len;
    return q->body.data ? q->body.data : (const void *)"";
}

int request_upload(struct request *q, uint64_t *ret_size)
{
    if (ret_size)
        *ret_size = q->body_got;
    return q->upload;
}

int request_cancel(const struct request *borrowed)
{
    struct request *q = (struct request *)borrowed; /* made on demand: most functions need none */
    LOCKED(&q->lock);
    if (q->cancel < 0) {
        q->cancel = eventfd(q->gone ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (q->cancel >= 0 && !q->gone)
            loop_watch(q);
    }
    return q->cancel;
}
