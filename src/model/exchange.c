/*
 * One request, tried until it is answered.
 *
 * Worth another try: an answer whose status or headers say so, a connection that breaks off or is
 * silent, and what the reader of the body says is. Nobody listening, or a name that cannot be
 * found, is mostly a mistake in an address: it is tried only twice again. Before each wait the sink
 * is told, and a wait ends at once when nobody wants the answer any more.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "buf.h"
#include "clock.h"
#include "model_private.h"
#include "refusal.h"
#include "retry.h"
#include "banned.h"

#define IDLE_MS       300000
#define RETRIES       8
#define BACKOFF_MS    500
#define NOBODY_MAX    2
#define REDIRECTS_MAX 3
#define REFUSAL_MAX   (64u << 10) /* of the body that explains a refusal; what is more is not read \
                                   */

struct attempt {
    struct model *m;
    const struct exchange *x;
    struct buf refusal;
    int refused; /* what the body's reader said against it */
    struct trouble_hint hint;
    struct error *err;
    char url[1024 + 4096]; /* where a redirection led, or empty */
};

static bool is_answer(const struct transport_answer *head)
{
    return head->status >= 200 && head->status < 300;
}

static int take(void *data, const struct transport_answer *head, const char *bytes, size_t n)
{
    struct attempt *a = data;
    if (is_answer(head)) {
        int r = a->x->take(a->x->data, bytes, n, &a->hint, a->err);
        a->refused = r < 0 ? r : 0;
        return r;
    }
    size_t room = REFUSAL_MAX - a->refusal.len;
    buf_append(&a->refusal, bytes, n < room ? n : room);
    return n >= room;
}

/* The provider said something else than an answer. */
static int judge(struct attempt *a, const struct transport_answer *head)
{
    const struct refusal_from from = {&a->m->spec, a->m->at.host, a->x->name};
    int64_t in_words = -1;
    int r = refusal_explain(&from, head->status, (const char *)a->refusal.data, a->refusal.len,
                            &in_words, a->err);
    a->hint.retry = r != -EDQUOT && r != -EMSGSIZE && retry_wanted(head);
    a->hint.told_ms = retry_told_ms(head, time(NULL));
    if (a->hint.told_ms < 0)
        a->hint.told_ms = in_words;
    return r;
}

/* No answer, or not all of it. */
static int explain(struct attempt *a, int r)
{
    const char *host = a->m->at.host;
    struct error inner = *a->err;
    a->hint.retry =
        r == -ETIMEDOUT || r == -EPIPE || r == -ECONNREFUSED || r == -EHOSTUNREACH || r == -EIO;
    if (r == -ECONNREFUSED)
        return error_set(a->err, ECONNREFUSED,
                         "cannot connect to %s: is the server running there? (%.300s)",
                         a->m->at.origin, inner.text);
    if (r == -EHOSTUNREACH)
        return error_set(a->err, EHOSTUNREACH,
                         "cannot find %s: is the name right, and this machine online? (%.300s)",
                         host, inner.text);
    if (r == -EKEYREJECTED)
        return error_set(a->err, EKEYREJECTED,
                         "%s cannot prove who it is (%.300s); SSL_CERT_FILE can name the "
                         "certificates to trust",
                         host, inner.text);
    if (r == -ETIMEDOUT)
        return error_set(a->err, ETIMEDOUT, "%s is silent (%.300s)", host, inner.text);
    if (r == -EPIPE)
        return error_set(a->err, EPIPE,
                         "%s broke the connection off before its answer was complete (%.300s)",
                         host, inner.text);
    if (r == -EPROTO)
        return error_set(a->err, EPROTO, "%s speaks no HTTP that hutch understands (%.300s)", host,
                         inner.text);
    return error_set(a->err, -r, "cannot ask %s (%.300s)", host, inner.text);
}

static bool is_redirection(const struct transport_answer *head)
{
    return head->status >= 300 && head->status < 400 && head->location[0];
}

/* Within the same scheme, host and port only: what is sent is meant for them alone. 1: go on there.
 */
static int follow(struct attempt *a, const struct transport_answer *head, unsigned *n)
{
    const struct model *m = a->m;
    if (!endpoint_holds(&m->at, head->location)) {
        _cleanup_free_ char *to = endpoint_origin(head->location);
        return error_set(a->err, EPROTO,
                         "%s redirects to %.200s; if that is right, give it as the base URL",
                         m->at.host, to ? to : "nowhere");
    }
    if ((head->status != 307 && head->status != 308) || (*n)++ == REDIRECTS_MAX)
        return error_set(a->err, EPROTO,
                         "%s redirects (status %d) to %.500s; give the right base URL", m->at.host,
                         head->status, head->location);
    snprintf(a->url, sizeof a->url, "%s", head->location);
    return 1;
}

