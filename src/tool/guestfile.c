#include <errno.h>

#include "ask.h"
#include "guestfile.h"
#include "banned.h"

#define PATIENCE_MS 10000

/* A request that belongs to no call. */
static void begin(struct ask *a, struct tool_call *nobody, struct tool_session *s,
                  enum wire_type type, const char *path)
{
    *nobody = (struct tool_call){.session = s, .cancel = -1};
    ask_begin(a, nobody, type);
    a->patience_ms = PATIENCE_MS;
    ask_path(a, path);
}

static int take_data(const struct wire_frame *f, const char *path, struct buf *b, struct error *err)
{
    struct wire_field data = {0};
    if (f->type != WIRE_DATA)
        return error_set(err, EPROTO, "the box sent a malformed answer");
    if (!wire_find(f, WIRE_K_DATA, &data) || data.size == 0)
        return 0;
    if (data.size > b->max - b->len)
        return error_set(err, EFBIG, "%s is larger than %zu bytes", path, b->max);
    return buf_append(b, data.data, data.size) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

int guestfile_read(struct tool_session *s, const char *path, struct buf *b, unsigned *ret_mode,
                   struct error *err)
{
    struct tool_call nobody;
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    begin(&a, &nobody, s, WIRE_READ, path);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, b->max + 1);
    int r = ask_send(&a, err);
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0)
        r = take_data(&f, path, b, err);
    if (r == 0 && ret_mode)
        *ret_mode = (unsigned)wire_find_u64(&f, WIRE_K_MODE, 0);
    return r;
}

int guestfile_mode(struct tool_session *s, const char *path, unsigned *ret_mode, struct error *err)
{
    struct tool_call nobody;
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    begin(&a, &nobody, s, WIRE_READ, path); /* STAT would not follow a link */
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, 0);
    int r = ask_result(&a, &f, err);
    if (r == 0)
        *ret_mode = (unsigned)wire_find_u64(&f, WIRE_K_MODE, 0);
    return r;
}

int guestfile_list(struct tool_session *s, const char *path,
                   void (*each)(void *data, const char *name), void *data, struct error *err)
{
    struct tool_call nobody;
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    begin(&a, &nobody, s, WIRE_LIST, path);
    int r = ask_send(&a, err);
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0) {
        _cleanup_free_ char *name = f.type == WIRE_ENTRY ? wire_find_str(&f, WIRE_K_NAME) : NULL;
        if (name)
            each(data, name);
    }
    return r;
}

int guestfile_write(struct tool_call *c, const char *path, unsigned mode, const void *data,
                    size_t n, struct error *err)
{
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    ask_begin(&a, c, WIRE_WRITE);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_MODE, mode);
    int r = ask_send(&a, err);
    if (r == 0)
        r = ask_data(&a, data, n, true, err);
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0)
        ;
    return r;
}
