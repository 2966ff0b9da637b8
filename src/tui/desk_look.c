/* The desk: what there is to know. */
#include <errno.h>
#include <string.h>

#include "desk_private.h"
#include "session.h"
#include "banned.h"

int desk_model(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct agent_state s = {0};
    if (j->text) {
        int r = agent_set_model(d->agent, j->text, err);
        if (r < 0)
            return r;
    }
    agent_state(d->agent, &s);
    buf_printf(&a->text, "%s %s, with a window of ", s.model,
               j->text ? "is asked from now on" : "is asked");
    put_number(&a->text, s.window);
    return buf_printf(&a->text, " tokens.%s\n",
                      j->text ? "" : " /model PROVIDER/NAME asks another one.");
}

static void put_tokens(struct buf *out, const char *what, uint64_t n)
{
    buf_printf(out, "%-14s", what);
    put_number(out, n);
    buf_append_str(out, " tokens\n");
}

int desk_cost(struct desk *d, struct answer *a, struct error *err)
{
    struct agent_state s = {0};
    struct buf *out = &a->text;
    agent_state(d->agent, &s);
    put_tokens(out, "input", s.usage.input);
    if (s.usage.cache_read || s.usage.cache_write) {
        put_tokens(out, "  cached", s.usage.cache_read);
        put_tokens(out, "  to the cache", s.usage.cache_write);
    }
    put_tokens(out, "output", s.usage.output);
    put_tokens(out, "context now", s.context);
    if (s.money.known)
        return buf_printf(out, "%-14s$%.4f\n", "cost", s.money.cost);
    return buf_printf(out, "%-14snot known: the configuration has no price for %s\n", "cost",
                      s.model ? s.model : "it");
}

static void on_tool(void *data, const struct tool *t)
{
    buf_printf(data, "%-14s %s\n", t->name, t->title ? t->title : "");
}

static void on_trouble(void *data, const char *text)
{
    buf_printf(data, "%s\n", text);
}

int desk_tools(struct desk *d, struct answer *a, struct error *err)
{
    struct tool_session *tools = agent_tools(d->agent);
    if (!tools)
        return error_set(err, EIO, "there is no box yet");
    tool_session_list(tools, on_tool, on_trouble, &a->text);
    return 0;
}

static const char *mark_of(const char *state)
{
    return !state                          ? " "
           : strcmp(state, "done") == 0    ? "✓"
           : strcmp(state, "active") == 0  ? "▸"
           : strcmp(state, "dropped") == 0 ? "–"
                                           : "·";
}

int desk_plan(struct desk *d, struct answer *a, struct error *err)
{
    struct tool_session *tools = agent_tools(d->agent);
    json_t *plan = tools ? tool_session_plan(tools) : NULL, *item;
    size_t i;
    json_array_foreach(plan, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "text"));
        buf_printf(&a->text, "%s %s\n", mark_of(json_string_value(json_object_get(item, "state"))),
                   text ? text : "");
    }
    if (json_array_size(plan) == 0)
        buf_append_str(&a->text, "There is no plan.\n");
    json_decref(plan);
    return 0;
}
