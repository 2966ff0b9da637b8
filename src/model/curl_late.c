/*
 * libcurl, loaded when it is first called. It brings thirty other libraries along, which take
 * several milliseconds to load: time in which a box can be made. So the program is not linked with
 * it; these functions have its names, find it, and pass their arguments on.
 *
 * Where it cannot be loaded they fail as libcurl itself would without memory.
 */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>

#include "model.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define LIBRARY "libcurl.so.4"

static void *library;

static void load(void)
{
    library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
}

static void *find(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return library ? dlsym(library, name) : NULL;
}

static void *load_early(void *unused)
{
    find("curl_global_init");
    return NULL;
}

void model_prepare(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, load_early, NULL) == 0)
        pthread_detach(thread);
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameters are declared with these. */

/* A function that passes its arguments on, and returns `without` if there is no library. The
 * pointer is found anew by whoever is first; several at once find the same. */
#define PASS_ON(type, name, parameters, arguments, without)                                        \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*volatile real) parameters;                                                    \
        if (!real)                                                                                 \
            real = (__typeof__(real))find(#name);                                                  \
        return real ? real arguments : (without);                                                  \
    }

#define PASS_ON_VOID(name, parameters, arguments)                                                  \
    void name parameters                                                                           \
    {                                                                                              \
        static void(*volatile real) parameters;                                                    \
        if (!real)                                                                                 \
            real = (__typeof__(real))find(#name);                                                  \
        if (real)                                                                                  \
            real arguments;                                                                        \
    }

/* The one argument behind the option is a long, a pointer or a curl_off_t: all are passed as a
 * pointer is. */
#define PASS_ON_ONE(type, name, handle, option, without)                                           \
    type name(handle h, option o, ...)                                                             \
    {                                                                                              \
        static type (*volatile real)(handle, option, ...);                                         \
        va_list args;                                                                              \
        va_start(args, o);                                                                         \
        void *value = va_arg(args, void *);                                                        \
        va_end(args);                                                                              \
        if (!real)                                                                                 \
            real = (__typeof__(real))find(#name);                                                  \
        return real ? real(h, o, value) : (without);                                               \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

_Static_assert(sizeof(long) == sizeof(void *) && sizeof(curl_off_t) == sizeof(void *),
               "arguments are passed on as pointers");

/* Newer headers promise not to change the URL that they look at. */
typedef __typeof__(_Generic(&curl_url_dup, CURLU *(*)(const CURLU *)
                            : (const CURLU *)0, default
                            : (CURLU *)0)) url_in;

PASS_ON(CURLcode, curl_global_init, (long flags), (flags), CURLE_FAILED_INIT)
PASS_ON(CURL *, curl_easy_init, (void), (), NULL)
PASS_ON_VOID(curl_easy_cleanup, (CURL * h), (h))
PASS_ON(const char *, curl_easy_strerror, (CURLcode code), (code), LIBRARY " cannot be loaded")
PASS_ON_ONE(CURLcode, curl_easy_setopt, CURL *, CURLoption, CURLE_FAILED_INIT)
PASS_ON_ONE(CURLcode, curl_easy_getinfo, CURL *, CURLINFO, CURLE_FAILED_INIT)
PASS_ON_VOID(curl_free, (void *p), (p))
PASS_ON(time_t, curl_getdate, (const char *p, const time_t *unused), (p, unused), -1)
PASS_ON(CURLM *, curl_multi_init, (void), (), NULL)
PASS_ON(CURLMcode, curl_multi_cleanup, (CURLM * m), (m), CURLM_BAD_HANDLE)
PASS_ON(CURLMcode, curl_multi_add_handle, (CURLM * m, CURL *h), (m, h), CURLM_BAD_HANDLE)
PASS_ON(CURLMcode, curl_multi_remove_handle, (CURLM * m, CURL *h), (m, h), CURLM_BAD_HANDLE)
PASS_ON(CURLMcode, curl_multi_perform, (CURLM * m, int *running), (m, running), CURLM_BAD_HANDLE)
PASS_ON(CURLMcode, curl_multi_poll,
        (CURLM * m, struct curl_waitfd fds[], unsigned int n, int timeout_ms, int *ready),
        (m, fds, n, timeout_ms, ready), CURLM_BAD_HANDLE)
PASS_ON(CURLMsg *, curl_multi_info_read, (CURLM * m, int *left), (m, left), NULL)
PASS_ON_ONE(CURLMcode, curl_multi_setopt, CURLM *, CURLMoption, CURLM_BAD_HANDLE)
PASS_ON(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text),
        (list, text), NULL)
PASS_ON_VOID(curl_slist_free_all, (struct curl_slist * list), (list))
PASS_ON(CURLU *, curl_url, (void), (), NULL)
PASS_ON_VOID(curl_url_cleanup, (CURLU * u), (u))
PASS_ON(CURLU *, curl_url_dup, (url_in u), (u), NULL)
PASS_ON(CURLUcode, curl_url_get, (url_in u, CURLUPart what, char **part, unsigned int flags),
        (u, what, part, flags), CURLUE_OUT_OF_MEMORY)
PASS_ON(CURLUcode, curl_url_set, (CURLU * u, CURLUPart what, const char *part, unsigned int flags),
        (u, what, part, flags), CURLUE_OUT_OF_MEMORY)
