/* The desk: other conversations than the one at hand. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "desk_private.h"
#include "io.h"
#include "summary.h"
#include "banned.h"

int desk_load(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct agent_options o = d->options;
    struct agent_sink sink = desk_agent_sink(d);
    struct agent *agent;
    struct agent_state before = {0};
    agent_state(d->agent, &before);
    char session[HISTORY_ID_MAX];
    snprintf(session, sizeof session, "%s", before.session ? before.session : "");
    if (strcmp(j->text, session) == 0)
        return error_set(err, EINVAL, "%s is the session at hand", session);
    o.resume = j->text;
    int r = agent_open(&o, &sink, &agent, err);
    if (r < 0)
        return r;
    bool worth = before.turns > 0;
    desk_use(d, agent);
    d->sink.anew(d->sink.data);
    if (worth)
        buf_printf(&a->text, "/load %s returns to the session before.\n", session);
    r = desk_recall(d, err);
    return r < 0 ? r : desk_changes(d, a, err);
}

int desk_fork(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct agent_sink sink = desk_agent_sink(d);
    struct agent *agent;
    struct agent_state s = {0};
    unsigned turns = history_turns(agent_history(d->agent));
    if (j->n > turns)
        return error_set(err, EINVAL, "there is no turn %u yet: the last one is %u", j->n, turns);
    agent_state(d->agent, &s);
    char before[HISTORY_ID_MAX];
    snprintf(before, sizeof before, "%s", s.session ? s.session : "");
    int r = agent_fork(d->agent, j->n, &sink, &agent, err);
    if (r < 0)
        return r;
    desk_use(d, agent);
    agent_state(d->agent, &s);
    buf_printf(&a->text, "Forked to session %s, with its own box", s.session ? s.session : "");
    if (j->n)
        buf_printf(&a->text, " and the files as they were after turn %u", j->n);
    buf_printf(&a->text, "; /load %s returns to the first one.\n", before);
    if (j->n > 0 && j->n < turns) {
        d->sink.anew(d->sink.data);
        r = desk_recall(d, err);
    }
    return r < 0 ? r : desk_changes(d, a, err);
}

#define SESSIONS_SHOWN 20

/* `5m ago` */
static void put_age(struct buf *out, time_t written)
{
    char text[SUMMARY_TIME_MAX];
    double age = difftime(time(NULL), written);
    if (age < 0)
        age = 0;
    if (age >= 2 * 86400)
        snprintf(text, sizeof text, "%.0fd", age / 86400);
    else if (age >= 3600)
        snprintf(text, sizeof text, "%.0fh", age / 3600);
    else
        snprintf(text, sizeof text, "%.0fm", age / 60);
    buf_printf(out, "%5s ago", text);
}

static void put_session(struct buf *out, const struct history_info *s)
{
    buf_printf(out, "%-18s", s->id);
    put_age(out, s->written);
    buf_printf(out, "  %3u turn%s  ", s->totals.turns, s->totals.turns == 1 ? " " : "s");
    if (s->title)
        summary_line(s->title, strlen(s->title), 60, out);
    buf_append_str(out, "\n");
}

int desk_sessions(struct desk *d, struct answer *a, struct error *err)
{
    struct history_info *list = NULL;
    size_t n = 0;
    int r = history_list(&list, &n, err);
    if (r < 0)
        return r;
    a->names = json_array();
    for (size_t i = 0; i < n && i < 1000; i++) {
        json_array_append_new(a->names,
                              json_pack("[s, s]", list[i].id, list[i].title ? list[i].title : ""));
        if (i < SESSIONS_SHOWN)
            put_session(&a->text, &list[i]);
    }
    if (n > SESSIONS_SHOWN)
        buf_printf(&a->text, "… and %zu older ones: hutch history ls\n", n - SESSIONS_SHOWN);
    if (n == 0)
        buf_append_str(&a->text, "There are none yet.\n");
    history_list_free(list, n);
    return 0;
}
