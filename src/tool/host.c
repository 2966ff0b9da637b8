#include <errno.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "session_state.h"
#include "banned.h"

#define CONFIRMED_MAX 64

struct session_host {
    struct tool_host host;
    uint8_t confirmed[CONFIRMED_MAX][SHA256_DIGEST_LENGTH];
    size_t n_confirmed; /* ever; the oldest is overwritten */
};

static void session_host_clear(struct session_host *h)
{
    free((char *)h->host.workspace);
    for (size_t i = 0; i < h->host.n_clones; i++)
        free((char *)h->host.clones[i]);
    for (size_t i = 0; i < h->host.n_nets; i++)
        free((char *)h->host.nets[i]);
}

void session_host_free(struct session_host *h)
{
    if (h)
        session_host_clear(h);
    free(h);
}

/* Which folder of the host the box shows, and whether it writes there. */
static int host_look_at_box(struct box *b, struct tool_host *h, struct error *err)
{
    _cleanup_box_info_ struct box_info info = {0};
    int r = box_info(b, &info, err);
    if (r < 0)
        return r;
    h->workspace = TAKE_PTR(info.workspace);
    h->direct = info.mode == BOX_DIRECT;
    return 0;
}

int tool_session_set_host(struct tool_session *s, const struct tool_host *host, struct error *err)
{
    struct session_host *h = calloc(1, sizeof *h);
    if (!h)
        return error_set(err, ENOMEM, "no memory");
    h->host = *host;
    h->host.workspace = NULL;
    int r = host_look_at_box(s->box, &h->host, err);
    for (size_t i = 0; i < host->n_clones; i++)
        if (!(h->host.clones[i] = strdup(host->clones[i])) && r == 0)
            r = error_set(err, ENOMEM, "no memory");
    for (size_t i = 0; i < host->n_nets; i++)
        if (!(h->host.nets[i] = strdup(host->nets[i])) && r == 0)
            r = error_set(err, ENOMEM, "no memory");
    if (r < 0) {
        session_host_free(h);
        return r;
    }
    session_host_free(s->host);
    s->host = h;
    return 0;
}

const struct tool_host *tool_session_host(const struct tool_session *s)
{
    return s->host ? &s->host->host : NULL;
}

/* Was exactly this confirmed before? With `add` it is from now on. */
static bool host_confirmed(struct tool_session *s, const char *tool, const char *text, bool add)
{
    struct session_host *h = s->host;
    SHA2_CTX hash;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    bool found = false;
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)tool, strlen(tool) + 1);
    SHA256Update(&hash, (const uint8_t *)text, strlen(text));
    SHA256Final(digest, &hash);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < CONFIRMED_MAX && i < h->n_confirmed && !found; i++)
        found = memcmp(h->confirmed[i], digest, sizeof digest) == 0;
    if (add && !found)
        memcpy(h->confirmed[h->n_confirmed++ % CONFIRMED_MAX], digest, sizeof digest);
    pthread_mutex_unlock(&s->lock);
    return found;
}

int host_confirm(struct tool_call *c, const char *title, const char *text, const char *option,
                 struct error *err)
{
    const struct tool_host *h = tool_session_host(c->session);
    if (host_confirmed(c->session, c->tool->name, text, false))
        return 0;
    int r = h->confirm.ask ? h->confirm.ask(h->confirm.data, title, text, c->cancel) : -ENOTTY;
    if (r > 0) {
        host_confirmed(c->session, c->tool->name, text, true);
        return 0;
    }
    if (r == 0)
        return error_set(
            err, EPERM,
            "the user was asked and said no; nothing was sent. Ask them what to do differently"
            " before you try again");
    if (r == -ENOTTY)
        return error_set(err, ENOTTY,
                         "%s must be confirmed by the user, and nobody can be asked here; nothing "
                         "was sent. The user"
                         " can allow it in advance with %s",
                         c->tool->name, option);
    return r == -ECANCELED ? error_set(err, ECANCELED, "the call was cancelled; nothing was sent")
                           : error_errno(err, -r, "cannot ask the user; nothing was sent");
}
