/*
 * Asks the user to let the box reach hosts of the network. The model names hosts or groups (@pip);
 * the user sees which hosts those are, and confirms once; then the box's list grows, while it runs.
 * What the user allowed in advance with --allow-net is not asked for.
 */
#include <errno.h>
#include <string.h>

#include "box.h"
#include "box_options.h"
#include "cleanup.h"
#include "net_policy.h"
#include "session.h"
#include "text.h"
#include "banned.h"

#define TEXT_MAX   (32u << 10)
#define REASON_MAX 500

/* "allow:A,B,…" of the input. */
static int request_join_hosts(const struct tool_call *c, struct buf *out, struct error *err)
{
    size_t i;
    json_t *host;
    buf_append_str(out, "allow:");
    json_array_foreach(json_object_get(c->input, "hosts"), i, host)
    {
        const char *text = json_string_value(host);
        if (strpbrk(text, ", \t\r\n") || strlen(text) != json_string_length(host))
            return error_set(err, EINVAL,
                             "hosts: '%.100s' is not a host like example.org:443 or a group", text);
        buf_printf(out, "%s%s", i ? "," : "", text);
    }
    return buf_cstr(out) ? 0 : error_set(err, ENOMEM, "no memory");
}

/* Whether the user allowed all of it in advance. */
static bool request_is_allowed(const struct tool_host *h, const struct box_options *o)
{
    for (size_t i = 0; i < o->n_allow; i++) {
        bool allowed = false;
        for (size_t j = 0; j < h->n_nets && !allowed; j++)
            allowed = net_allow_covers(h->nets[j], o->allow[i]);
        if (!allowed)
            return false;
    }
    return true;
}

static int request_confirm(struct tool_call *c, const struct box_options *o, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX), option = BUF_INIT(TEXT_MAX);
    const char *reason = input_string(c, "reason");
    struct harmless clean = {0};
    buf_append_str(&option, "--allow-net ");
    buf_append_str(&text, "Hosts:   ");
    for (size_t i = 0; i < o->n_allow; i++) {
        buf_printf(&text, "%s%s", i ? ", " : "", o->allow[i]);
        buf_printf(&option, "%s%s", i ? "," : "", o->allow[i]);
    }
    for (size_t i = 0; i < o->n_hosts; i++)
        buf_printf(&text, "%s%s", i ? ", " : "\nWhich is: ", o->hosts[i]);
    buf_append_str(&text, "\nReason:  ");
    harmless_append(&clean, reason, strnlen(reason, REASON_MAX), &text);
    buf_append_str(&text, "\n");
    if (!buf_cstr(&text) || !buf_cstr(&option))
        return error_set(err, ENOMEM, "no memory");
    return host_confirm(c, "Let the box reach these hosts?", buf_cstr(&text), buf_cstr(&option),
                        err);
}

static int request_answer(struct tool_call *c, const struct box_spec *w, struct error *err)
{
    char note[BOX_SPEC_NOTE];
    json_t *allowed = json_array();
    buf_append_str(&c->result->text, "The box can now reach ");
    for (size_t i = 0; i < w->box.n_allow + w->box.n_hosts; i++) {
        bool host = i >= w->box.n_allow;
        const char *entry = host ? w->box.hosts[i - w->box.n_allow] : w->box.allow[i];
        if (!host && entry[0] == '@')
            continue;
        buf_printf(&c->result->text, "%s%s", json_array_size(allowed) ? ", " : "", entry);
        json_array_append_new(allowed, json_string(entry));
    }
    buf_append_str(&c->result->text,
                   " through the proxy of http_proxy and https_proxy, in every command that"
                   " starts from now on.\n");
    box_spec_note(w, note);
    if (note[0])
        buf_printf(&c->result->text, "Note: %s.\n", note);
    c->result->data = json_pack("{s:o}", "allowed", allowed);
    return 0;
}

static int request_network_run(struct tool_call *c, struct error *err)
{
    const struct tool_host *h = tool_session_host(c->session);
    _cleanup_buf_ struct buf list = BUF_INIT(TEXT_MAX);
    _cleanup_box_spec_ struct box_spec w;
    box_spec_init(&w, "");
    int r = request_join_hosts(c, &list, err);
    if (r == 0)
        r = box_spec_set(&w, "net", buf_cstr(&list), err);
    w.box.workspace = h->workspace;
    if (r == 0)
        r = box_spec_resolve_groups(&w, err);
    if (r == 0 && !request_is_allowed(h, &w.box))
        r = request_confirm(c, &w.box, err);
    if (r == 0)
        r = box_adjust(tool_session_box(c->session), &w.box, BOX_SET_NET_ADD, err);
    return r < 0 ? r : request_answer(c, &w, err);
}

/* clang-format off */
const struct tool TOOL_REQUEST_NETWORK = {
    .name = "request_network",
    .title = "Ask for network access",
    .summary = "Asks the user to let the box reach hosts of the network, for example to install"
               " packages. Call it when a command failed because a connection was refused. Name"
               " the groups @pip, @npm, @cargo or @apt for what the user's package managers use"
               " (also their company's mirrors), or single hosts. The user sees the hosts and the"
               " reason, and confirms once. Then run the command again.",
    .input = SCHEMA({
        "type": "object", "additionalProperties": false, "required": ["hosts", "reason"],
        "properties": {
        "hosts": {"type": "array", "minItems": 1, "maxItems": 16, "items": {
                "type": "string", "minLength": 1, "maxLength": 260},
            "description": "HOST[:PORT] (default 80 and 443), *.HOST, @pip, @npm, @cargo, @apt."},
        "reason": {"type": "string", "minLength": 1, "maxLength": 500,
            "description": "One sentence for the user: what for."}}}),
    .output = SCHEMA({"type": "object", "required": ["allowed"], "properties": {
        "allowed": {"type": "array", "items": {"type": "string"},
            "description": "What the box can reach now in addition; groups as their hosts."}}}),
    .flags = TOOL_HOST,
    .run = request_network_run,
};
/* clang-format on */
