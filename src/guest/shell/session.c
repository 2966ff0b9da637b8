#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "shell/session.h"
#include "banned.h"

static bool session_name_is_valid(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strlen(name);
    return n > 0 && n <= SESSION_NAME_MAX && strspn(name, allowed) == n && name[0] != '.';
}

struct session *session_get(struct guest *g, const char *name)
{
    struct session *s;
    if (!session_name_is_valid(name))
        return NULL;
    LIST_FOREACH(s, &g->sessions, link)
    if (strcmp(s->name, name) == 0) {
        LIST_REMOVE(s, link);
        break;
    }
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return NULL;
        s->guest = g;
        s->raw = BUF_INIT(STATE_MAX);
        snprintf(s->name, sizeof s->name, "%s", name);
        session_load(s);
        g->n_sessions++;
    }
    LIST_INSERT_HEAD(&g->sessions, s, link);
    return s;
}

void session_free(struct session *s)
{
    LIST_REMOVE(s, link);
    s->guest->n_sessions--;
    buf_free(&s->raw);
    words_free(&s->seed);
    free(s);
}

static bool words_have(const struct words *list, const char *entry)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->list[i], entry) == 0)
            return true;
    return false;
}

static bool words_same(const struct words *a, const struct words *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = strcmp(a->list[i], b->list[i]) == 0;
    return equal;
}

static void session_put_exports(struct buf *b, const struct words *env, const struct words *but,
                                bool plain)
{
    for (size_t i = 0; i < env->count; i++)
        if (state_is_variable(env->list[i]) && !(but && words_have(but, env->list[i])))
            state_put_export(b, env->list[i], plain);
}

/* Commands for the variables that are new or different, behind those that there are. */
static int session_add_changed(struct session *s, const struct words *env)
{
    _cleanup_buf_ struct buf more = BUF_INIT(STATE_MAX);
    struct buf raw = BUF_INIT(STATE_MAX);
    struct state st;
    session_put_exports(&more, env, &s->seed, s->plain);
    const char *text = buf_cstr(&more);
    if (!text || !state_parse(s->raw.data, s->raw.len, &st) ||
        state_put(&raw, st.cwd, st.cwd_len, st.exports, text, st.functions) < 0) {
        buf_free(&raw);
        return -ENOBUFS;
    }
    buf_free(&s->raw);
    s->raw = raw;
    s->revision++;
    return 0;
}

int session_seed(struct session *s, struct words *env)
{
    int r = 0;
    if (words_same(&s->seed, env))
        return 0;
    /* What was loaded came with the variables of then: those count until the host asks for others.
     */
    if (s->raw.len && s->seed.list)
        r = session_add_changed(s, env);
    words_free(&s->seed);
    s->seed = *env;
    *env = (struct words){0};
    return r;
}

int session_begin(struct session *s, bool fresh, struct state *ret)
{
    if (fresh || !s->raw.len) {
        s->raw.len = 0;
        s->raw.failed = false;
        s->revision++;
        _cleanup_buf_ struct buf exports = BUF_INIT(STATE_MAX);
        session_put_exports(&exports, &s->seed, NULL, s->plain);
        const char *text = buf_cstr(&exports);
        if (!text)
            return -ENOBUFS;
        int r = state_put(&s->raw, SESSION_FOLDER, strlen(SESSION_FOLDER), text, "", "");
        if (r < 0)
            return r;
    }
    return state_parse(s->raw.data, s->raw.len, ret) ? 0 : -EINVAL;
}

int session_save(struct session *s, const struct state *st, bool own_cwd)
{
    struct buf raw = BUF_INIT(STATE_MAX);
    struct state old;
    bool keep = own_cwd && state_parse(s->raw.data, s->raw.len, &old);
    int r = state_put(&raw, keep ? old.cwd : st->cwd, keep ? old.cwd_len : st->cwd_len, st->exports,
                      "", st->functions);
    if (r < 0 || (raw.len == s->raw.len && memcmp(raw.data, s->raw.data, raw.len) == 0)) {
        buf_free(&raw);
    } else {
        buf_free(&s->raw);
        s->raw = raw;
        s->revision++;
        s->unwritten = true;
    }
    if (s->unwritten)
        session_store(s);
    return r;
}
