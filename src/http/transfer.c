#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"
#include "banned.h"

#define CONNECT_TIMEOUT_S 15L
#define GRACE_MS          5000L /* the client gives up first, and says so */

struct transfer *transfer_new(struct bridge *b, enum transfer_kind kind)
{
    struct transfer *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->bridge = b;
    t->kind = kind;
    t->retry_ms = -1;
    t->in = BUF_INIT(RPC_MESSAGE_MAX);
    t->sse = SSE_INIT(RPC_MESSAGE_MAX + 1024);
    t->url = strdup(b->place.url);
    return t->url ? t : transfer_free(t);
}

struct transfer *transfer_free(struct transfer *t)
{
    if (!t)
        return NULL;
    if (t->easy) {
        curl_multi_remove_handle(t->bridge->multi, t->easy);
        curl_easy_cleanup(t->easy);
    }
    curl_slist_free_all(t->headers);
    json_decref(t->id);
    free(t->body);
    free(t->url);
    free(t->last_id);
    buf_free(&t->in);
    sse_free(&t->sse);
    free(t);
    return NULL;
}

static int add_line(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    if (!more)
        return -ENOMEM;
    *list = more;
    return 0;
}

static int add_value(struct curl_slist **list, const char *name, const char *value)
{
    _cleanup_free_ char *line = NULL;
    if (!value)
        return 0;
    return asprintf(&line, "%s: %s", name, value) < 0 ? -ENOMEM : add_line(list, line);
}

static int add_headers(struct transfer *t)
{
    const struct bridge *b = t->bridge;
    bool post = t->kind == TRANSFER_POST;
    int r = add_line(&t->headers, post ? "Accept: application/json, text/event-stream"
                                       : "Accept: text/event-stream");
    for (struct curl_slist *own = b->place.headers; r == 0 && own; own = own->next)
        r = add_line(&t->headers, own->data);
    if (r == 0 && post)
        r = add_line(&t->headers, "Content-Type: application/json");
    if (r == 0)
        r = add_line(&t->headers, "Expect:"); /* no waiting for a permission to send */
    if (r == 0 && !t->hello)
        r = add_value(&t->headers, "Mcp-Session-Id", b->session);
    if (r == 0 && !t->hello)
        r = add_value(&t->headers, "MCP-Protocol-Version", b->version);
    return r < 0 ? r : add_value(&t->headers, "Last-Event-ID", t->last_id);
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

/* Redirections are judged in outcome.c, never followed by curl; certificates are checked, as is its
 * default.
 */
static void set_options(struct transfer *t)
{
    CURL *e = t->easy;
    curl_easy_setopt(e, CURLOPT_URL, t->url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "hutch/" HUTCH_VERSION);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, outcome_receive);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    set_certificates(e);
    if (t->kind != TRANSFER_LISTEN)
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(t->bridge->place.timeout * 1000) + GRACE_MS);
    if (t->kind == TRANSFER_POST) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(t->body));
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, t->body);
    }
}

int transfer_begin(struct transfer *t)
{
    curl_slist_free_all(t->headers);
    t->headers = NULL;
    sse_free(&t->sse);
    t->sse = SSE_INIT(RPC_MESSAGE_MAX + 1024);
    t->in.len = 0;
    t->in.failed = false;
    t->events = false;
    t->why[0] = 0;
    t->easy = curl_easy_init();
    if (!t->easy || add_headers(t) < 0)
        return -ENOMEM;
    set_options(t);
    return curl_multi_add_handle(t->bridge->multi, t->easy) == CURLM_OK ? 0 : -ENOMEM;
}
