/* What goes into the history, and in which form. history.h describes it for readers. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "agent_private.h"
#include "banned.h"

int agent_append(struct agent *a, json_t *message, struct error *err)
{
    if (!message)
        return error_set(err, ENOMEM, "no memory");
    int r = history_append(a->history, message, err);
    json_decref(message);
    return r;
}

json_t *text_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

json_t *message_of_person(unsigned turn, const char *aside, const char *words)
{
    json_t *content = json_array();
    if (aside && *aside)
        json_array_append_new(content, text_block(aside));
    json_array_append_new(content, text_block(words));
    return json_pack("{s:s, s:I, s:o}", "role", "user", "turn", (json_int_t)turn, "content",
                     content);
}

json_t *message_of_results(json_t *blocks)
{
    return json_pack("{s:s, s:o}", "role", "user", "content", blocks);
}

json_t *message_of_hutch(const char *kind, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    json_t *message = json_vpack_ex(NULL, 0, fmt, args);
    va_end(args);
    if (!message || json_object_set_new(message, "role", json_string("hutch")) < 0 ||
        json_object_set_new(message, "kind", json_string(kind)) < 0) {
        json_decref(message);
        return NULL;
    }
    return message;
}

int agent_record_box(struct agent *a, struct error *err)
{
    if (a->box_told)
        return 0;
    json_t *folder = a->folder_known
                         ? json_pack("[I, I]", (json_int_t)a->folder.dev, (json_int_t)a->folder.ino)
                         : NULL;
    int r = agent_append(
        a, message_of_hutch("box", "{s:s, s:o*}", "box", workbox_id(a->box), "folder", folder),
        err);
    a->box_told = r == 0;
    return r;
}

static json_t *usage_json(const struct model_usage *u)
{
    if (!u->known)
        return NULL;
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "input", (json_int_t)u->input, "output",
                     (json_int_t)u->output, "cache_read", (json_int_t)u->cache_read, "cache_write",
                     (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking);
}

int agent_record_answer(struct agent *a, const struct model_reply *reply, const char *stop,
                        double cost, struct error *err)
{
    json_t *m = json_pack("{s:s, s:O, s:s, s:s, s:o*, s:o*}", "role", "assistant", "content",
                          reply->content, "model", a->model_name, "stop", stop, "usage",
                          usage_json(&reply->usage), "cost", cost >= 0 ? json_real(cost) : NULL);
    return agent_append(a, m, err);
}
