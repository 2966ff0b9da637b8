/* `bash` with a handle: new output of a background command, its input, its end. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "bash.h"
#include "input.h"
#include "clock.h"
#include "banned.h"

#define LOOK_FIRST_MS    10
#define LOOK_MOST_MS     250
#define KILL_PATIENCE    (5 * NS_PER_S)
#define INPUT_PIECE      (512u << 10)
#define LOOK_PATIENCE_MS 2000 /* of somebody who only wants to know whether it runs */

struct status {
    bool running;
    uint64_t mark; /* up to where somebody has read */
    uint64_t size;
    int64_t duration_ns;
    struct bash_end end;
    char path[128];
    char failure[512]; /* why it never ran, or empty */
};

static int find_int(const struct wire_frame *f, uint16_t key, int max)
{
    uint64_t v = wire_find_u64(f, key, 0);
    return v <= (uint64_t)max ? (int)v : 0;
}

static void find_text(const struct wire_frame *f, uint16_t key, char *text, size_t size)
{
    struct wire_field field;
    _cleanup_buf_ struct buf b = BUF_INIT(4 * size);
    if (wire_find(f, key, &field) && field.size < size)
        text_append(&b, field.data, field.size);
    snprintf(text, size, "%s", b.len && buf_cstr(&b) ? (const char *)b.data : "");
}

static void take_status(const struct wire_frame *f, struct status *ret)
{
    uint64_t limit = wire_find_u64(f, WIRE_K_LIMIT, 0);
    *ret = (struct status){
        .running = wire_find_u64(f, WIRE_K_RUNNING, 0) != 0,
        .mark = wire_find_u64(f, WIRE_K_MARK, 0),
        .size = wire_find_u64(f, WIRE_K_SIZE, 0),
        .duration_ns = (int64_t)(wire_find_u64(f, WIRE_K_DURATION_NS, 0) & INT64_MAX),
        .end = {.exit_code = find_int(f, WIRE_K_EXIT_CODE, 255),
                .signal = find_int(f, WIRE_K_TERM_SIGNAL, NSIG - 1),
                .limit = limit <= WIRE_LIMIT_OUTPUT ? (enum wire_limit)limit : WIRE_LIMIT_NONE}};
    if (ret->end.signal)
        ret->end.exit_code = 128 + ret->end.signal;
    if (ret->end.limit == WIRE_LIMIT_TIMEOUT || ret->end.limit == WIRE_LIMIT_CPU)
        ret->end.exit_code = 124;
    find_text(f, WIRE_K_OUTPUT_PATH, ret->path, sizeof ret->path);
    find_text(f, WIRE_K_TEXT, ret->failure, sizeof ret->failure);
}

static uint64_t handle_of(const struct tool_call *c)
{
    return (uint64_t)input_int(c, "handle", 0);
}

static int ask_status(struct tool_call *c, struct status *ret, struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame frame;
    ask_begin(&a, c, WIRE_STATUS);
    wire_put_u64(&a.out, WIRE_K_HANDLE, handle_of(c));
    int r = ask_result(&a, &frame, err);
    if (r == 0)
        take_status(&frame, ret);
    return r;
}

static int send_input(struct tool_call *c, const char *data, size_t n, bool eof, struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame frame;
    ask_begin(&a, c, WIRE_INPUT);
    wire_put_u64(&a.out, WIRE_K_HANDLE, handle_of(c));
    wire_put(&a.out, WIRE_K_DATA, data, n);
    wire_put_u64(&a.out, WIRE_K_EOF, eof);
    return ask_result(&a, &frame, err);
}

static int write_input(struct tool_call *c, struct error *err)
{
    const json_t *input = json_object_get(c->input, "stdin");
    const char *data = input ? json_string_value(input) : "";
    size_t left = input ? json_string_length(input) : 0;
    bool eof = input_bool(c, "eof", false);
    int r = 0;
    while (r == 0 && left > INPUT_PIECE) {
        r = send_input(c, data, INPUT_PIECE, false, err);
        data += INPUT_PIECE;
        left -= INPUT_PIECE;
    }
    return r == 0 && (left || eof) ? send_input(c, data, left, eof, err) : r;
}

static int end_tree(struct tool_call *c, struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame frame;
    ask_begin(&a, c, WIRE_SIGNAL);
    wire_put_u64(&a.out, WIRE_K_HANDLE, handle_of(c));
    wire_put_u64(&a.out, WIRE_K_SIGNAL, SIGKILL);
    return ask_result(&a, &frame, err);
}

/* Sleeps; false if the call is not wanted any more. */
static bool pause_for(struct tool_call *c, int ms)
{
    struct pollfd p = {.fd = c->cancel, .events = POLLIN};
    return poll(&p, 1, ms) <= 0;
}

/* Until there is something new, or it has ended, or the time is over. After a kill only its end
 * counts. */
