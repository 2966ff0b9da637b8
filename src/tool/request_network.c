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

static int request_network_run(struct tool_call *c, struct error *err)
{
    const struct tool_host *h = tool_session_host(c->session);
    _cleanup_buf_ struct buf list = BUF_INIT(TEXT_MAX);
    _cleanup_box_spec_ struct box_spec w;
    size_t i;
    json_t *host;
    box_spec_init(&w, "");
    buf_append_str(&list, "allow:");
    json_array_foreach(json_object_get(c->input, "hosts"), i, host)
    {
        const char *text = json_string_value(host);
        if (strpbrk(text, ", \t\r\n") || strlen(text) != json_string_length(host))
            return error_set(err, EINVAL,
                             "hosts: '%.100s' is not a host like example.org:443 or a group", text);
        buf_printf(&list, "%s%s", i ? "," : "", text);
    }
    if (!buf_cstr(&list))
        return error_set(err, ENOMEM, "no memory");
    int r = box_spec_set(&w, "net", buf_cstr(&list), err);
    w.box.workspace = h->workspace;
    if (r == 0)
        r = box_spec_resolve_groups(&w, err);
    /* What the user allowed in advance needs no confirmation. */
    bool allowed = true;
    for (i = 0; r == 0 && i < w.box.n_allow && allowed; i++) {
        allowed = false;
        for (size_t j = 0; j < h->n_nets && !allowed; j++)
            allowed = net_allow_covers(h->nets[j], w.box.allow[i]);
    }
    if (r == 0 && !allowed)
        r = request_confirm(c, &w.box, err);
    if (r == 0)
        r = box_adjust(tool_session_box(c->session), &w.box, BOX_SET_NET_ADD, err);
    if (r < 0)
        return r;
    char note[BOX_SPEC_NOTE];
    struct buf *said = &c->result->text;
    json_t *reached = json_array();
    buf_append_str(said, "The box can now reach ");
    for (i = 0; i < w.box.n_allow + w.box.n_hosts; i++) {
        bool is_host = i >= w.box.n_allow;
        const char *entry = is_host ? w.box.hosts[i - w.box.n_allow] : w.box.allow[i];
        if (!is_host && entry[0] == '@')
            continue;
        buf_printf(said, "%s%s", json_array_size(reached) ? ", " : "", entry);
        json_array_append_new(reached, json_string(entry));
    }
    buf_append_str(said, " through the proxy of http_proxy and https_proxy, in every command that"
                         " starts from now on.\n");
    box_spec_note(&w, note);
    if (note[0])
        buf_printf(said, "Note: %s.\n", note);
    c->result->data = json_pack("{s:o}", "allowed", reached);
    return 0;
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
