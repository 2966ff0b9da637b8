#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell.h"
#include "banned.h"

struct session *session_get(struct guest *g, const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strlen(name);
    if (n == 0 || n > SESSION_NAME_MAX || strspn(name, allowed) != n || name[0] == '.')
        return NULL;
    struct session *s = LIST_FIRST(&g->sessions);
    while (s && strcmp(s->name, name) != 0)
        s = LIST_NEXT(s, link);
    if (s) {
        LIST_REMOVE(s, link);
    } else {
        bool exists = false;
        s = calloc(1, sizeof *s);
        if (!s)
            return NULL;
        s->guest = g;
        s->raw = BUF_INIT(STATE_MAX);
        memcpy(s->name, name, n);
        s->unloadable = !state_load(name, &s->raw, &exists) && exists;
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

/* Commands for the variables of env, but for those that `but` has with the same value. */
static void session_put_exports(struct buf *b, const struct words *env, const struct words *but,
                                bool plain)
{
    for (size_t i = 0; i < env->count; i++) {
        bool known = !state_is_variable(env->list[i]);
        for (size_t k = 0; but && !known && k < but->count; k++)
            known = strcmp(but->list[k], env->list[i]) == 0;
        if (!known)
            state_put_export(b, env->list[i], plain);
    }
}

int session_seed(struct session *s, struct words *env)
{
    bool same = s->seed.count == env->count;
    for (size_t i = 0; same && i < env->count; i++)
        same = strcmp(s->seed.list[i], env->list[i]) == 0;
    if (same)
        return 0;
    /* A loaded state came with the variables of then: those count until the host asks for others,
     * which are added after them. */
    int r = 0;
    if (s->raw.len && s->seed.list) {
        _cleanup_buf_ struct buf more = BUF_INIT(STATE_MAX), raw = BUF_INIT(STATE_MAX);
        struct state st;
        session_put_exports(&more, env, &s->seed, s->plain);
        const char *text = buf_cstr(&more);
        if (!text || !state_parse(s->raw.data, s->raw.len, &st) ||
            state_put(&raw, st.cwd, st.cwd_len, st.exports, text, st.functions) < 0) {
            r = -ENOBUFS;
        } else {
            struct buf old = s->raw;
            s->raw = raw;
            raw = old;
            s->revision++;
        }
    }
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
    /* A full disk costs only what a fork would begin with, until the next call. */
    if (s->unwritten)
        s->unwritten = !state_store(s->name, &s->raw);
    return r;
}
