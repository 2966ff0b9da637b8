/* The box as run_tests sees it: a shell, and small files. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "capture.h"
#include "kept_output.h"
#include "run_tests.h"
#include "session.h"
#include "banned.h"

#define WORKSPACE   "/workspace"
#define OUTPUT_KEPT (1u << 20)

/* A path in the box; what is relative lies in cwd, and that in the workspace. */
static int tests_path(const char *cwd, const char *path, struct buf *full, struct error *err)
{
    if (path[0] != '/' && cwd && cwd[0] != '/')
        buf_printf(full, WORKSPACE "/%s/%s", cwd, path);
    else if (path[0] != '/')
        buf_printf(full, "%s/%s", cwd ? cwd : WORKSPACE, path);
    else
        buf_append_str(full, path);
    return buf_cstr(full) ? 0 : error_set(err, ENAMETOOLONG, "the path is too long");
}

/* Output while it comes: kept, and its last line shown as progress. */
struct watched {
    struct box_capture kept;
    struct ticker ticker;
};

static void watched_take_output(void *data, const void *bytes, size_t n)
{
    capture_add(&((struct watched *)data)->kept, bytes, n);
}

static void watched_tick(void *data)
{
    struct watched *w = data;
    ticker_tick(&w->ticker, &w->kept);
}

int tests_shell(struct tool_call *c, const char *cwd, const char *script, int64_t timeout_ns,
                struct box_result *ret, struct error *err)
{
    _cleanup_buf_ struct buf folder = BUF_INIT(8192);
    struct watched w = {0};
    struct box_sink sink = {
        .write = watched_take_output, .tick = c->progress ? watched_tick : NULL, .data = &w};
    int r = cwd ? tests_path(cwd, ".", &folder, err) : 0;
    if (r < 0)
        return r;
    struct box_command command = {.shell = tool_session_shell(c->session),
                                  .script = script,
                                  .cwd = (const char *)folder.data,
                                  .timeout_ns = timeout_ns,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .sink = &sink,
                                  .cancel = c->cancel};
    capture_init(&w.kept, OUTPUT_KEPT);
    ticker_start(&w.ticker, c);
    r = box_exec(tool_session_box(c->session), &command, ret, err);
    capture_finish(&w.kept);
    if (r >= 0) {
        ret->out = w.kept;
    } else {
        buf_free(&w.kept.head);
        buf_free(&w.kept.tail);
    }
    return r;
}

static int tests_read_range(struct tool_call *c, const char *path, uint64_t offset, struct buf *b,
                            struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame f;
    struct wire_field data;
    ask_begin(&a, c, WIRE_READ);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_OFFSET, offset);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, b->max - 1);
    int r = ask_send(&a, err);
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0)
        if (f.type == WIRE_DATA && wire_find(&f, WIRE_K_DATA, &data) && b->len + data.size < b->max)
            buf_append(b, data.data, data.size);
    return r;
}

int tests_read_file(struct tool_call *c, const char *cwd, const char *path, struct buf *b,
                    struct error *err)
{
    _cleanup_buf_ struct buf full = BUF_INIT(8192);
    int r = tests_path(cwd, path, &full, err);
    if (r >= 0)
        r = tests_read_range(c, (const char *)full.data, 0, b, err);
    return r < 0 ? r : buf_cstr(b) ? 0 : -ENOMEM;
}

static int tests_stat(struct tool_call *c, const char *path, uint64_t *ret_size)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame f;
    struct error ignored = {0};
    ask_begin(&a, c, WIRE_STAT);
    ask_path(&a, path);
    int r = ask_result(&a, &f, &ignored);
    if (r >= 0)
        *ret_size = wire_find_u64(&f, WIRE_K_SIZE, 0);
    return r;
}

int tests_read_tail(struct tool_call *c, const char *path, size_t n, struct buf *b,
                    struct error *err)
{
    uint64_t size = 0;
    if (tests_stat(c, path, &size) < 0)
        return 0;
    b->max = n + 1;
    int r = tests_read_range(c, path, size > n ? size - n : 0, b, err);
    return r < 0 ? r : size > n;
}

bool tests_exists(struct tool_call *c, const char *cwd, const char *path)
{
    _cleanup_buf_ struct buf full = BUF_INIT(8192);
    uint64_t size;
    return tests_path(cwd, path, &full, NULL) >= 0 &&
           tests_stat(c, (const char *)full.data, &size) >= 0;
}

int tests_list(struct tool_call *c, const char *cwd, const char *path,
               void (*each)(void *data, const char *name), void *data, struct error *err)
{
    _cleanup_buf_ struct buf full = BUF_INIT(8192);
    int r = tests_path(cwd, path, &full, err);
    return r < 0 ? r : guestfile_list(c->session, (const char *)full.data, each, data, err);
}
