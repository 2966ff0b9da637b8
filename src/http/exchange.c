/*
 * One request, as host-side tools make it: {"method", "url", "headers", "accept", "body",
 * "timeout", "answer_max"} on stdin; {"status", "body"} or {"error"} on stdout. No redirection is
 * followed: headers may be secrets.
 */
#include <curl/curl.h>
#include <errno.h>
#include <string.h>

#include "exchange.h"
#include "io.h"
#include "place.h"
#include "tool_result.h"
#include "banned.h"

#define CONNECT_TIMEOUT_S 15L

static size_t exchange_receive(char *data, size_t size, size_t n, void *answer)
{
    return buf_append(answer, data, size * n) < 0 ? 0 : size * n;
}

static int exchange_print(json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    int r = text ? io_write_all(STDOUT_FILENO, text, strlen(text)) : -ENOMEM;
    free(text);
    return r < 0 ? 1 : 0;
}

static struct curl_slist *exchange_headers(const struct place *p, const char *accept, bool body)
{
    struct curl_slist *list = NULL;
    char line[256];
    for (const struct curl_slist *own = p->headers; own; own = own->next)
        list = curl_slist_append(list, own->data);
    snprintf(line, sizeof line, "Accept: %.200s", accept ? accept : "application/json");
    list = curl_slist_append(list, line);
    list = curl_slist_append(list, "Expect:"); /* no waiting for a permission to send */
    return body ? curl_slist_append(list, "Content-Type: application/json") : list;
}

static int exchange_perform(CURL *e, const struct buf *answer, const char *why)
{
    long status = 0;
    CURLcode code = curl_easy_perform(e);
    if (code == CURLE_WRITE_ERROR && answer->failed)
        return exchange_print(json_pack("{s:s}", "error", "the answer is too long"));
    if (code != CURLE_OK)
        return exchange_print(json_pack("{s:s}", "error", why[0] ? why : curl_easy_strerror(code)));
    curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
    return exchange_print(json_pack("{s:I, s:o}", "status", (json_int_t)status, "body",
                                    text_json(answer->data, answer->len)));
}

int exchange_run(const json_t *settings, const struct place *p)
{
    const char *body = json_string_value(json_object_get(settings, "body"));
    const char *accept = json_string_value(json_object_get(settings, "accept"));
    const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
    _cleanup_buf_ struct buf answer =
        BUF_INIT((size_t)json_integer_value(json_object_get(settings, "answer_max")));
    char why[CURL_ERROR_SIZE] = "";
    CURL *e = curl_easy_init();
    if (!e)
        return 1;
    struct curl_slist *headers = exchange_headers(p, accept, body);
    curl_easy_setopt(e, CURLOPT_URL, p->url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "hutch/" HUTCH_VERSION);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(p->timeout * 1000));
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, exchange_receive);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, &answer);
    if (file && *file)
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    if (folder && *folder)
        curl_easy_setopt(e, CURLOPT_CAPATH, folder);
    if (body) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
    }
    int status = exchange_perform(e, &answer, why);
    curl_slist_free_all(headers);
    curl_easy_cleanup(e);
    return status;
}
