/* The commands that show or change settings: of the model, of attempts, of the box. */
#include <errno.h>
#include <string.h>

#include "json.h"
#include "box_options.h"
#include "net_policy.h"
#include "cleanup.h"
#include "thread.h"
#include "chat_command.h"
#include "session.h"
#include "tui.h"
#include "box.h"
#include "options.h"
#include "banned.h"

static int model_run(struct conversation *c, const struct chat_entry *entry,
                     struct chat_result *ret, struct error *err)
{
    struct agent_state s = {0};
    int r = entry->text ? agent_set_model(c->agent, entry->text, err) : 0;
    if (r < 0)
        return r;
    agent_state(c->agent, &s);
    buf_printf(&ret->text, "%s%s (window: ", entry->text ? "Now using " : "Using ", s.model);
    summary_number(s.window, &ret->text);
    return buf_printf(&ret->text, " tokens).%s\n",
                      entry->text ? "" : " Change it with /model PROVIDER/NAME.");
}

const struct chat_command CHAT_MODEL = {.name = "model",
                                        .args = "[NAME]",
                                        .help = "show or change the model",
                                        .takes = ARGS_OPTIONAL_TEXT,
                                        .completes = COMPLETES_MODELS,
                                        .run = model_run};

static int compact_run(struct conversation *c, const struct chat_entry *entry,
                       struct chat_result *ret, struct error *err)
{
    return agent_compact(c->agent, err);
}

const struct chat_command CHAT_COMPACT = {.name = "compact",
                                          .args = "",
                                          .help = "summarise the older part of the conversation",
                                          .busy = "summarising",
                                          .run = compact_run};

static void cost_put_tokens(struct buf *out, const char *what, uint64_t n)
{
    buf_printf(out, "%-14s", what);
    summary_number(n, out);
    buf_append_str(out, " tokens\n");
}

static int cost_run(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
                    struct error *err)
{
    struct agent_state s = {0};
    struct buf *out = &ret->text;
    agent_state(c->agent, &s);
    cost_put_tokens(out, "input", s.usage.input);
    if (s.usage.cache_read || s.usage.cache_write) {
        cost_put_tokens(out, "  cache read", s.usage.cache_read);
        cost_put_tokens(out, "  cache write", s.usage.cache_write);
    }
    cost_put_tokens(out, "output", s.usage.output);
    cost_put_tokens(out, "context now", s.context);
    if (s.money.known)
        return buf_printf(out, "%-14s$%.4f\n", "cost", s.money.cost);
    return buf_printf(out, "%-14sunknown: no price is configured for %s\n", "cost",
                      s.model ? s.model : "this model");
}

const struct chat_command CHAT_COST = {
    .name = "cost", .args = "", .help = "show the tokens and the cost so far", .run = cost_run};

static void tools_on_tool(void *data, const struct tool *t)
{
    buf_printf(data, "%-14s %s\n", t->name, t->title ? t->title : "");
}

static void tools_on_trouble(void *data, const char *text)
{
    buf_printf(data, "%s\n", text);
}

static int tools_run(struct conversation *c, const struct chat_entry *entry,
                     struct chat_result *ret, struct error *err)
{
    struct tool_session *tools = conversation_tools(c, err);
    if (!tools)
        return -EIO;
    tool_session_list(tools, tools_on_tool, tools_on_trouble, &ret->text);
    return 0;
}

const struct chat_command CHAT_TOOLS = {
    .name = "tools", .args = "", .help = "list the agent's tools", .run = tools_run};

static int plan_run(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
                    struct error *err)
{
    struct tool_session *tools = agent_tools(c->agent);
    json_t *plan = tools ? tool_session_plan(tools) : NULL, *item;
    size_t i;
    json_array_foreach(plan, i, item)
    {
        const char *text = json_get_string(item, "text");
        const char *state = json_get_string(item, "state");
        const char *mark = !state                          ? " "
                           : strcmp(state, "done") == 0    ? "✓"
                           : strcmp(state, "active") == 0  ? "▸"
                           : strcmp(state, "dropped") == 0 ? "–"
                                                           : "·";
        buf_printf(&ret->text, "%s %s\n", mark, text ? text : "");
    }
    if (json_array_size(plan) == 0)
        buf_append_str(&ret->text, "No plan.\n");
    json_decref(plan);
    return 0;
}

const struct chat_command CHAT_PLAN = {
    .name = "plan", .args = "", .help = "show the agent's plan", .run = plan_run};

