/* /net and /set: the box of the conversation changes while it lives. */
#include <errno.h>
#include <string.h>

#include "cleanup.h"
#include "desk_private.h"
#include "host.h"
#include "session.h"
#include "toolbox.h"
#include "units.h"
#include "box_options_parse.h"
#include "banned.h"

static struct tool_session *settings_tools(struct desk *d, struct error *err)
{
    struct tool_session *tools = d->agent ? agent_tools(d->agent) : NULL;
    if (!tools)
        error_set(err, EIO, "there is no box yet");
    return tools;
}

static int settings_show(struct tool_session *tools, struct answer *a, struct error *err)
{
    struct tool_box *box = tool_session_box(tools);
    struct keeper_info info = {0};
    int r = keeper_info(box->registry, &box->id, &info, err);
    if (r < 0)
        return r;
    buf_printf(&a->text, "net      %s\nmemory   %lluM\npids     %llu\n",
               info.net ? info.net : "off", (unsigned long long)(info.limits.memory >> 20),
               (unsigned long long)info.limits.pids);
    if (info.limits.cpus > 0)
        buf_printf(&a->text, "cpus     %g\n", info.limits.cpus);
    else
        buf_append_str(&a->text, "cpus     all\n");
    buf_printf(&a->text, "timeout  %llds\n", (long long)(info.limits.timeout_ns / 1000000000));
    keeper_info_free(&info);
    return 0;
}

/* Hosts are added to those that the box has: a person types them one refusal after the other. */
static int settings_change(struct desk *d, const char *name, const char *value, struct answer *a,
                           struct error *err)
{
    _cleanup_box_spec_ struct box_spec w;
    char note[BOX_SPEC_NOTE];
    struct tool_session *tools = settings_tools(d, err);
    if (!tools)
        return -EIO;
    const struct tool_host *host = tool_session_host(tools);
    box_spec_init(&w, "");
    int r = box_spec_set(&w, name, value, err);
    if (r == 0 && !(w.fields & BOX_SET_LIVE))
        r = error_set(err, EINVAL,
                      "%s cannot be changed while the box runs; net, memory, cpus, pids and"
                      " timeout can",
                      name);
    w.box.workspace = host ? host->workspace : NULL;
    if (r == 0)
        r = box_spec_resolve_groups(&w, err);
    bool add = w.fields & BOX_SET_NET && w.box.net == BOX_NET_ALLOW;
    if (r == 0)
        r = tool_box_adjust(tool_session_box(tools), &w.box, add ? BOX_SET_NET_ADD : w.fields, err);
    if (r < 0)
        return r;
    box_spec_note(&w, note);
    if (note[0])
        buf_printf(&a->text, "%s\n", note);
    _cleanup_buf_ struct buf told = BUF_INIT(8192);
    buf_printf(&told, "[I changed the box: %s %s]", name, value);
    if (!told.failed)
        prompt_note(d->agent, (const char *)told.data, told.len);
    return settings_show(tools, a, err);
}

int desk_net(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct tool_session *tools = settings_tools(d, err);
    if (!tools)
        return -EIO;
    return j->text ? settings_change(d, "net", j->text, a, err) : settings_show(tools, a, err);
}

int desk_set(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct tool_session *tools = settings_tools(d, err);
    if (!tools)
        return -EIO;
    if (!j->text)
        return settings_show(tools, a, err);
    char name[32];
    size_t n = strcspn(j->text, " \t=");
    const char *value = j->text + n + strspn(j->text + n, " \t=");
    snprintf(name, sizeof name, "%.*s", (int)n, j->text);
    if (!*value)
        return error_set(err, EINVAL, "/set needs a value: /set memory 4G");
    return settings_change(d, name, value, a, err);
}
