#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "io.h"
#include "relpath.h"
#include "banned.h"

int changes_request(int conn, enum wire_type type, const char *path, uint16_t flag,
                    struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(WIRE_BODY_MAX);
    size_t begin = wire_begin(&b, type);
    if (path)
        wire_put_str(&b, WIRE_K_PATH, path);
    if (flag)
        wire_put_u64(&b, flag, 1);
    int r = wire_end_send(conn, &b, begin);
    return r < 0 ? error_errno(err, -r, "cannot ask the diff worker") : 0;
}

static int changes_malformed(struct error *err)
{
    return error_set(err, EPROTO, "the diff worker's answer is malformed");
}

int changes_answer(struct wire_reader *r, struct wire_frame *ret, struct error *err)
{
    struct wire_frame f;
    int got = wire_read(r, &f);
    if (got == 0)
        return error_set(err, EPIPE, "the diff worker ended in the middle of its answer");
    if (got < 0)
        return error_errno(err, -got, "cannot read the diff worker's answer");
    if (f.type == WIRE_ERROR)
        return wire_error(&f, "the diff worker failed", err);
    *ret = f;
    return 0;
}

int changes_each(int conn, bool folders, int (*each)(void *data, const struct changes_entry *e),
                 void *data, struct error *err)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    int r = changes_request(conn, WIRE_CHANGES, NULL, folders ? WIRE_K_ALL : 0, err);
    for (size_t count = 0; r >= 0; count++) {
        struct wire_frame f;
        struct wire_field field;
        r = changes_answer(&in, &f, err);
        if (r < 0)
            return r;
        if (f.type == WIRE_RESULT)
            return wire_find_u64(&f, WIRE_K_TOO_MANY, 0) > 0;

        uint64_t kind = wire_find_u64(&f, WIRE_K_KIND, 0), mode = wire_find_u64(&f, WIRE_K_MODE, 0);
        bool kind_is_valid = kind == WIRE_ADDED || kind == WIRE_MODIFIED || kind == WIRE_DELETED;
        if (f.type != WIRE_ENTRY || count == CHANGES_MAX || !wire_find(&f, WIRE_K_PATH, &field) ||
            !relpath_is_valid(field.data, field.size) || !kind_is_valid || mode > 0177777)
            return changes_malformed(err);

        _cleanup_free_ char *path = wire_find_str(&f, WIRE_K_PATH);
        _cleanup_free_ char *target = wire_find_str(&f, WIRE_K_TARGET);
        const struct changes_entry e = {
            .kind = (enum wire_change)kind,
            .mode = (mode_t)mode,
            .size = wire_find_u64(&f, WIRE_K_SIZE, 0),
            .path = path,
            .target = target,
            .implied = wire_find_u64(&f, WIRE_K_IMPLIED, 0),
            .link = wire_find_u64(&f, WIRE_K_LINK, 0),
        };
        r = path ? each(data, &e) : -ENOMEM;
        if (r < 0)
            return error_errno(err, -r, "cannot list the changes");
    }
    return r;
}

int box_changes_add(struct box_changes *c, const struct box_change *change)
{
    if (!list_grow(&c->items, c->count, sizeof *c->items))
        return -ENOMEM;
    c->items[c->count] = *change;
    c->items[c->count].path = strdup(change->path);
    if (!c->items[c->count].path)
        return -ENOMEM;
    c->count++;
    return 0;
}

struct changes_list {
    struct box_changes list;
    size_t bytes;
};

static int changes_list_add(void *data, const struct changes_entry *e)
{
    struct changes_list *l = data;
    l->bytes += strlen(e->path) + 1 + sizeof(struct box_change);
    if (l->bytes > CHANGES_BYTES_MAX)
        return -E2BIG;
    return box_changes_add(
        &l->list, &(struct box_change){
                      .kind = e->kind, .mode = e->mode, .size = e->size, .path = (char *)e->path});
}

int changes_read(int conn, struct box_changes *ret, struct error *err)
{
    struct changes_list l = {0};
    int r = changes_each(conn, false, changes_list_add, &l, err);
    if (r < 0) {
        box_changes_free(&l.list);
        return r;
    }
    *ret = l.list;
    return 0;
}

void box_changes_free(struct box_changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].path);
    free(c->items);
    *c = (struct box_changes){0};
}

int changes_diff(int conn, bool stat, int out, struct error *err)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    int r = changes_request(conn, WIRE_DIFF, NULL, stat ? WIRE_K_STAT : 0, err);
    while (r >= 0) {
        struct wire_frame f;
        struct wire_field data;
        r = changes_answer(&in, &f, err);
        if (r < 0)
            return r;
        if (f.type == WIRE_RESULT)
            return 0;
        if (f.type != WIRE_DATA || !wire_find(&f, WIRE_K_DATA, &data))
            return changes_malformed(err);
        r = io_write_all(out, data.data, data.size);
        if (r < 0)
            return error_errno(err, -r, "cannot write the diff");
    }
    return r;
}

int changes_fetch(int conn, const char *path, uint64_t size, const struct fetch_sink *sink,
                  struct error *err)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    uint64_t at = 0;
    int r = changes_request(conn, WIRE_FETCH, path, 0, err);
    while (r >= 0) {
        struct wire_frame f;
        struct wire_field data = {0};
        r = changes_answer(&in, &f, err);
        if (r < 0)
            return r;
        if (f.type == WIRE_RESULT && at == size && wire_find_u64(&f, WIRE_K_SIZE, 0) == size)
            return 0;
        if (f.type != WIRE_RESULT && f.type != WIRE_DATA)
            return changes_malformed(err);

        /* A frame moves on to an offset, or carries bytes, or both. */
        uint64_t offset = wire_find_u64(&f, WIRE_K_OFFSET, at);
        bool has_data = wire_find(&f, WIRE_K_DATA, &data);
        if (f.type == WIRE_RESULT || offset < at || offset > size || data.size > size - offset)
            return error_set(err, EPROTO, "its content does not have the announced length");
        if (has_data && sink->put(sink->data, offset, data.data, data.size) < 0)
            return -ECANCELED;
        at = offset + data.size;
    }
    return r;
}
