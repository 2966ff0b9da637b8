#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "peer.h"
#include "banned.h"

#define DEFAULT_TIMEOUT_S 60.0
#define TROUBLE_MAX       (64u << 10)

struct peer *peer_new(const char *name, json_t *settings)
{
    const json_t *timeout = json_object_get(settings, "timeout");
    struct peer *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->name = strdup(name);
    s->settings = json_incref(settings);
    s->timeout_ns =
        (int64_t)((timeout ? json_number_value(timeout) : DEFAULT_TIMEOUT_S) * NS_PER_S) + 1;
    s->trouble = BUF_INIT(TROUBLE_MAX);
    pthread_mutex_init(&s->lock, NULL);
    return s->name ? s : peer_free(s);
}

void peer_stop(struct peer *s)
{
    for (size_t i = 0; i < s->n_clients; i++)
        client_stop(s->clients[i]);
}

struct peer *peer_free(struct peer *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n_clients; i++)
        client_free(s->clients[i]);
    free(s->clients);
    while (s->kept) {
        struct peer_tool *next = s->kept->next;
        peer_tool_free(s->kept);
        s->kept = next;
    }
    buf_free(&s->trouble);
    json_decref(s->settings);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    free(s);
    return NULL;
}

static int refuse_start(const struct peer *s, struct error *err)
{
    if (s->failure.code)
        return error_set(err, s->failure.code, "%.700s (tried %d times; not again in this session)",
                         s->failure.text, PEER_STARTS_MAX);
    return error_set(err, EPIPE,
                     "the MCP server '%s' ended %d times; it is not started again in this session",
                     s->name, PEER_STARTS_MAX);
}

static int start(struct peer *s, struct client **ret, struct error *err)
{
    struct client **more = realloc(
        s->clients, (s->n_clients + 1) * sizeof(void *)); /* one every few minutes at most */
    if (!more)
        return error_set(err, ENOMEM, "no memory");
    s->clients = more;
    s->failure = (struct error){0};
    int r = peer_start(s, &s->clients[s->n_clients], &s->failure);
    if (r < 0) {
        if (err)
            *err = s->failure;
        return r;
    }
    *ret = s->clients[s->n_clients++];
    return 0;
}

/* The lock is held. */
static int get_client(struct peer *s, struct client **ret, struct error *err)
{
    struct client *c = s->n_clients ? s->clients[s->n_clients - 1] : NULL;
    if (c && client_alive(c)) {
        *ret = c;
        return 0;
    }
    int64_t now = clock_now();
    if (c && now - s->started > PEER_LASTED_NS)
        s->starts = 0;
    if (s->starts == PEER_STARTS_MAX)
        return refuse_start(s, err);
    s->starts++;
    s->started = now;
    s->listed = false;
    return start(s, ret, err);
}

int peer_client(struct peer *s, struct client **ret, struct error *err)
{
    pthread_mutex_lock(&s->lock);
    int r = get_client(s, ret, err);
    pthread_mutex_unlock(&s->lock);
    return r;
}

int peer_refresh(struct peer *s, struct error *err)
{
    struct client *c = NULL;
    pthread_mutex_lock(&s->lock);
    int r = get_client(s, &c, err);
    if (r == 0 && (client_tools_changed(c) || !s->listed)) {
        r = peer_list_tools(s, c, err);
        s->listed = r == 0;
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

struct peer_tool *peer_find(struct peer *s, const char *remote)
{
    struct peer_tool *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_tools && !found; i++)
        if (strcmp(s->tools[i]->remote, remote) == 0)
            found = s->tools[i];
    pthread_mutex_unlock(&s->lock);
    return found;
}
