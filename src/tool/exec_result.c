#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "encoding.h"
#include "exec_result.h"
#include "git_repo.h"
#include "text.h"
#include "thread.h"
#include "tool_result.h"
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
static int exec_result_set_bytes(json_t *object, const char *name, const void *data, size_t n)
{
    if (utf8_valid(data, n))
        return data_set(object, name, json_stringn_nocheck(data, n));
    char other[64];
    _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
    snprintf(other, sizeof other, "%s_base64", name);
    if (base64_append(&text, data, n) < 0)
        return -ENOMEM;
    return data_set(object, other, json_stringn_nocheck((const char *)text.data, text.len));
}

static int exec_result_set_stream(json_t *object, const char *name, const struct box_capture *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
    int r = exec_result_kept_text(c, &text);
    return r < 0 ? r
                 : exec_result_set_bytes(object, name, text.len ? (char *)text.data : "", text.len);
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
        if (exec_result_set_bytes(one, "path", c->path, strlen(c->path)) < 0 ||
            data_set(one, "kind", kind ? json_string(kind) : json_null()) < 0 ||
            json_array_append(list, one) < 0) {
            json_decref(list);
            list = NULL;
        }
        json_decref(one);
    }
    return list;
}

json_t *exec_result_json(const struct box_result *r, const struct box_changes *changes)
{
    const char *limit = box_limit_name(r->limit);
    bool timed_out = r->limit == WIRE_LIMIT_TIMEOUT || r->limit == WIRE_LIMIT_CPU;
    bool cut = exec_result_is_cut(&r->out) || exec_result_is_cut(&r->err);
    char name[32];
    signame_format(r->signal, name, sizeof name);
    json_t *o = json_object();
    int bad = !o;
    bad |= data_set(o, "exit_code", json_integer(r->exit_code));
    bad |= data_set(o, "signal", r->signal ? json_string(name) : json_null());
    bad |= data_set(o, "timed_out", json_boolean(timed_out));
    bad |= data_set(o, "killed_by", limit ? json_string(limit) : json_null());
    bad |= exec_result_set_stream(o, "stdout", &r->out);
    bad |= exec_result_set_stream(o, "stderr", &r->err);
    bad |= data_set(o, "stdout_bytes", json_integer((json_int_t)(r->out.total & INT64_MAX)));
    bad |= data_set(o, "stderr_bytes", json_integer((json_int_t)(r->err.total & INT64_MAX)));
    bad |= data_set(o, "truncated", json_boolean(cut));
    bad |= data_set(o, "duration_ms", json_integer(r->duration_ns / NS_PER_MS));
    bad |= data_set(o, "cpu_ms", json_integer(r->cpu_ns / NS_PER_MS));
    bad |= data_set(o, "max_rss", json_integer((json_int_t)(r->max_rss & INT64_MAX)));
    bad |= changes ? data_set(o, "changes", changes_json(changes)) : 0;
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

bool missing_on_host(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t n = strcspn(at, ":");
        struct stat st;
        int len = snprintf(path, size, "%.*s/%s", (int)n, at, name);
        if (at[0] == '/' && len > 0 && (size_t)len < size && access(path, X_OK) == 0 &&
            stat(path, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

bool missing_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

void missing_folder(const char *path, char *folder, size_t size)
{
    const char *home = getenv("HOME");
    snprintf(folder, size, "%s", path);
    *strrchr(folder, '/') = 0;
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder || strcmp(slash, "/bin") != 0)
        return;
    *slash = 0;
    if ((home && strcmp(folder, home) == 0) || strcmp(folder, "/usr") == 0)
        *slash = '/';
}

bool missing_describe(const struct box_capture *output, char *text, size_t size)
{
    static const char *const shown[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    static const char mark[] = ": command not found\n";
    char name[64], path[PATH_MAX], folder[PATH_MAX];
    const struct buf *b = output->tail.len ? &output->tail : &output->head;
    size_t n = strlen(mark);
    if (b->len < n || memcmp(b->data + b->len - n, mark, n) != 0)
        return false;

    /* The box says this line ("bash: line 1: NAME: command not found"): only what looks like the
     * name of a program is looked for. */
    size_t end = b->len - n, begin = end;
    while (begin > 0 && end - begin < sizeof name &&
           (isalnum(b->data[begin - 1]) ||
            strchr("._+-", b->data[begin - 1] ? b->data[begin - 1] : 1)))
        begin--;
    if (begin == end || end - begin >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), (const char *)b->data + begin);
    if (!missing_on_host(name, path, sizeof path))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
        if (missing_is_below(path, shown[i]))
            return false;
    missing_folder(path, folder, sizeof folder);
    snprintf(text, size,
             "'%s' is not in the box but is at %.300s on the host; a person can show it with --ro"
             " %.300s when the box is made",
             name, path, folder);
    return true;
}
