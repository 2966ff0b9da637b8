#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "changes.h"
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
    wire_end(&b, begin);
    int r = wire_send(conn, &b, NULL, 0);
    return r < 0 ? error_errno(err, -r, "cannot ask the diff worker") : 0;
}

static int malformed(struct error *err)
{
    return error_set(err, EPROTO, "the diff worker's answer is malformed");
}

static int answer_is_error(const struct wire_frame *f, struct error *err)
{
    _cleanup_free_ char *text = wire_find_str(f, WIRE_K_TEXT);
    uint64_t code = wire_find_u64(f, WIRE_K_CODE, EIO);
    return error_set(err, code > 0 && code < 4096 ? (int)code : EIO, "%s",
                     text && *text ? text : "the diff worker failed");
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
        return answer_is_error(&f, err);
    *ret = f;
    return 0;
}

static bool kind_is_valid(uint64_t kind)
{
    return kind == WIRE_ADDED || kind == WIRE_MODIFIED || kind == WIRE_DELETED;
}

/* The strings are made for this record and freed behind it. */
static int take_entry(const struct wire_frame *f,
                      int (*each)(void *data, const struct changes_entry *e), void *data,
                      struct error *err)
{
    struct wire_field field;
    uint64_t kind = wire_find_u64(f, WIRE_K_KIND, 0), mode = wire_find_u64(f, WIRE_K_MODE, 0);
    if (!wire_find(f, WIRE_K_PATH, &field) || !relpath_is_valid(field.data, field.size) ||
        !kind_is_valid(kind) || mode > 0177777)
        return malformed(err);
    _cleanup_free_ char *path = wire_find_str(f, WIRE_K_PATH),
                        *target = wire_find_str(f, WIRE_K_TARGET);
    if (!path)
        return error_errno(err, ENOMEM, "cannot list the changes");
    const struct changes_entry e = {
        .kind = (enum wire_change)kind,
        .mode = (mode_t)mode,
        .size = wire_find_u64(f, WIRE_K_SIZE, 0),
        .path = path,
        .target = target,
        .implied = wire_find_u64(f, WIRE_K_IMPLIED, 0),
        .link = wire_find_u64(f, WIRE_K_LINK, 0),
    };
    int r = each(data, &e);
    return r < 0 ? error_errno(err, -r, "cannot list the changes") : 0;
}

int changes_each(int conn, bool folders, int (*each)(void *data, const struct changes_entry *e),
                 void *data, struct error *err)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    int r = changes_request(conn, WIRE_CHANGES, NULL, folders ? WIRE_K_ALL : 0, err);
    for (size_t count = 0; r >= 0; count++) {
        struct wire_frame f;
        r = changes_answer(&in, &f, err);
        if (r < 0)
            return r;
        if (f.type == WIRE_RESULT)
            return wire_find_u64(&f, WIRE_K_TOO_MANY, 0) > 0;
        if (f.type != WIRE_ENTRY || count == CHANGES_MAX)
            return malformed(err);
        r = take_entry(&f, each, data, err);
    }
    return r;
}

struct reading {
    struct box_changes list;
    size_t room, bytes;
};

static int keep(void *data, const struct changes_entry *e)
{
    struct reading *r = data;
    size_t n = strlen(e->path) + 1;
    r->bytes += n + sizeof(struct box_change);
    if (r->bytes > CHANGES_BYTES_MAX)
        return -E2BIG;
    if (r->list.count == r->room) {
        size_t room = r->room ? r->room * 2 : 64;
        struct box_change *items = realloc(r->list.items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        r->list.items = items;
        r->room = room;
    }
    char *path = strdup(e->path);
    if (!path)
        return -ENOMEM;
    r->list.items[r->list.count++] =
        (struct box_change){.kind = e->kind, .mode = e->mode, .size = e->size, .path = path};
    return 0;
}

int changes_read(int conn, struct box_changes *ret, struct error *err)
{
    struct reading reading = {0};
    int r = changes_each(conn, false, keep, &reading, err);
    if (r < 0) {
        box_changes_free(&reading.list);
        return r;
    }
    *ret = reading.list;
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
            return malformed(err);
        r = io_write_all(out, data.data, data.size);
        if (r < 0)
            return error_errno(err, -r, "cannot write the diff");
    }
    return r;
}
