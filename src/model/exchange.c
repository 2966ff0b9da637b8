#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "exchange.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define IDLE_MS         300000
#define RETRIES         8
#define BACKOFF_MS      500
#define LONGEST_WAIT    5u /* the try before which the wait is the longest */
#define UNREACHABLE_MAX 2
#define REDIRECTS_MAX   3
#define ERROR_BODY_MAX  (64u << 10) /* of the body that explains an error; more is not read */

struct attempt {
    struct http_client *c;
    const struct exchange *x;
    struct buf error_body;
    bool is_refused; /* by the reader of the body */
    struct retry_hint hint;
    struct error *err;
    char url[1024 + 4096]; /* where a redirection led, or empty */
};

bool retry_wanted(const struct transport_answer *a)
{
    if (strcasecmp(a->should_retry, "true") == 0)
        return true;
    if (strcasecmp(a->should_retry, "false") == 0)
        return false;
    return a->status == 408 || a->status == 409 || a->status == 429 || a->status >= 500;
}

/* A number that is not negative, with or without a fraction, and nothing else. */
static bool retry_parse_number(const char *text, double *ret)
{
    char *end;
    if (*text == 0 || text[strspn(text, "0123456789.")] != 0)
        return false;
    *ret = strtod(text, &end);
    return *end == 0;
}

int64_t retry_after_ms(const struct transport_answer *a, time_t now)
{
    double number;
    if (retry_parse_number(a->retry_ms, &number))
        return number < 1e12 ? (int64_t)number : -1;
    if (retry_parse_number(a->retry_after, &number))
        return number < 1e9 ? (int64_t)(number * 1000) : -1;
    time_t date = a->retry_after[0] ? curl_getdate(a->retry_after, NULL) : -1;
    if (date == -1)
        return -1;
    return date > now ? (int64_t)(date - now) * 1000 : 0;
}

int retry_delay_ms(unsigned attempt, int base_ms, int64_t after_ms, uint32_t random)
{
    if (after_ms >= 0 && after_ms <= RETRY_AFTER_MAX_MS)
        return (int)after_ms;
    unsigned step = attempt < 1 ? 1 : attempt > LONGEST_WAIT ? LONGEST_WAIT : attempt;
    int64_t delay = (int64_t)base_ms << (step - 1);
    if (delay > INT32_MAX)
        delay = INT32_MAX;
    return (int)(delay - delay * (random % 1024) / 4096);
}

int retry_wait(int ms, int cancel)
{
    struct pollfd p = {.fd = cancel, .events = POLLIN};
    int64_t until = clock_now() + ms * NS_PER_MS;
    for (;;) {
        int n = poll(&p, 1, clock_poll_ms(until)); /* poll ignores a negative one */
        if (n > 0)
            return -ECANCELED;
        if (clock_now() >= until)
            return 0;
    }
}

static bool is_success(const struct transport_answer *head)
{
    return head->status >= 200 && head->status < 300;
}

static bool is_redirection(const struct transport_answer *head)
{
    return head->status >= 300 && head->status < 400 && head->location[0];
}

static int attempt_take(void *data, const struct transport_answer *head, const char *bytes,
                        size_t n)
{
    struct attempt *a = data;
    if (is_success(head)) {
        int r = a->x->take(a->x->data, bytes, n, &a->hint, a->err);
        a->is_refused = r < 0;
        return r;
    }
    size_t room = ERROR_BODY_MAX - a->error_body.len;
    buf_append(&a->error_body, bytes, n < room ? n : room);
    return n >= room;
}

/* The provider answered with an error. */
static int attempt_explain_status(struct attempt *a, const struct transport_answer *head)
{
    int64_t in_words = -1;
    int r = provider_error_of_status(a->c->spec, a->x->name, head->status,
                                     (const char *)a->error_body.data, a->error_body.len, &in_words,
                                     a->err);
    a->hint.retry = r != -EDQUOT && r != -EMSGSIZE && retry_wanted(head);
    a->hint.after_ms = retry_after_ms(head, time(NULL));
    if (a->hint.after_ms < 0)
        a->hint.after_ms = in_words;
    return r;
}

/* No answer came, or not all of it. */
static int attempt_explain_failure(struct attempt *a, int r)
{
    static const struct {
        int code;
        const char *before, *behind; /* the host */
        bool retry;
    } failures[] = {
        {ECONNREFUSED, "cannot connect to ", ": is the server running?", true},
        {EHOSTUNREACH, "cannot find the host ", ": check its name and your network", true},
        {EKEYREJECTED, "the certificate of ",
         " was rejected; to trust another authority, set SSL_CERT_FILE", false},
        {ETIMEDOUT, "", " does not respond", true},
        {EPIPE, "", " closed the connection before its answer was complete", true},
        {EPROTO, "the answer of ", " is not valid HTTP", false},
        {EIO, "the request to ", " failed", true},
    };
    size_t i = 0;
    while (i + 1 < ARRAY_SIZE(failures) && failures[i].code != -r)
        i++;
    struct error inner = *a->err;
    a->hint.retry = failures[i].code == -r && failures[i].retry;
    return error_set(a->err, -r, "%s%s%s (%.300s)", failures[i].before,
                     r == -ECONNREFUSED ? a->c->at.origin : a->c->at.host, failures[i].behind,
                     inner.text);
}