static int attempts_run(struct conversation *c, const struct chat_entry *entry,
                        struct chat_result *ret, struct error *err)
{
    if (entry->n == 0 && c->attempts < 2)
        return buf_append_str(&ret->text,
                              "One agent works on each task. '/attempts 3 make test' lets three "
                              "agents try the next task, and the test picks the best.\n");
    if (entry->n > 0) {
        char *test = entry->text ? strdup(entry->text) : NULL;
        if (entry->text && !test)
            return error_set(err, ENOMEM, "no memory");
        free(c->test);
        c->test = test;
        c->attempts = entry->n;
    }
    if (c->attempts < 2)
        return buf_append_str(&ret->text, "One agent works on each task again.\n");
    return buf_printf(&ret->text, "%u agents will try the next task; '%s' picks the best.\n",
                      c->attempts, c->test ? c->test : "");
}

const struct chat_command CHAT_ATTEMPTS = {.name = "attempts",
                                           .args = "[N CMD | off]",
                                           .help =
                                               "let N agents try the next task; CMD picks the best",
                                           .takes = ARGS_ATTEMPTS,
                                           .run = attempts_run};

/* /net and /set: show or change settings of the running box. New hosts are added to those that it
 * may reach already, since users allow them one by one. */
static int box_settings_run(struct conversation *c, const struct chat_entry *entry,
                            struct chat_result *ret, struct error *err)
{
    _cleanup_box_info_ struct box_info info = {0};
    _cleanup_box_spec_ struct box_spec w;
    _cleanup_buf_ struct buf to_model = BUF_INIT(8192);
    struct tool_session *tools = conversation_tools(c, err);
    char name[32] = "net", note[BOX_SPEC_NOTE] = "";
    const char *value = entry->text;
    int r = 0;
    box_spec_init(&w, "");
    if (!tools)
        return -EIO;
    const struct tool_host *host = tool_session_host(tools);
    struct box *box = tool_session_box(tools);
    if (value && entry->command == &CHAT_SET) {
        size_t n = strcspn(value, " \t=");
        snprintf(name, sizeof name, "%.*s", (int)n, value);
        value += n + strspn(value + n, " \t=");
        if (!*value)
            return error_set(err, EINVAL, "/set needs a value: /set memory 4G");
    }
    if (value) {
        r = box_spec_set(&w, name, value, err);
        if (r == 0 && !(w.fields & BOX_SET_LIVE))
            r = error_set(err, EINVAL,
                          "%s cannot be changed while the box runs; net, memory, cpus, pids and "
                          "timeout can",
                          name);
        w.box.workspace = host ? host->workspace : NULL;
        if (r == 0)
            r = box_spec_resolve_groups(&w, err);
        bool add = w.fields & BOX_SET_NET && w.box.net->adds;
        if (r == 0)
            r = box_adjust(box, &w.box, add ? BOX_SET_NET_ADD : w.fields, err);
        if (r < 0)
            return r;
        box_spec_note(&w, note);
        buf_printf(&to_model, "[I changed the box: %s %s]", name, value);
        if (!to_model.failed)
            prompt_note(c->agent, (const char *)to_model.data, to_model.len);
    }
    r = box_info(box, &info, err);
    if (r < 0)
        return r;
    char cpus[32] = "all";
    if (info.limits.cpus > 0)
        snprintf(cpus, sizeof cpus, "%g", info.limits.cpus);
    return buf_printf(&ret->text,
                      "%s%snet      %s\nmemory   %lluM\npids     %llu\ncpus     %s\n"
                      "timeout  %llds\n",
                      note, note[0] ? "\n" : "", info.net ? info.net : "off",
                      (unsigned long long)(info.limits.memory >> 20),
                      (unsigned long long)info.limits.pids, cpus,
                      (long long)(info.limits.timeout_ns / NS_PER_S));
}

const struct chat_command CHAT_NET = {.name = "net",
                                      .args = "[allow:H,@G | off]",
                                      .help = "show or change the hosts that the box may reach",
                                      .takes = ARGS_OPTIONAL_TEXT,
                                      .run = box_settings_run};

const struct chat_command CHAT_SET = {.name = "set",
                                      .args = "[NAME VALUE]",
                                      .help = "show or change memory, cpus, pids, timeout",
                                      .takes = ARGS_OPTIONAL_TEXT,
                                      .run = box_settings_run};
