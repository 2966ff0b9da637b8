#include <errno.h>

#include "changes.h"
#include "fetch.h"
#include "banned.h"

static int bad_length(struct error *err)
{
    return error_set(err, EPROTO, "its content has another length than announced");
}

/* A frame moves on to an offset, or carries bytes, or both. */
static int take_data(const struct wire_frame *f, uint64_t size, uint64_t *at,
                     const struct fetch_sink *sink, struct error *err)
{
    struct wire_field data = {0};
    uint64_t offset = wire_find_u64(f, WIRE_K_OFFSET, *at);
    bool has_data = wire_find(f, WIRE_K_DATA, &data);
    if (offset < *at || offset > size || data.size > size - offset)
        return bad_length(err);
    if (has_data && sink->put(sink->data, offset, data.data, data.size) < 0)
        return -ECANCELED;
    *at = offset + data.size;
    return 0;
}

int fetch_file(int conn, const char *path, uint64_t size, const struct fetch_sink *sink,
               struct error *err)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    uint64_t at = 0;
    int r = changes_request(conn, WIRE_FETCH, path, 0, err);
    while (r >= 0) {
        struct wire_frame f;
        r = changes_answer(&in, &f, err);
        if (r < 0)
            return r;
        if (f.type == WIRE_RESULT)
            return at == size && wire_find_u64(&f, WIRE_K_SIZE, 0) == size ? 0 : bad_length(err);
        if (f.type != WIRE_DATA)
            return error_set(err, EPROTO, "the diff worker's answer is malformed");
        r = take_data(&f, size, &at, sink, err);
    }
    return r;
}
