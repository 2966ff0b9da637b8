#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "session_state.h"
#include "banned.h"

int tool_session_new(struct box *box, const char *shell, struct tool_session **ret,
                     struct error *err)
{
    struct tool_session *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->box = box;
    s->shell = strdup(shell ? shell : "main");
    s->plan = json_array();
    call_queue_init(&s->queue);
    pthread_mutex_init(&s->lock, NULL);
    if (!s->shell || !s->plan) {
        tool_session_free(s);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = s;
    return 0;
}

struct tool_session *tool_session_free(struct tool_session *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n_sources; i++)
        s->sources[i]->free(s->sources[i]);
    session_host_free(s->host);
    json_decref(s->plan);
    call_queue_destroy(&s->queue);
    pthread_mutex_destroy(&s->lock);
    free(s->snapshot);
    free(s->shell);
    free(s);
    return NULL;
}

int tool_session_add(struct tool_session *s, struct tool_source *source)
{
    if (s->n_sources == ARRAY_SIZE(s->sources))
        return -ENOBUFS;
    s->sources[s->n_sources++] = source;
    return 0;
}

int tool_session_state(struct tool_session *s, struct tool_cache *cache, const char *snapshot)
{
    char *name = snapshot ? strdup(snapshot) : NULL;
    if (snapshot && !name)
        return -ENOMEM;
    pthread_mutex_lock(&s->lock);
    free(s->snapshot);
    s->snapshot = name;
    s->cache = cache;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

int tool_session_alone(struct tool_session *s, struct tool_cache *cache)
{
    int r = tool_session_state(s, cache, "0");
    pthread_mutex_lock(&s->lock);
    s->alone = r == 0;
    pthread_mutex_unlock(&s->lock);
    return r;
}

void tool_session_serial(struct tool_session *s, uint64_t serial)
{
    pthread_mutex_lock(&s->lock);
    s->serial = serial;
    pthread_mutex_unlock(&s->lock);
}

uint64_t tool_session_serial_now(struct tool_session *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t serial = s->serial;
    pthread_mutex_unlock(&s->lock);
    return serial;
}

uint64_t tool_session_changes(struct tool_session *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->changes;
    pthread_mutex_unlock(&s->lock);
    return n;
}

struct box *tool_session_box(struct tool_session *s)
{
    return s->box;
}

const char *tool_session_shell(const struct tool_session *s)
{
    return s->shell;
}

json_t *tool_session_plan(struct tool_session *s)
{
    pthread_mutex_lock(&s->lock);
    json_t *plan = json_deep_copy(s->plan);
    pthread_mutex_unlock(&s->lock);
    return plan;
}

void tool_session_set_plan(struct tool_session *s, json_t *plan)
{
    pthread_mutex_lock(&s->lock);
    json_decref(s->plan);
    s->plan = plan;
    pthread_mutex_unlock(&s->lock);
}

static bool session_offers(const struct tool_session *s, const struct tool *t)
{
    return s->host || !(t->flags & TOOL_HOST);
}

const struct tool *tool_session_find(struct tool_session *s, const char *name, struct error *err)
{
    for (size_t i = 0; TOOLS[i]; i++)
        if (strcmp(TOOLS[i]->name, name) == 0 && session_offers(s, TOOLS[i]))
            return TOOLS[i];
    for (size_t i = 0; i < s->n_sources; i++) {
        const struct tool *t = s->sources[i]->find(s->sources[i], s, name, err);
        if (t)
            return t;
        if (err->code) {
            err->code = EIO; /* there is one: whatever is missing, it is not the tool */
            return NULL;
        }
    }
    error_set(err, ENOENT, "there is no tool '%.100s'; `hutch tool --list` shows all", name);
    return NULL;
}

void tool_session_list(struct tool_session *s, void (*each)(void *data, const struct tool *t),
                       void (*trouble)(void *data, const char *text), void *data)
{
    for (size_t i = 0; TOOLS[i]; i++)
        if (session_offers(s, TOOLS[i]))
            each(data, TOOLS[i]);
    for (size_t i = 0; i < s->n_sources; i++)
        s->sources[i]->list(s->sources[i], s, each, trouble, data);
}