static int wait_for_news(struct tool_call *c, int64_t until, bool killed, struct status *s,
                         struct error *err)
{
    int64_t began = clock_now(), told = began;
    for (int ms = LOOK_FIRST_MS;; ms = 2 * ms < LOOK_MOST_MS ? 2 * ms : LOOK_MOST_MS) {
        int r = ask_status(c, s, err);
        int64_t now = clock_now();
        if (r < 0 || !s->running || (s->size > s->mark && !killed) || now >= until)
            return r;
        if (c->progress && now - told > 500 * NS_PER_MS) {
            told = now;
            c->progress->say(c->progress->data, (double)(now - began) / NS_PER_S,
                             "waiting for new output");
        }
        int64_t left_ms = (until - now) / NS_PER_MS + 1;
        if (!pause_for(c, left_ms < ms ? (int)left_ms : ms))
            return error_set(err, ECANCELED, "the call was cancelled");
    }
}

/* What is new, with the head and the tail of it if it is long. The guest takes it as told from here
 * on. */
static int read_news(struct tool_call *c, struct status *ret, struct kept_output *o,
                     struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame frame;
    struct wire_field first = {0}, last = {0};
    ask_begin(&a, c, WIRE_STATUS);
    wire_put_u64(&a.out, WIRE_K_HANDLE, handle_of(c));
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, KEPT_OUTPUT_MAX);
    int r = ask_result(&a, &frame, err);
    if (r < 0)
        return r;
    take_status(&frame, ret);
    wire_find(&frame, WIRE_K_DATA, &first);
    wire_find(&frame, WIRE_K_TAIL, &last);
    uint64_t new = ret->size > ret->mark ? ret->size - ret->mark : 0;
    if (first.size + last.size > KEPT_OUTPUT_MAX || first.size + last.size > new ||
        buf_append(&o->kept.head, first.data, first.size) < 0 ||
        buf_append(&o->kept.tail, last.data, last.size) < 0)
        return error_set(err, EPROTO, "the box sent more than was asked for");
    o->kept.total = new;
    o->uncounted = true;
    o->dropped = wire_find_u64(&frame, WIRE_K_DROPPED, 0);
    o->dropped = o->dropped < new ? o->dropped : new;
    return 0;
}

static int answer(struct tool_call *c, struct status *s, struct kept_output *o, struct error *err)
{
    struct buf *text = &c->result->text;
    json_t *data = c->result->data = json_object();
    s->end.limit_hint = "";
    if (!data || bash_set_output(c, data, o, s->path[0] ? s->path : NULL) < 0)
        return error_set(err, ENOMEM, "no memory");
    if (!text->len)
        buf_append_str(text, "(no new output)\n");
    else if (text->data[text->len - 1] != '\n')
        buf_append(text, "\n", 1);
    if (s->failure[0])
        buf_printf(text, "[%s]\n", s->failure);
    if (s->running)
        buf_printf(text, "[still running after %.1f s]\n", (double)s->duration_ns / NS_PER_S);
    else if (s->end.exit_code == 0)
        buf_append_str(text, "[ended: exit code 0]\n");
    else
        bash_put_end(text, &s->end);
    data_set(data, "dropped_bytes", json_integer((json_int_t)o->dropped));
    data_set(data, "handle", json_integer((json_int_t)handle_of(c)));
    data_set(data, "running", json_boolean(s->running));
    data_set(data, "duration_ms", json_integer(s->duration_ns / NS_PER_MS));
    return bash_set_end(data, &s->end, s->running) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

int bash_handle(struct tool_call *c, struct error *err)
{
    _cleanup_kept_output_ struct kept_output output;
    struct status s = {0};
    bool kill = input_bool(c, "kill", false);
    double seconds = json_number_value(json_object_get(c->input, "timeout"));
    int64_t wait = (int64_t)(seconds * (double)NS_PER_S);
    kept_output_init(&output, c);
    int r = write_input(c, err);
    if (r == 0 && kill)
        r = end_tree(c, err);
    if (r == 0)
        r = wait_for_news(c, clock_now() + (kill && wait < KILL_PATIENCE ? KILL_PATIENCE : wait),
                          kill, &s, err);
    if (r == 0)
        r = read_news(c, &s, &output, err);
    return r < 0 ? r : answer(c, &s, &output, err);
}

int bash_is_running(struct tool_session *s, uint64_t handle, bool *ret)
{
    struct tool_call nobody = {.session = s, .cancel = -1};
    struct wire_frame frame;
    _cleanup_ask_ struct ask a;
    ask_begin(&a, &nobody, WIRE_STATUS);
    a.patience_ms = LOOK_PATIENCE_MS;
    wire_put_u64(&a.out, WIRE_K_HANDLE, handle);
    int r = ask_result(&a, &frame, NULL);
    if (r == 0)
        *ret = wire_find_u64(&frame, WIRE_K_RUNNING, 0) != 0;
    return r;
}