static int post(struct attempt *a, struct transport_answer *ret_head)
{
    const struct model *m = a->m;
    const struct transport_call call = {.url = *a->url ? a->url : a->x->url,
                                        .headers = m->at.headers,
                                        .body = a->x->body,
                                        .n = a->x->n,
                                        .cancel = a->x->cancel,
                                        .idle_ms = m->spec.idle_ms > 0 ? m->spec.idle_ms : IDLE_MS,
                                        .take = take,
                                        .data = a};
    int r = a->x->begin(a->x->data, a->err);
    a->refusal.len = 0;
    a->refused = 0;
    return r < 0 ? r : transport_post(m->transport, &call, ret_head, a->err);
}

/* A connection that broke off: the head may have said all there is to know, and a body may be whole
 * all the same, if only its end was missing. */
static int judge_broken(struct attempt *a, const struct transport_answer *head, int r)
{
    struct error broken = *a->err;
    if (head->status >= 300 && !is_redirection(head))
        return judge(a, head);
    if (r == -EPIPE && is_answer(head) && a->x->end(a->x->data, &a->hint, a->err) == 0)
        return 0;
    *a->err = broken;
    return explain(a, r);
}

static int attempt(struct attempt *a)
{
    struct transport_answer head = {0};
    unsigned redirects = 0;
    int r;
    a->hint = (struct trouble_hint){.told_ms = -1};
    do {
        r = post(a, &head);
        if (r == -ECANCELED || a->refused)
            return r;
        if (r < 0)
            return judge_broken(a, &head, r);
        r = is_redirection(&head) ? follow(a, &head, &redirects) : 0;
    } while (r > 0);
    if (r < 0)
        return r;
    return is_answer(&head) ? a->x->end(a->x->data, &a->hint, a->err) : judge(a, &head);
}

static uint32_t dice(void)
{
    uint32_t n;
    return getrandom(&n, sizeof n, GRND_NONBLOCK) == sizeof n ? n : (uint32_t)clock_now();
}

/* Tells why, and waits. */
static int wait_for(struct attempt *a, unsigned number)
{
    const struct model_spec *spec = &a->m->spec;
    int ms = retry_delay_ms(number, spec->backoff_ms > 0 ? spec->backoff_ms : BACKOFF_MS,
                            a->hint.told_ms, dice());
    const struct model_event e = {.kind = MODEL_WAIT,
                                  .text = a->err->text,
                                  .n = strlen(a->err->text),
                                  .wait_ms = ms,
                                  .attempt = (int)number};
    if (a->x->sink)
        a->x->sink->event(a->x->sink->data, &e);
    return retry_wait(ms, a->x->cancel);
}

void exchange_hide_key(const struct model *m, struct error *err)
{
    const char *key = m->spec.key;
    size_t n = key ? strlen(key) : 0;
    for (char *at = err->text; n >= 4 && (at = strstr(at, key)); at += 3) {
        memmove(at + 3, at + n, strlen(at + n) + 1);
        memcpy(at, "...", 3); /* NOLINT(bugprone-not-null-terminated-result) */
    }
}

static void say_how_often(struct error *err, unsigned number)
{
    size_t used = strlen(err->text);
    if (number > 1)
        snprintf(err->text + used, sizeof err->text - used, "; tried %u times", number);
}

static bool is_nobody(int r)
{
    return r == -ECONNREFUSED || r == -EHOSTUNREACH;
}

int exchange_run(struct model *m, const struct exchange *x, struct error *err)
{
    struct error own = {0};
    struct attempt a = {.m = m, .x = x, .refusal = BUF_INIT(REFUSAL_MAX), .err = err ? err : &own};
    unsigned most = m->spec.retries < 0 ? RETRIES : (unsigned)m->spec.retries, nobody = 0;
    int r = m->transport ? 0 : transport_new(&m->transport, err);
    if (r < 0)
        return r;
    unsigned number = 1;
    while ((r = attempt(&a)) < 0 && r != -ECANCELED) {
        exchange_hide_key(m, a.err);
        if (!a.hint.retry || number > most || (is_nobody(r) && nobody++ == NOBODY_MAX)) {
            say_how_often(a.err, number);
            break;
        }
        if (wait_for(&a, number++) < 0) {
            r = -ECANCELED;
            break;
        }
    }
    buf_free(&a.refusal);
    return r;
}
