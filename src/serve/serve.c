/* Puts the server together, runs it, and takes it apart. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "server.h"
#include "banned.h"

#define FIRST_KEY "first"

static bool listen_is_loopback(const char *listen)
{
    static const char *const NAMES[] = {"127.", "localhost:", "[::1]:"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strncasecmp(listen, NAMES[i], strlen(NAMES[i])) == 0)
            return true;
    return false;
}

/* Whoever reaches the server can run commands on this host: so not without a key, nor readable. */
static int serve_check_exposure(const struct serve *s, bool has_key, struct error *err)
{
    const struct serve_options *o = s->options;
    if (listen_is_loopback(o->listen) || sd_listen_fds(0) > 0)
        return 0;
    if (!has_key)
        return error_set(err, EPERM,
                         "%s can be reached from elsewhere, and there is no key; make one with "
                         "'hutch key new NAME --role admin' or set AGENT_API_KEY",
                         o->listen);
    if (!o->tls && !o->insecure_http)
        return error_set(
            err, EPERM,
            "%s can be reached from elsewhere; give --tls CERT,KEY, or --insecure-http "
            "if a proxy in front of it does TLS",
            o->listen);
    return 0;
}

/* Called by the store when a job changed, from any thread. */
static void serve_job_changed(void *data, const char *job)
{
    struct serve *s = data;
    char topic[sizeof "job:" + JOB_ID_LEN];
    snprintf(topic, sizeof topic, "job:%s", job);
    topic_notify(s, topic);
    live_job_changed(s->live, job);
}

/* On a loopback address the first start makes a key; it is shown this once. */
static int serve_first_key(struct serve *s, bool has_key, char **ret_key, struct error *err)
{
    if (has_key)
        return 0;
    return keys_new(s->jobs, FIRST_KEY, "admin", ROLE_ADMIN, ret_key, err);
}

static void serve_set_url(struct serve *s)
{
    const char *listen = s->options->listen;
    size_t host = strcspn(listen, "]");
    host = listen[host] ? host + 1 : strcspn(listen, ":");
    bool any = host == 0 || strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0;
    snprintf(s->url, sizeof s->url, "%s://%.*s:%u", s->tls ? "https" : "http", any ? 9 : (int)host,
             any ? "localhost" : listen, s->port);
}

static int serve_open(struct serve *s, const char *admin_key, char **ret_key, struct error *err)
{
    const struct serve_options *o = s->options;
    char host[256];
    const char *port;
    int r = listen_parse(o->listen, host, sizeof host, &port, err);
    if (r == 0)
        r = dispatch_new(&s->dispatch, err);
    if (r < 0)
        return r;
    s->pool = pool_new();
    s->topics = topics_new(s);
    s->live = live_new();
    s->auth = auth_new(admin_key);
    if (!s->pool || !s->topics || !s->live || !s->auth)
        return error_set(err, ENOMEM, "out of memory");
    struct jobs_options jobs = {.data = o->data,
                                .store = o->store,
                                .keep_ms = o->keep_ms,
                                .changed = serve_job_changed,
                                .changed_data = s};
    r = jobs_open(&jobs, &s->jobs, err);
    if (r < 0)
        return r;
    bool has_key = keys_any(s->jobs) || (admin_key && *admin_key);
    r = serve_check_exposure(s, has_key, err);
    if (r == 0)
        r = serve_first_key(s, has_key, ret_key, err);
    if (r == 0)
        r = loop_open(s, err);
    if (r == 0)
        r = supervisor_start(s, &s->supervisor, err);
    if (r == 0)
        serve_set_url(s);
    return r;
}

/* Functions that do not end must not keep the process: then it just exits, and the system frees all. */
static void serve_close(struct serve *s)
{
    loop_close(s);
    supervisor_free(s->supervisor);
    if (s->pool && !pool_end(s->pool)) {
        log_message(LOG_WARN, "%u requests did not end; exiting", pool_busy(s->pool));
        return;
    }
    jobs_close(s->jobs);
    live_free(s->live);
    auth_free(s->auth);
    topics_free(s->topics);
    dispatch_free(s->dispatch);
    pool_free(s->pool);
    free(s);
}

int serve_run(const struct serve_options *o, struct error *err)
{
    struct serve *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "out of memory");
    const char *given = getenv("AGENT_API_KEY");
    char *admin_key = given ? strdup(given) : NULL, *first_key = NULL;
    unsetenv("AGENT_API_KEY"); /* workers need none, and what they run must not see it */
    signal(SIGPIPE, SIG_IGN);
    s->options = o;
    s->tls = o->tls != NULL;
    s->epoll = -1;
    s->max_body = o->max_body ? o->max_body : BODY_MAX;
    s->max_upload = o->max_upload;
    log_level = o->log;
    int r = serve_open(s, admin_key, &first_key, err);
    free(admin_key);
    if (r == 0) {
        o->ready(o->ready_data, s->url, first_key);
        sd_notify(0, "READY=1");
        loop_run(s);
    }
    free(first_key);
    serve_close(s);
    return r;
}
