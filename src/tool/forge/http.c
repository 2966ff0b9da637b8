#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "io.h"
#include "banned.h"

#define CONNECT_TIMEOUT_S 15L

int http_headers_add(struct curl_slist **list, const char *fmt, ...)
{
    _cleanup_free_ char *line = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&line, fmt, args) < 0)
        line = NULL;
    va_end(args);
    struct curl_slist *more = line ? curl_slist_append(*list, line) : NULL;
    if (!more)
        return -ENOMEM;
    *list = more;
    return 0;
}

static void http_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

CURL *http_easy_new(const char *url, const struct curl_slist *headers, char why[CURL_ERROR_SIZE])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
    pthread_once(&once, http_init);
    CURL *e = curl_easy_init();
    if (!e)
        return NULL;
    why[0] = 0;
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "hutch/" HUTCH_VERSION);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
#if CURL_AT_LEAST_VERSION(7, 87, 0)
    /* Without it a request that is given up waits for the end of its name resolution. */
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
    if (file && *file)
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    if (folder && *folder)
        curl_easy_setopt(e, CURLOPT_CAPATH, folder);
    return e;
}

static size_t http_receive(char *data, size_t size, size_t n, void *answer)
{
    return buf_append(answer, data, size * n) < 0 ? 0 : size * n;
}

int http_exchange(const struct http_exchange *x, struct buf *answer, long *ret_status,
                  struct error *err)
{
    struct curl_waitfd wait = {.fd = x->cancel, .events = CURL_WAIT_POLLIN};
    struct pollfd cancel = {.fd = x->cancel, .events = POLLIN};
    char why[CURL_ERROR_SIZE];
    struct sigpipe before;
    CURL *e = http_easy_new(x->url, x->headers, why);
    CURLM *multi = e ? curl_multi_init() : NULL;
    int running = 1, left, r = 0;
    if (!multi || curl_multi_add_handle(multi, e) != CURLM_OK) {
        curl_multi_cleanup(multi);
        curl_easy_cleanup(e);
        return error_set(err, ENOMEM, "no memory");
    }
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)x->timeout_ms);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, http_receive);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, answer);
    if (x->body) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(x->body));
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, x->body);
    }
    sigpipe_block(&before); /* OpenSSL writes without MSG_NOSIGNAL */
    while (r == 0 && running) {
        if (curl_multi_perform(multi, &running) != CURLM_OK ||
            (running && curl_multi_poll(multi, &wait, x->cancel >= 0, 1000, NULL) != CURLM_OK))
            r = error_set(err, ENOMEM, "no memory");
        else if (running && x->cancel >= 0 && poll(&cancel, 1, 0) > 0)
            r = error_set(err, ECANCELED, "the call was cancelled");
    }
    sigpipe_restore(&before);
    CURLMsg *m = r == 0 ? curl_multi_info_read(multi, &left) : NULL;
    CURLcode code = m ? m->data.result : CURLE_FAILED_INIT;
    if (r == 0 && code == CURLE_WRITE_ERROR && answer->failed)
        r = error_set(err, EIO, "the answer is too long");
    else if (r == 0 && code != CURLE_OK)
        r = error_set(err, EIO, "%s", why[0] ? why : curl_easy_strerror(code));
    else if (r == 0)
        curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, ret_status);
    curl_multi_remove_handle(multi, e);
    curl_multi_cleanup(multi);
    curl_easy_cleanup(e);
    return r;
}
