#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "json.h"
#include "rpc.h"
#include "tool.h"
#include "banned.h"

void rpc_reader_free(struct rpc_reader *r)
{
    buf_free(&r->in);
}

int rpc_take(struct rpc_reader *r, const char **data, size_t *n, struct rpc_line *ret)
{
    if (r->whole)
        r->in.len = 0;
    r->whole = false;
    while (*n > 0) {
        const char *end = memchr(*data, '\n', *n);
        size_t piece = end ? (size_t)(end - *data) : *n;
        if (!r->lost && buf_append(&r->in, *data, piece) < 0) {
            r->lost = true;
            buf_free(&r->in);
        }
        piece += end != NULL;
        *data += piece;
        *n -= piece;
        if (!end)
            return 0;
        bool lost = r->lost;
        r->lost = false;
        if (lost)
            return -ENOBUFS;
        size_t blank = 0;
        while (blank < r->in.len && strchr(" \t\r", r->in.data[blank] ? r->in.data[blank] : 1))
            blank++;
        if (blank < r->in.len) {
            r->whole = true;
            *ret = (struct rpc_line){(const char *)r->in.data, r->in.len};
            return 1;
        }
        r->in.len = 0;
    }
    return 0;
}

int rpc_parse(const char *data, size_t n, json_t **ret, struct error *err)
{
    json_error_t at;
    if (json_count_values(data, n, RPC_VALUES_MAX) > RPC_VALUES_MAX)
        return error_set(err, E2BIG, "the message has more than %u values", RPC_VALUES_MAX);
    json_t *value =
        json_loadb(data, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
    if (!value && json_error_code(&at) == json_error_out_of_memory)
        return error_set(err, ENOMEM, "no memory for the message");
    if (!value)
        return error_set(err, EBADMSG, "not JSON: at byte %d: %s", at.position, at.text);
    *ret = value;
    return 0;
}

bool rpc_has_nul(const json_t *value)
{
    const char *name;
    size_t i;
    json_t *one;
    if (json_is_string(value))
        return strlen(json_string_value(value)) != json_string_length(value);
    json_array_foreach(value, i, one) if (rpc_has_nul(one)) return true;
    json_object_foreach((json_t *)value, name, one) if (rpc_has_nul(one)) return true;
    return false;
}

/* What is wrong with it; NULL: nothing. */
static const char *rpc_check(json_t *value, struct rpc_message *m)
{
    const json_t *id = json_object_get(value, "id"), *method = json_object_get(value, "method");
    const char *version = json_get_string(value, "jsonrpc");
    if (!json_is_object(value))
        return json_is_array(value) ? "it is a batch" : "it is not an object";
    if (!version || strcmp(version, "2.0") != 0)
        return "'jsonrpc' must be \"2.0\"";
    if (method) {
        m->params = json_object_get(value, "params");
        if (!json_is_string(method) || rpc_has_nul(method))
            return "'method' must be a string";
        if (id && !m->id)
            return "'id' must be a string or a number";
        if (m->params && !json_is_object(m->params) && !json_is_array(m->params))
            return "'params' must be an object";
        m->method = json_string_value(method);
        m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
        return NULL;
    }
    m->result = json_object_get(value, "result");
    m->error = json_object_get(value, "error");
    if (!m->result && !m->error)
        return "it has neither 'method' nor 'result' nor 'error'";
    if (m->result && m->error)
        return "it has both 'result' and 'error'";
    if (m->error && !json_is_object(m->error))
        return "'error' must be an object";
    /* An error may be without an id: the other side could not read it. */
    if (!m->id && (m->result || (id && !json_is_null(id))))
        return "'id' must be a string or a number";
    m->kind = m->result ? RPC_RESULT : RPC_ERROR;
    return NULL;
}

void rpc_look(json_t *value, struct rpc_message *ret)
{
    const json_t *id = json_object_get(value, "id");
    *ret = (struct rpc_message){.kind = RPC_INVALID};
    ret->id = json_is_string(id) || json_is_number(id) ? id : NULL;
    ret->problem = rpc_check(value, ret);
}

/* A message with one more member, whose value it takes over; NULL if that is NULL. */
static json_t *rpc_message(const json_t *id, const char *name, json_t *value)
{
    json_t *m = json_pack("{s:s, s:O*}", "jsonrpc", "2.0", "id", id);
    if (json_object_set_new_nocheck(m, name, value) == 0)
        return m;
    json_decref(m);
    return NULL;
}

json_t *rpc_request(const json_t *id, const char *method, json_t *params)
{
    json_t *m = rpc_message(id, "method", json_string(method));
    if (!params || json_object_set_new_nocheck(m, "params", params) == 0)
        return m;
    json_decref(m);
    return NULL;
}

json_t *rpc_notification(const char *method, json_t *params)
{
    return rpc_request(NULL, method, params);
}

json_t *rpc_result(const json_t *id, json_t *result)
{
    return rpc_message(id, "result", result);
}

json_t *rpc_error(const json_t *id, int code, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return rpc_message(
        id ? id : json_null(), "error",
        json_pack("{s:i, s:o}", "code", code, "message", text_json(text, strlen(text))));
}

int rpc_write(struct buf *out, const json_t *message)
{
    size_t before = out->len;
    if (json_append(out, message, JSON_COMPACT | JSON_ENCODE_ANY) == 0 &&
        buf_append(out, "\n", 1) == 0)
        return 0;
    out->len = before;
    return -ENOBUFS;
}
