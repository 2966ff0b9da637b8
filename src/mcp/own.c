#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "own.h"
#include "session.h"
#include "utf8.h"
#include "banned.h"

#define ANY_INPUT "{\"type\": \"object\"}"

static int fail(struct tool_call *c, const struct error *err)
{
    c->result->image.len = 0;
    json_decref(c->result->data);
    tool_fail(c, "%s", err->text);
    c->result->data = json_pack("{s:i}", "errno", err->code);
    return 0;
}

static const char *path_of(const struct tool_call *c)
{
    return json_string_value(json_object_get(c->input, "path"));
}

static int read_file(struct tool_call *c, struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame frame;
    struct wire_field piece;
    ask_begin(&a, c, WIRE_READ);
    ask_path(&a, path_of(c));
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, OWN_BYTES_MAX + 1);
    int r = ask_send(&a, err);
    while (r >= 0 && (r = ask_next(&a, &frame, err)) > 0) {
        if (frame.type != WIRE_DATA || !wire_find(&frame, WIRE_K_DATA, &piece))
            continue;
        if (c->result->image.len + piece.size > OWN_BYTES_MAX)
            return error_set(err, EFBIG, "%s is longer than %u bytes; read it in parts with a tool",
                             path_of(c), OWN_BYTES_MAX);
        buf_append(&c->result->image, piece.data, piece.size);
    }
    if (r == 0 && c->result->image.failed)
        return error_set(err, ENOMEM, "no memory for %s", path_of(c));
    return r;
}

static int run_read(struct tool_call *c, struct error *err)
{
    return read_file(c, err) < 0 ? fail(c, err) : 0;
}

/* One name or path. Those that are not UTF-8 cannot be told. */
static void add_entry(json_t *entries, const struct wire_field *name, uint64_t size, bool folder,
                      bool file)
{
    if (utf8_valid(name->data, name->size) && !memchr(name->data, 0, name->size))
        json_array_append_new(entries, json_pack("{s:s%, s:I, s:b, s:b}", "name",
                                                 (const char *)name->data, name->size, "size",
                                                 (json_int_t)size, "folder", folder, "file", file));
}

static void take_name(json_t *entries, const struct wire_frame *f)
{
    struct wire_field name;
    mode_t mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0);
    if (wire_find(f, WIRE_K_NAME, &name))
        add_entry(entries, &name, wire_find_u64(f, WIRE_K_SIZE, 0), S_ISDIR(mode), S_ISREG(mode));
}

static void take_path(json_t *entries, const struct wire_frame *f)
{
    struct wire_field path;
    uint64_t kind = wire_find_u64(f, WIRE_K_KIND, 0);
    if (wire_find(f, WIRE_K_PATH, &path))
        add_entry(entries, &path, wire_find_u64(f, WIRE_K_SIZE, 0), kind == 'd', kind == 'f');
}

/* Sends what was asked and keeps the entries that come back, as many as may be. */
static int take_entries(struct tool_call *c, struct ask *a,
                        void (*take)(json_t *entries, const struct wire_frame *f),
                        struct error *err)
{
    struct wire_frame frame;
    json_t *entries = json_array();
    c->result->data = json_pack("{s:o}", "entries", entries);
    int r = ask_send(a, err);
    while (r >= 0 && (r = ask_next(a, &frame, err)) > 0)
        if (frame.type == WIRE_ENTRY && json_array_size(entries) < OWN_ENTRIES_MAX)
            take(entries, &frame);
    return r < 0 ? fail(c, err) : 0;
}

static int run_list(struct tool_call *c, struct error *err)
{
    _cleanup_ask_ struct ask a;
    ask_begin(&a, c, WIRE_LIST);
    ask_path(&a, path_of(c));
    return take_entries(c, &a, take_name, err);
}

static int run_tree(struct tool_call *c, struct error *err)
{
    _cleanup_ask_ struct ask a;
    ask_begin(&a, c, WIRE_TREE);
    ask_path(&a, ".");
    wire_put_u64(&a.out, WIRE_K_LIMIT_ENTRIES, OWN_TREE_MAX);
    wire_put_u64(&a.out, WIRE_K_SIZES, 1);
    wire_put_u64(&a.out, WIRE_K_HIDDEN, 1);
    return take_entries(c, &a, take_path, err);
}

/* A file in memory that cannot grow past its size, so that whoever writes into it cannot fill the
 * memory. */
static int bounded_file(int *ret, struct error *err)
{
    _cleanup_fd_ int fd = memfd_create("diff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, OWN_BYTES_MAX) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return error_errno(err, errno, "cannot make a temporary file");
    *ret = TAKE_FD(fd);
    return 0;
}

static int take_file(struct tool_call *c, int fd, struct error *err)
{
    off_t n = lseek(fd, 0, SEEK_CUR);
    uint8_t *at = n >= 0 ? buf_reserve(&c->result->image, (size_t)n) : NULL;
    if (!at)
        return error_set(err, ENOMEM, "no memory for the diff");
    ssize_t got = pread(fd, at, (size_t)n, 0);
    if (got != n)
        return error_set(err, EIO, "cannot read the diff");
    c->result->image.len += (size_t)n;
    return 0;
}

static int take_diff(struct tool_call *c, bool summary, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    int r = bounded_file(&fd, err);
    if (r == 0)
        r = tool_box_diff(tool_session_box(c->session), summary, fd, err);
    return r < 0 ? r : take_file(c, fd, err);
}

/* A diff that would have grown past the limit (EPERM) is replaced by its summary. */
static int run_diff(struct tool_call *c, struct error *err)
{
    int r = take_diff(c, false, err);
    if (r == -EPERM) {
        *err = (struct error){0};
        buf_printf(&c->result->image, "The diff is longer than %u bytes; this is its summary.\n\n",
                   OWN_BYTES_MAX);
        r = take_diff(c, true, err);
    }
    return r < 0 ? fail(c, err) : 0;
}

const struct tool OWN_READ = {
    .name = "read", .input = ANY_INPUT, .flags = TOOL_READS, .run = run_read};
const struct tool OWN_TREE = {
    .name = "tree", .input = ANY_INPUT, .flags = TOOL_READS, .run = run_tree};
const struct tool OWN_LIST = {
    .name = "list", .input = ANY_INPUT, .flags = TOOL_READS, .run = run_list};

/* Alone: a box gives one diff at a time. */
const struct tool OWN_DIFF = {.name = "diff", .input = ANY_INPUT, .run = run_diff};