/* Only within the same scheme, host and port: the request and its key are meant for them alone. 1:
 * send it there. */
static int attempt_redirect(struct attempt *a, const struct transport_answer *head, unsigned *n)
{
    const struct endpoint *at = &a->c->at;
    if (!endpoint_contains(at, head->location)) {
        _cleanup_free_ char *to = endpoint_origin(head->location);
        return error_set(a->err, EPROTO,
                         "%s redirects to %.200s; if that is right, set it as the base URL",
                         at->host, to ? to : "an invalid URL");
    }
    if ((head->status != 307 && head->status != 308) || (*n)++ == REDIRECTS_MAX)
        return error_set(a->err, EPROTO,
                         "%s redirects (status %d) to %.500s; set the right base URL", at->host,
                         head->status, head->location);
    snprintf(a->url, sizeof a->url, "%s", head->location);
    return 1;
}

static int attempt_run(struct attempt *a)
{
    const struct model_spec *spec = a->c->spec;
    struct transport_answer head = {0};
    unsigned redirects = 0;
    int r;
    a->hint = (struct retry_hint){.after_ms = -1};
    do {
        const struct transport_call call = {.url = *a->url ? a->url : a->x->url,
                                            .headers = a->c->at.headers,
                                            .body = a->x->body,
                                            .n = a->x->n,
                                            .cancel = a->x->cancel,
                                            .idle_ms = spec->idle_ms > 0 ? spec->idle_ms : IDLE_MS,
                                            .take = attempt_take,
                                            .data = a};
        a->error_body.len = 0;
        a->is_refused = false;
        r = a->x->begin(a->x->data, a->err);
        if (r == 0)
            r = transport_post(a->c->transport, &call, &head, a->err);
        if (r == -ECANCELED || a->is_refused)
            return r;
        if (r < 0)
            break;
        r = is_redirection(&head) ? attempt_redirect(a, &head, &redirects) : 0;
        if (r < 0)
            return r;
    } while (r > 0);
    if (r == 0)
        return is_success(&head) ? a->x->end(a->x->data, &a->hint, a->err)
                                 : attempt_explain_status(a, &head);
    /* The connection broke off: the head may have said all there is to know, and a body may be
     * whole all the same, if only its end was missing. */
    struct error broken = *a->err;
    if (head.status >= 300 && !is_redirection(&head))
        return attempt_explain_status(a, &head);
    if (r == -EPIPE && is_success(&head) && a->x->end(a->x->data, &a->hint, a->err) == 0)
        return 0;
    *a->err = broken;
    return attempt_explain_failure(a, r);
}

/* Removes the key from a message, should a server have put it there. */
static void hide_key(const char *key, struct error *err)
{
    size_t n = key ? strlen(key) : 0;
    for (char *at = err->text; n >= 4 && (at = strstr(at, key)); at += 3) {
        memmove(at + 3, at + n, strlen(at + n) + 1);
        memcpy(at, "...", 3); /* NOLINT(bugprone-not-null-terminated-result) */
    }
}

int exchange_run(struct http_client *c, const struct exchange *x, struct error *err)
{
    struct error own = {0};
    const struct model_spec *spec = c->spec;
    struct attempt a = {
        .c = c, .x = x, .error_body = BUF_INIT(ERROR_BODY_MAX), .err = err ? err : &own};
    unsigned most = spec->retries < 0 ? RETRIES : (unsigned)spec->retries, unreachable = 0;
    int r = c->transport ? 0 : transport_new(&c->transport, err);
    if (r < 0)
        return r;
    for (unsigned number = 1; (r = attempt_run(&a)) < 0 && r != -ECANCELED; number++) {
        hide_key(spec->key, a.err);
        bool is_unreachable = r == -ECONNREFUSED || r == -EHOSTUNREACH;
        if (!a.hint.retry || number > most ||
            (is_unreachable && unreachable++ == UNREACHABLE_MAX)) {
            size_t used = strlen(a.err->text);
            if (number > 1)
                snprintf(a.err->text + used, sizeof a.err->text - used, "; tried %u times", number);
            break;
        }
        uint32_t random;
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
            random = (uint32_t)clock_now();
        int ms = retry_delay_ms(number, spec->backoff_ms > 0 ? spec->backoff_ms : BACKOFF_MS,
                                a.hint.after_ms, random);
        const struct model_event e = {.kind = MODEL_WAIT,
                                      .text = a.err->text,
                                      .n = strlen(a.err->text),
                                      .wait_ms = ms,
                                      .attempt = (int)number,
                                      .attempts = (int)most};
        if (x->sink)
            x->sink->event(x->sink->data, &e);
        r = retry_wait(ms, x->cancel);
        if (r < 0)
            break;
    }
    buf_free(&a.error_body);
    return r;
}
