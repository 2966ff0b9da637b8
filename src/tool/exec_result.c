#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "encoding.h"
#include "clock.h"
#include "exec_result.h"
#include "git_repo.h"
#include "names.h"
#include "utf8.h"
#include "banned.h"

bool exec_result_is_cut(const struct box_capture *c)
{
    return c->total > c->head.len + c->tail.len;
}

int exec_result_kept_text(const struct box_capture *c, struct buf *out)
{
    size_t head = c->head.len, skip = 0;
    if (exec_result_is_cut(c)) {
        head -= utf8_cut_end(c->head.data, c->head.len);
        skip = utf8_cut_start(c->tail.data, c->tail.len);
    }
    size_t tail = c->tail.len - skip;
    if (head)
        buf_append(out, c->head.data, head);
    if (exec_result_is_cut(c))
        buf_printf(out, "\n[… %" PRIu64 " bytes left out …]\n", c->total - head - tail);
    if (tail)
        buf_append(out, c->tail.data + skip, tail);
    return out->failed ? -ENOMEM : 0;
}

/* A member with the bytes as a string, or NAME_base64 where they are not UTF-8. */
static int set_bytes(json_t *object, const char *name, const void *data, size_t n)
{
    if (utf8_valid(data, n))
        return json_object_set_new_nocheck(object, name, json_stringn_nocheck(data, n)) < 0
                   ? -ENOMEM
                   : 0;
    char other[64];
    _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
    snprintf(other, sizeof other, "%s_base64", name);
    if (base64_append(&text, data, n) < 0)
        return -ENOMEM;
    json_t *value = json_stringn_nocheck((const char *)text.data, text.len);
    return json_object_set_new_nocheck(object, other, value) < 0 ? -ENOMEM : 0;
}

static int set_stream(json_t *object, const char *name, const struct box_capture *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
    int r = exec_result_kept_text(c, &text);
    return r < 0 ? r : set_bytes(object, name, text.len ? (const char *)text.data : "", text.len);
}

static json_t *signal_json(int number)
{
    char name[32];
    if (number == 0)
        return json_null();
    signame_format(number, name, sizeof name);
    return json_string(name);
}

json_t *changes_json(const struct box_changes *changes)
{
    static const char *const kinds[] = {
        [WIRE_ADDED] = "added", [WIRE_MODIFIED] = "modified", [WIRE_DELETED] = "deleted"};
    json_t *list = json_array();
    for (size_t i = 0; list && i < changes->count; i++) {
        const struct box_change *c = &changes->items[i];
        struct git_path inside;
        if (git_path_split(c->path, &inside))
            continue; /* git's own files come back as commits */
        json_t *one = json_object();
        const char *kind = (size_t)c->kind < ARRAY_SIZE(kinds) ? kinds[c->kind] : NULL;
        if (!one || set_bytes(one, "path", c->path, strlen(c->path)) < 0 ||
            json_object_set_new(one, "kind", kind ? json_string(kind) : json_null()) < 0 ||
            json_array_append(list, one) < 0) {
            json_decref(list);
            list = NULL;
        }
        json_decref(one);
    }
    return list;
}

static json_t *killed_by_json(enum wire_limit limit)
{
    const char *name = box_limit_name(limit);
    return name ? json_string(name) : json_null();
}

static json_t *number_json(uint64_t v)
{
    return json_integer(v > INT64_MAX ? INT64_MAX : (json_int_t)v);
}

json_t *exec_result_json(const struct box_result *r, const struct box_changes *changes)
{
    bool timed_out = r->limit == WIRE_LIMIT_TIMEOUT || r->limit == WIRE_LIMIT_CPU;
    bool cut = exec_result_is_cut(&r->out) || exec_result_is_cut(&r->err);
    json_t *o = json_object();
    int bad = !o;
    bad |= json_object_set_new(o, "exit_code", json_integer(r->exit_code));
    bad |= json_object_set_new(o, "signal", signal_json(r->signal));
    bad |= json_object_set_new(o, "timed_out", json_boolean(timed_out));
    bad |= json_object_set_new(o, "killed_by", killed_by_json(r->limit));
    bad |= bad ? 0 : set_stream(o, "stdout", &r->out);
    bad |= bad ? 0 : set_stream(o, "stderr", &r->err);
    bad |= json_object_set_new(o, "stdout_bytes", number_json(r->out.total));
    bad |= json_object_set_new(o, "stderr_bytes", number_json(r->err.total));
    bad |= json_object_set_new(o, "truncated", json_boolean(cut));
    bad |= json_object_set_new(o, "duration_ms", json_integer(r->duration_ns / NS_PER_MS));
    bad |= json_object_set_new(o, "cpu_ms", json_integer(r->cpu_ns / NS_PER_MS));
    bad |= json_object_set_new(o, "max_rss", number_json(r->max_rss));
    bad |= changes ? json_object_set_new(o, "changes", changes_json(changes)) : 0;
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}
