#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "mcp_tools.h"
#include "sources.h"
#include "banned.h"

#define PEERS_MAX 128 /* twice what one file may name */

struct peers {
    struct tool_source source; /* the first member */
    struct config config;
    struct peer *list[PEERS_MAX];
    size_t count;
};

static struct peer *find_peer(const struct peers *s, const char *name, size_t n)
{
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->list[i]->name) == n && memcmp(s->list[i]->name, name, n) == 0)
            return s->list[i];
    return NULL;
}

/* Why the workspace's servers are not started, and what to do if they should be. */
static int peers_refuse_untrusted(const struct config *c, struct error *err)
{
    char names[200] = "";
    size_t len = 0;
    const char *name;
    json_t *ignored;
    json_object_foreach(json_object_get(c->untrusted, "mcpServers"), name, ignored)
    {
        int n = snprintf(names + len, sizeof names - len, "%s%.60s", len ? ", " : "", name);
        len += n > 0 && (size_t)n < sizeof names - len ? (size_t)n : 0;
    }
    return error_set(
        err, EPERM,
        "the MCP servers of %s/" CONFIG_WORKSPACE_FILE
        " are not started (%s): the folder is not trusted. They would run on this machine with"
        " your rights; `hutch trust --show %s` shows them, `hutch trust %s` allows them",
        c->workspace, names, c->workspace, c->workspace);
}

static const struct tool *find_tool(struct peer *peer, const char *name, struct error *err)
{
    if (json_is_true(json_object_get(peer->settings, "disabled"))) {
        error_set(err, ENOENT, "the MCP server '%s' is disabled in the configuration", peer->name);
        return NULL;
    }
    if (peer_refresh(peer, err) < 0)
        return NULL;
    struct peer_tool *t = peer_find(peer, name);
    if (!t)
        error_set(err, ENOENT,
                  "the MCP server '%s' has no tool '%.100s'; `hutch tool --list` shows all",
                  peer->name, name);
    return t ? &t->tool : NULL;
}

static const struct tool *peers_find(struct tool_source *source, struct tool_session *session,
                                     const char *name, struct error *err)
{
    struct peers *s = (struct peers *)source;
    const char *dot = strchr(name, '.');
    if (!dot)
        return NULL;
    struct peer *peer = find_peer(s, name, (size_t)(dot - name));
    if (peer)
        return find_tool(peer, dot + 1, err);
    _cleanup_free_ char *first = strndup(name, (size_t)(dot - name));
    if (first && json_object_get(json_object_get(s->config.untrusted, "mcpServers"), first))
        peers_refuse_untrusted(&s->config, err);
    else if (s->config.trouble.code)
        *err = s->config.trouble;
    return NULL;
}

/* One peer, asked in a thread of its own: starting them one after the other would add up. */
struct asking {
    struct peer *peer;
    struct error err;
    int r;
    pthread_t thread;
    bool threaded;
};

static void *ask_one(void *data)
{
    struct asking *a = data;
    a->r = peer_refresh(a->peer, &a->err);
    return NULL;
}

static void tell_lines(struct peer *peer, void (*trouble)(void *data, const char *text), void *data)
{
    pthread_mutex_lock(&peer->lock);
    char *lines = peer->trouble.len ? strndup((char *)peer->trouble.data, peer->trouble.len) : NULL;
    pthread_mutex_unlock(&peer->lock);
    for (char *at = lines, *end; at && *at && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        trouble(data, at);
    }
    free(lines);
}

static void tell_tools(struct peer *peer, void (*each)(void *data, const struct tool *t),
                       void *data)
{
    pthread_mutex_lock(&peer->lock);
    for (size_t i = 0; i < peer->n_tools; i++)
        each(data, &peer->tools[i]->tool);
    pthread_mutex_unlock(&peer->lock);
}

static void peers_list(struct tool_source *source, struct tool_session *session,
                       void (*each)(void *data, const struct tool *t),
                       void (*trouble)(void *data, const char *text), void *data)
{
    struct peers *s = (struct peers *)source;
    struct error err = {0};
    struct asking *asked = calloc(PEERS_MAX, sizeof *asked);
    for (size_t i = 0; asked && i < s->count; i++) {
        if (json_is_true(json_object_get(s->list[i]->settings, "disabled")))
            continue;
        asked[i].peer = s->list[i];
        asked[i].threaded = pthread_create(&asked[i].thread, NULL, ask_one, &asked[i]) == 0;
        if (!asked[i].threaded)
            ask_one(&asked[i]);
    }
    for (size_t i = 0; asked && i < s->count; i++) {
        if (asked[i].threaded)
            pthread_join(asked[i].thread, NULL);
        if (asked[i].peer && asked[i].r < 0)
            trouble(data, asked[i].err.text);
        if (asked[i].peer && asked[i].r == 0) {
            tell_tools(asked[i].peer, each, data);
            tell_lines(asked[i].peer, trouble, data);
        }
    }
    free(asked);
    if (s->config.reported)
        return;
    if (s->config.trouble.code)
        trouble(data, s->config.trouble.text);
    if (json_object_size(json_object_get(s->config.untrusted, "mcpServers")) > 0) {
        peers_refuse_untrusted(&s->config, &err);
        trouble(data, err.text);
    }
}

/* All at once, so that several that do not want to end cost no more than one. */
static void peers_free(struct tool_source *source)
{
    struct peers *s = (struct peers *)source;
    for (size_t i = 0; i < s->count; i++)
        peer_stop(s->list[i]);
    for (size_t i = 0; i < s->count; i++)
        peer_free(s->list[i]);
    config_free(&s->config);
    free(s);
}

/* Those of one file; what is there already under a name stays. */
static int add_peers(struct peers *s, const json_t *config)
{
    const char *name;
    json_t *settings;
    json_object_foreach(json_object_get(config, "mcpServers"), name, settings)
    {
        if (find_peer(s, name, strlen(name)))
            continue;
        struct peer *peer = s->count < PEERS_MAX ? peer_new(name, settings) : NULL;
        if (!peer)
            return -ENOMEM;
        s->list[s->count++] = peer;
    }
    return 0;
}

static int peers_add(struct tool_session *session, struct config *config, struct error *err)
{
    struct peers *s = calloc(1, sizeof *s);
    if (!s) {
        config_free(config);
        return error_set(err, ENOMEM, "no memory");
    }
    s->config = *config;
    *config = (struct config){0};
    s->source = (struct tool_source){.find = peers_find, .list = peers_list, .free = peers_free};
    int r = add_peers(s, s->config.trusted); /* the workspace's go over the person's */
    if (r == 0)
        r = add_peers(s, s->config.own);
    if (r == 0)
        r = tool_session_add(session, &s->source);
    if (r < 0) {
        peers_free(&s->source);
        return error_errno(err, -r, "cannot add the MCP servers");
    }
    return 0;
}

void mcp_tools_register(void)
{
    tool_servers_add = peers_add;
}
