/*
 * One call of an own tool: its executable runs in the box, the input on its stdin, its output the
 * result.
 *
 * What it prints is untrusted. A JSON object becomes data; everything else is text.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "ask.h"
#include "foreign.h"
#include "io.h"
#include "own_tools.h"
#include "ownfile.h"
#include "names.h"
#include "utf8.h"
#include "banned.h"

#define OUTPUT_MAX (1u << 20)
#define STDERR_MAX (4u << 10)

static bool own_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Puts the person's executable into the box, unless the same is there already. */
static int own_copy_in(struct tool_call *c, struct own_tool *t, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    _cleanup_buf_ struct buf content = BUF_INIT(OWN_PROGRAM_MAX + 1);
    struct stat st;
    int r = ownfile_open(t->original, &fd, &st, err);
    if (r < 0 || (t->copied.st_ino && own_same_file(&t->copied, &st)))
        return r;
    r = io_read_all(fd, &content);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "%s is larger than %u bytes", t->original, OWN_PROGRAM_MAX);
    if (r < 0)
        return error_errno(err, -r, "cannot read %s", t->original);
    r = guestfile_write(c, t->program, 0755, content.data, content.len, err);
    if (r < 0)
        return error_wrap(err, "cannot copy %s into the box", t->original);
    t->copied = st;
    return 0;
}

static int own_open_input(const json_t *input, int *ret_fd, struct error *err)
{
    char *text = json_dumps(input, JSON_COMPACT);
    _cleanup_fd_ int fd = text ? memfd_create("hutch-input", MFD_CLOEXEC) : -1;
    int r = !text ? -ENOMEM : fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
    free(text);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r < 0)
        return error_errno(err, -r, "cannot keep the input");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* How much of n bytes fits into `max` once they are valid UTF-8. */
static size_t own_fitting(const struct buf *b, size_t max)
{
    size_t growth = b->len && !utf8_valid(b->data, b->len) ? 3 : 1;
    return b->len < max / growth ? b->len : max / growth;
}

/* Head and tail of a stream as text, the gap told. */
static void own_put_capture(struct buf *text, const struct box_capture *c, size_t max)
{
    size_t head = own_fitting(&c->head, max / 2), tail = own_fitting(&c->tail, max / 2);
    uint64_t gap = c->total > head + tail ? c->total - head - tail : 0;
    if (head)
        text_append(text, c->head.data, head);
    if (gap)
        buf_printf(text, "\n[… %llu bytes left out …]\n", (unsigned long long)gap);
    if (tail)
        text_append(text, c->tail.data + c->tail.len - tail, tail);
}

/* What the tool printed as a JSON object, if it is one and whole; or NULL. */
static json_t *own_parse_output(const struct box_capture *c)
{
    _cleanup_buf_ struct buf all = BUF_INIT(2 * OUTPUT_MAX);
    if (c->total != c->head.len + c->tail.len || c->head.len == 0)
        return NULL;
    buf_append(&all, c->head.data, c->head.len);
    if (c->tail.len)
        buf_append(&all, c->tail.data, c->tail.len);
    json_t *value = all.failed
                        ? NULL
                        : json_loadb((const char *)all.data, all.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

static int own_take_output(struct tool_call *c, const struct own_tool *t,
                           const struct box_result *r)
{
    struct error why = {0};
    json_t *data = own_parse_output(&r->out);
    if (t->output && !data)
        return tool_fail(c, "%s has an output schema, but printed no JSON object", t->name);
    if (t->output && foreign_check(t->output, data, "output", &why) < 0) {
        json_decref(data);
        return tool_fail(c, "%s did not print what its manifest promises: %s", t->name, why.text);
    }
    c->result->data = data;
    own_put_capture(&c->result->text, &r->out, RESULT_TEXT_MAX - 4096);
    return 0;
}

static void own_put_end(struct buf *b, const struct own_tool *t, const struct box_result *r)
{
    static const char *const limits[] = {
        [WIRE_LIMIT_CPU] = "it used more processor time than the box allows",
        [WIRE_LIMIT_MEMORY] = "it used more memory than the box has",
        [WIRE_LIMIT_PIDS] = "it started more processes than the box allows",
        [WIRE_LIMIT_DISK] = "it wrote more than the box can keep",
        [WIRE_LIMIT_OUTPUT] = "it printed more than the box allows",
    };
    char name[32];
    if (r->failure[0])
        buf_printf(b, "%s could not be started: %s", t->name, r->failure);
    else if (r->limit == WIRE_LIMIT_TIMEOUT)
        buf_printf(b, "%s was ended after %.3g seconds, its manifest's timeout", t->name,
                   (double)t->timeout_ns / 1e9);
    else if (r->limit != WIRE_LIMIT_NONE && (size_t)r->limit < ARRAY_SIZE(limits) &&
             limits[r->limit])
        buf_printf(b, "%s was ended: %s", t->name, limits[r->limit]);
    else if (r->signal) {
        signame_format(r->signal, name, sizeof name);
        buf_printf(b, "%s was ended by %s", t->name, name);
    } else
        buf_printf(b, "%s exited with status %d", t->name, r->exit_code);
}

/* The last of what it said on stderr, then what it had printed. */
static int own_take_failure(struct tool_call *c, const struct own_tool *t, struct box_result *r)
{
    _cleanup_buf_ struct buf said = BUF_INIT(8 * STDERR_MAX), text = BUF_INIT(RESULT_TEXT_MAX);
    struct buf *last = r->err.tail.len ? &r->err.tail : &r->err.head;
    size_t n = last->len < STDERR_MAX ? last->len : STDERR_MAX;
    if (n)
        text_append(&said, last->data + last->len - n, n);
    own_put_end(&text, t, r);
    buf_append_str(&text, said.len ? "\n" : "; it said nothing on stderr");
    buf_append(&text, said.data, said.len);
    if (r->out.total) {
        buf_append_str(&text, "\nstdout:\n");
        own_put_capture(&text, &r->out, RESULT_TEXT_MAX / 2);
    }
    c->result->failed = true;
    c->result->data =
        json_pack("{s:i, s:b, s:o}", "exit_code", r->exit_code, "timed_out",
                  r->limit == WIRE_LIMIT_TIMEOUT, "stderr", text_json(said.data, said.len));
    buf_append(&c->result->text, text.data, text.len);
    return 0;
}

int own_run(struct tool_call *c, struct error *err)
{
    struct own_tool *t = (struct own_tool *)c->tool;
    _cleanup_fd_ int in = -1;
    struct box_result result;
    char *argv[] = {t->program, NULL};
    int r = 0;
    if (t->persons) {
        pthread_mutex_lock(&t->lock);
        r = own_copy_in(c, t, err);
        pthread_mutex_unlock(&t->lock);
    }
    if (r == 0)
        r = own_open_input(c->input, &in, err);
    if (r < 0)
        return r;
    struct box_command command = {.argv = argv,
                                  .timeout_ns = t->timeout_ns,
                                  .in = in,
                                  .out = -1,
                                  .err = -1,
                                  .capture = true,
                                  .cancel = c->cancel};
    r = box_exec(tool_session_box(c->session), &command, &result, err);
    if (r < 0)
        return r;
    bool good = result.exit_code == 0 && !result.signal && result.limit == WIRE_LIMIT_NONE;
    r = good ? own_take_output(c, t, &result) : own_take_failure(c, t, &result);
    box_result_free(&result);
    return r;
}
