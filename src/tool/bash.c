/*
 * `bash`: a command in the session's shell; and with a handle, a background command's new output,
 * its input and its end.
 *
 * The guest runs the shell and keeps what lasts from call to call (src/guest/shell). This file
 * keeps the output within what a model can read and says how the command ended. A command that
 * fails is no failed call: the exit code is part of the answer.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exec_result.h"
#include "session.h"
#include "text.h"
#include "thread.h"
#include "tool_text.h"
#include "banned.h"

#define LOOK_FIRST_MS    10
#define LOOK_MOST_MS     250
#define KILL_PATIENCE    (5 * NS_PER_S)
#define INPUT_PIECE      (512u << 10)
#define OUTPUT_FOLDER    "/tmp/.hutch/output"
#define FILE_PATIENCE_MS 5000
#define TICK_NS          (500 * NS_PER_MS)
#define LINE_SHOWN       64u
#define LINE_SEARCH      (KEPT_OUTPUT_MAX / 8) /* how far back a cut looks for the end of a line */
#define LOOK_PATIENCE_MS 2000 /* of a caller who only wants to know whether it runs */

/* --- the output of a command, see tool_text.h --- */

void kept_output_init(struct kept_output *o, struct tool_call *c)
{
    *o = (struct kept_output){.call = c};
    capture_init(&o->kept, KEPT_OUTPUT_MAX);
}

void kept_output_free(struct kept_output *o)
{
    if (o->open)
        ask_free(&o->file);
    buf_free(&o->kept.head);
    buf_free(&o->kept.tail);
}

static uint64_t kept_count_lines(const void *data, size_t n)
{
    const char *at = data, *end = at + n;
    uint64_t lines = 0;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        lines++;
        at++;
    }
    return lines;
}

/* Sends a piece to the file, or its end; `r` is how the request went so far. If it failed, there is
 * no file. */
static void kept_send(struct kept_output *o, int r, const void *data, size_t n, bool last)
{
    struct wire_frame frame;
    if (!o->open)
        return;
    if (r == 0 && (n || last))
        r = ask_data(&o->file, data, n, last, &o->failure);
    if (r == 0 && last)
        r = ask_result(&o->file, &frame, &o->failure);
    if (r < 0) {
        ask_free(&o->file);
        o->open = false;
        o->path[0] = 0;
    }
}

static void kept_open_file(struct kept_output *o)
{
    struct timespec t;
    uint64_t serial = tool_session_serial_now(o->call->session);
    /* A name that no other call of this box takes: they may be separate programs, at the same
     * time. */
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
    if (serial)
        snprintf(o->path, sizeof o->path, OUTPUT_FOLDER "/%" PRIu64 ".txt", serial);
    else
        snprintf(o->path, sizeof o->path, OUTPUT_FOLDER "/%" PRIu64 "%05u.txt", ms,
                 (unsigned)getpid() % 100000);
    ask_begin(&o->file, o->call, WIRE_WRITE);
    o->file.patience_ms = FILE_PATIENCE_MS;
    o->open = true;
    ask_path(&o->file, o->path);
    /* Up to now the head and the tail have everything. */
    kept_send(o, ask_send(&o->file, &o->failure), o->kept.head.data, o->kept.head.len, false);
    kept_send(o, 0, o->kept.tail.data, o->kept.tail.len, false);
}

void kept_output_add(struct kept_output *o, const void *data, size_t n)
{
    uint64_t had = o->kept.total, room = had < KEPT_FILE_MAX ? KEPT_FILE_MAX - had : 0;
    if (had + n > KEPT_OUTPUT_MAX) { /* there is a middle: all of it goes to the file */
        if (had <= KEPT_OUTPUT_MAX)
            kept_open_file(o);
        o->capped = o->capped || n > room;
        kept_send(o, 0, data, n < room ? n : (size_t)room, false);
    }
    o->lines += kept_count_lines(data, n);
    capture_add(&o->kept, data, n);
}

void kept_output_finish(struct kept_output *o)
{
    capture_finish(&o->kept);
    kept_send(o, 0, NULL, 0, true);
}

bool kept_output_is_cut(const struct kept_output *o)
{
    return o->kept.total > o->kept.head.len + o->kept.tail.len;
}

int kept_output_text(const struct kept_output *o, const char *file, struct buf *text)
{
    const struct buf *head = &o->kept.head, *tail = &o->kept.tail;
    if (!kept_output_is_cut(o)) {
        _cleanup_buf_ struct buf all = BUF_INIT(KEPT_OUTPUT_MAX);
        buf_append(&all, head->data, head->len);
        buf_append(&all, tail->data, tail->len);
        return all.failed ? -ENOMEM : text_append(text, all.data, all.len);
    }

    /* Both are cut at a line if one ends nearby, else at a character. */
    size_t look = head->len > LINE_SEARCH ? head->len - LINE_SEARCH : 0;
    const uint8_t *end = memrchr(head->data + look, '\n', head->len - look);
    size_t n =
        end ? (size_t)(end - head->data) + 1 : head->len - utf8_cut_end(head->data, head->len);
    end = memchr(tail->data, '\n', tail->len < LINE_SEARCH ? tail->len : LINE_SEARCH);
    size_t from = end ? (size_t)(end - tail->data) + 1 : utf8_cut_start(tail->data, tail->len);
    text_append(text, head->data, n);
    buf_end_line(text);
    buf_printf(text, "[... %" PRIu64 " bytes", o->kept.total - n - (tail->len - from));
    if (!o->uncounted)
        buf_printf(text, " (%" PRIu64 " lines)",
                   o->lines - kept_count_lines(head->data, n) -
                       kept_count_lines(tail->data + from, tail->len - from));
    buf_append_str(text, " left out; ");
    if (o->dropped && file)
        buf_printf(
            text, "%" PRIu64 " of them were dropped, the head and the tail of the output are in %s",
            o->dropped, file);
    else if (o->path[0] && o->capped)
        buf_printf(text, "the first %u MiB of the output are in %s", KEPT_FILE_MAX >> 20, o->path);
    else if (o->path[0] || file)
        buf_printf(text, "all of the output is in %s", o->path[0] ? o->path : file);
    else
        buf_printf(text, "they could not be kept in a file: %s", o->failure.text);
    buf_append_str(text, " ...]\n");
    return text_append(text, tail->data + from, tail->len - from);
}

void ticker_start(struct ticker *t, const struct tool_call *c)
{
    t->progress = c->progress;
    t->began = clock_now();
    t->next = t->began + TICK_NS;
}

void ticker_tick(struct ticker *t, const struct box_capture *output)
{
    int64_t now = clock_now();
    if (!t->progress || now < t->next)
        return;
    t->next = now + TICK_NS;

    /* The last line that is not blank, or the end of it. */
    const struct buf *b = output->tail.len ? &output->tail : &output->head;
    size_t end = b->len;
    while (end > 0 && strchr("\n\r ", b->data[end - 1] ? b->data[end - 1] : 1))
        end--;
    size_t begin = end;
    while (begin > 0 && !strchr("\n\r", b->data[begin - 1] ? b->data[begin - 1] : 1) &&
           end - begin < LINE_SHOWN)
        begin--;
    begin += utf8_cut_start(b->data + begin, end - begin);
    _cleanup_buf_ struct buf line = BUF_INIT(4 * LINE_SHOWN);
    text_append(&line, b->data + begin, end - begin);
    const char *text = buf_cstr(&line);
    t->progress->say(t->progress->data, (double)(now - t->began) / NS_PER_S, text ? text : "");
}

/* --- how a command ended --- */

struct bash_end {
    int exit_code;
    int signal; /* 0: it exited */
    enum wire_limit limit;
};

static json_t *string_or_null(const char *text)
{
    return text ? text_json(text, strlen(text)) : json_null();
}

/* The members exit_code, signal, timed_out and killed_by; all null while it runs. */
static int bash_set_end(json_t *data, const struct bash_end *e, bool running)
{
    char name[32];
    signame_format(e->signal, name, sizeof name);
    data_set(data, "exit_code", running ? json_null() : json_integer(e->exit_code));
    data_set(data, "signal", string_or_null(!running && e->signal ? name : NULL));
    data_set(data, "timed_out", json_boolean(e->limit == WIRE_LIMIT_TIMEOUT));
    return data_set(data, "killed_by", string_or_null(box_limit_name(e->limit)));
}

/* How it ended, in lines behind its output; nothing if it just succeeded. */
static void bash_put_end(struct buf *text, const struct bash_end *e, const char *timeout_hint)
{
    static const char *const words[] = {
        [WIRE_LIMIT_TIMEOUT] = ("the command ran longer than its time limit and was ended with "
                                "everything it had started"),
        [WIRE_LIMIT_CPU] = "the command used more CPU time than the box allows and was ended",
        [WIRE_LIMIT_MEMORY] = "the command needed more memory than the box has and was ended",
        [WIRE_LIMIT_PIDS] = "the command needed more processes than the box may have",
        [WIRE_LIMIT_DISK] = "the box's disk is full: remove files that are not needed",
        [WIRE_LIMIT_OUTPUT] = "the command printed more than it may and was ended",
    };
    char name[32];
    if (e->limit || e->signal || e->exit_code)
        buf_end_line(text);
    if (e->limit && (size_t)e->limit < ARRAY_SIZE(words))
        buf_printf(text, "[%s%s]\n", words[e->limit],
                   e->limit == WIRE_LIMIT_TIMEOUT ? timeout_hint : "");
    signame_format(e->signal, name, sizeof name);
    if (e->signal)
        buf_printf(text, "[ended by signal %s]\n", name);
    else if (e->exit_code)
        buf_printf(text, "[exit code %d]\n", e->exit_code);
}

/* The members output, output_bytes, truncated and output_file, and the output itself as text.
 * `file` has all of it anyway; or NULL. */
static int bash_set_output(struct tool_call *c, json_t *data, const struct kept_output *o,
                           const char *file)
{
    struct buf *text = &c->result->text;
    int r = kept_output_text(o, file, text);
    if (r < 0)
        return r;
    data_set(data, "output", json_stringn(text->len ? (const char *)text->data : "", text->len));
    data_set(data, "output_bytes", json_integer((json_int_t)o->kept.total));
    data_set(data, "truncated", json_boolean(kept_output_is_cut(o)));
    return data_set(data, "output_file", string_or_null(o->path[0] ? o->path : file));
}

/* --- a command --- */

struct foreground {
    struct kept_output output;
    struct ticker ticker;
};

static void foreground_take_output(void *data, const void *bytes, size_t n)
{
    kept_output_add(&((struct foreground *)data)->output, bytes, n);
}

static void foreground_tick(void *data)
{
    struct foreground *f = data;
    ticker_tick(&f->ticker, &f->output.kept);
}

static int foreground_answer(struct tool_call *c, const struct foreground *f,
                             const struct box_result *r, struct error *err)
{
    struct buf *text = &c->result->text;
    json_t *data = c->result->data = json_object();
    _cleanup_buf_ struct buf notes = BUF_INIT(8192);
    struct bash_end end = {.exit_code = r->exit_code, .signal = r->signal, .limit = r->limit};
    if (!data || bash_set_output(c, data, &f->output, NULL) < 0)
        return error_set(err, ENOMEM, "no memory");
    if (text->len == 0 && r->exit_code == 0 && !r->limit)
        buf_append_str(text, "(no output)\n");
    bash_put_end(text, &end,
                 "; give it a larger timeout (in seconds), or run it with background: true");
    bash_set_end(data, &end, false);
    data_set(data, "duration_ms", json_integer(r->duration_ns / NS_PER_MS));
    data_set(data, "cwd", string_or_null(r->cwd));

    /* The notes of the guest, and those that only the host can make: a program that the host has,
     * and connections that the network policy refused. */
    char missing[1024];
    if (r->notes)
        text_append(&notes, r->notes, strlen(r->notes));
    if (r->exit_code == 127 && missing_describe(&f->output.kept, missing, sizeof missing))
        buf_printf(&notes, "%s%s", notes.len ? "\n" : "", missing);
    for (size_t i = 0; i < r->n_refused; i++) {
        const char *target = r->refused[i].target;
        buf_printf(&notes, "%sthe network refused %s: ", notes.len ? "\n" : "", target);
        if (r->refused[i].is_private)
            buf_append_str(&notes, "the host is allowed, but its address is private or local");
        else if (tool_session_host(c->session))
            buf_printf(&notes,
                       "this host is not allowed; ask for it with request_network, or the"
                       " user types /net allow:%s",
                       target);
        else
            buf_append_str(&notes, "this host is not allowed from this box");
    }
    if (notes.len) {
        buf_end_line(text);
        buf_printf(text, "[%.*s]\n", (int)notes.len, (const char *)notes.data);
    }
    json_t *note = notes.len ? json_stringn((const char *)notes.data, notes.len) : json_null();
    return data_set(data, "note", note) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

static int bash_run_command(struct tool_call *c, const struct box_command *asked, struct error *err)
{
    struct box_command command = *asked;
    struct foreground f = {0};
    struct box_sink sink = {
        .write = foreground_take_output, .tick = c->progress ? foreground_tick : NULL, .data = &f};
    struct box_result result = {0};
    ticker_start(&f.ticker, c);
    kept_output_init(&f.output, c);
    c->result->lingers = command.background;
    if (!command.background)
        command.sink = &sink;
    int r = box_exec(tool_session_box(c->session), &command, &result, err);
    if (r == 0 && command.background) {
        c->result->data =
            json_pack("{s:I, s:b, s:o}", "handle", (json_int_t)result.handle, "running", 1,
                      "output_file", string_or_null(result.output_path));
        buf_printf(&c->result->text,
                   "Started in the background with handle %" PRIu64 ". Call bash with"
                   " {\"handle\": %" PRIu64 "} for its new output and how it ended.\n",
                   result.handle, result.handle);
        r = c->result->data ? 0 : error_set(err, ENOMEM, "no memory");
    } else if (r == 0) {
        kept_output_finish(&f.output);
        r = foreground_answer(c, &f, &result, err);
    }
    box_result_free(&result);
    kept_output_free(&f.output);
    return r;
}

/* --- a background command --- */

struct background_status {
    bool running;
    uint64_t mark; /* up to where it was read */
    uint64_t size;
    int64_t duration_ns;
    struct bash_end end;
    char path[128];
    char failure[512]; /* why it never ran, or empty */
};

static void background_begin(struct ask *a, struct tool_call *c, enum wire_type type)
{
    ask_begin(a, c, type);
    wire_put_u64(&a->out, WIRE_K_HANDLE, (uint64_t)input_int(c, "handle", 0));
}

static void background_text(const struct wire_frame *f, uint16_t key, char *text, size_t size)
{
    struct wire_field field;
    _cleanup_buf_ struct buf b = BUF_INIT(4 * size);
    if (wire_find(f, key, &field) && field.size < size)
        text_append(&b, field.data, field.size);
    snprintf(text, size, "%s", b.len && buf_cstr(&b) ? (const char *)b.data : "");
}

/* The guest's numbers are not trusted: one that is too large is 0. */
static void background_take_status(const struct wire_frame *f, struct background_status *ret)
{
    uint64_t limit = wire_find_u64(f, WIRE_K_LIMIT, 0);
    uint64_t signal = wire_find_u64(f, WIRE_K_TERM_SIGNAL, 0);
    uint64_t exit_code = wire_find_u64(f, WIRE_K_EXIT_CODE, 0);
    *ret = (struct background_status){
        .running = wire_find_u64(f, WIRE_K_RUNNING, 0) != 0,
        .mark = wire_find_u64(f, WIRE_K_MARK, 0),
        .size = wire_find_u64(f, WIRE_K_SIZE, 0),
        .duration_ns = (int64_t)(wire_find_u64(f, WIRE_K_DURATION_NS, 0) & INT64_MAX),
        .end = {.exit_code = exit_code <= 255 ? (int)exit_code : 0,
                .signal = signal < NSIG ? (int)signal : 0,
                .limit = limit <= WIRE_LIMIT_OUTPUT ? (enum wire_limit)limit : WIRE_LIMIT_NONE}};
    if (ret->end.signal)
        ret->end.exit_code = 128 + ret->end.signal;
    if (ret->end.limit == WIRE_LIMIT_TIMEOUT || ret->end.limit == WIRE_LIMIT_CPU)
        ret->end.exit_code = 124;
    background_text(f, WIRE_K_OUTPUT_PATH, ret->path, sizeof ret->path);
    background_text(f, WIRE_K_TEXT, ret->failure, sizeof ret->failure);
}

static int background_write_input(struct tool_call *c, struct error *err)
{
    const json_t *input = json_object_get(c->input, "stdin");
    const char *data = input ? json_string_value(input) : "";
    size_t left = input ? json_string_length(input) : 0;
    bool eof = input_bool(c, "eof", false);
    for (int r = 0; left || eof;) {
        _cleanup_ask_ struct ask a;
        struct wire_frame frame;
        size_t n = left < INPUT_PIECE ? left : INPUT_PIECE;
        bool last = n == left;
        background_begin(&a, c, WIRE_INPUT);
        wire_put(&a.out, WIRE_K_DATA, data, n);
        wire_put_u64(&a.out, WIRE_K_EOF, last && eof);
        r = ask_result(&a, &frame, err);
        if (r < 0 || last)
            return r;
        data += n;
        left -= n;
    }
    return 0;
}

/* Waits until there is something new, or it has ended, or the time is over; after a kill, for its
 * end. */
static int background_wait(struct tool_call *c, int64_t until, bool killed, struct error *err)
{
    int64_t began = clock_now(), shown = began;
    for (int ms = LOOK_FIRST_MS;; ms = 2 * ms < LOOK_MOST_MS ? 2 * ms : LOOK_MOST_MS) {
        struct background_status s;
        struct wire_frame frame;
        _cleanup_ask_ struct ask a;
        background_begin(&a, c, WIRE_STATUS);
        int r = ask_result(&a, &frame, err);
        if (r < 0)
            return r;
        background_take_status(&frame, &s);
        int64_t now = clock_now();
        if (!s.running || (s.size > s.mark && !killed) || now >= until)
            return 0;
        if (c->progress && now - shown > 500 * NS_PER_MS) {
            shown = now;
            c->progress->say(c->progress->data, (double)(now - began) / NS_PER_S,
                             "waiting for new output");
        }
        int64_t left_ms = (until - now) / NS_PER_MS + 1;
        struct pollfd cancel = {.fd = c->cancel, .events = POLLIN};
        if (poll(&cancel, 1, left_ms < ms ? (int)left_ms : ms) > 0)
            return error_set(err, ECANCELED, "the call was cancelled");
    }
}

/* The new output; its head and tail if it is long. The guest counts it as read from here on. */
static int background_read(struct tool_call *c, struct background_status *ret,
                           struct kept_output *o, struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame frame;
    struct wire_field first = {0}, last = {0};
    background_begin(&a, c, WIRE_STATUS);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, KEPT_OUTPUT_MAX);
    int r = ask_result(&a, &frame, err);
    if (r < 0)
        return r;
    background_take_status(&frame, ret);
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

static int bash_run_handle(struct tool_call *c, struct error *err)
{
    _cleanup_kept_output_ struct kept_output output;
    struct background_status s = {0};
    bool kill = input_bool(c, "kill", false);
    double seconds = json_number_value(json_object_get(c->input, "timeout"));
    int64_t wait = (int64_t)(seconds * (double)NS_PER_S);
    kept_output_init(&output, c);
    int r = background_write_input(c, err);
    if (r == 0 && kill) {
        _cleanup_ask_ struct ask a;
        struct wire_frame frame;
        background_begin(&a, c, WIRE_SIGNAL);
        wire_put_u64(&a.out, WIRE_K_SIGNAL, SIGKILL);
        r = ask_result(&a, &frame, err);
    }
    if (r == 0)
        r = background_wait(c, clock_now() + (kill && wait < KILL_PATIENCE ? KILL_PATIENCE : wait),
                            kill, err);
    if (r == 0)
        r = background_read(c, &s, &output, err);
    if (r < 0)
        return r;

    struct buf *text = &c->result->text;
    json_t *data = c->result->data = json_object();
    if (!data || bash_set_output(c, data, &output, s.path[0] ? s.path : NULL) < 0)
        return error_set(err, ENOMEM, "no memory");
    if (!text->len)
        buf_append_str(text, "(no new output)");
    buf_end_line(text);
    if (s.failure[0])
        buf_printf(text, "[%s]\n", s.failure);
    if (s.running)
        buf_printf(text, "[still running after %.1f s]\n", (double)s.duration_ns / NS_PER_S);
    else if (s.end.exit_code == 0)
        buf_append_str(text, "[ended: exit code 0]\n");
    else
        bash_put_end(text, &s.end, "");
    data_set(data, "dropped_bytes", json_integer((json_int_t)output.dropped));
    data_set(data, "handle", json_integer(input_int(c, "handle", 0)));
    data_set(data, "running", json_boolean(s.running));
    data_set(data, "duration_ms", json_integer(s.duration_ns / NS_PER_MS));
    return bash_set_end(data, &s.end, s.running) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

int tool_session_is_running(struct tool_session *s, uint64_t handle, bool *ret)
{
    struct wire_frame frame;
    _cleanup_ask_ struct ask a;
    ask_begin_box(&a, tool_session_box(s), -1, WIRE_STATUS);
    a.patience_ms = LOOK_PATIENCE_MS;
    wire_put_u64(&a.out, WIRE_K_HANDLE, handle);
    int r = ask_result(&a, &frame, NULL);
    if (r == 0)
        *ret = wire_find_u64(&frame, WIRE_K_RUNNING, 0) != 0;
    return r;
}

/* Why members of the input do not go together; NULL: they do. */
static const char *bash_contradiction(const struct tool_call *c)
{
    bool command = json_object_get(c->input, "command"),
         handle = json_object_get(c->input, "handle"),
         background = input_bool(c, "background", false);
    if (command == handle)
        return "give either command, to run something, or handle, to look after a background "
               "command";
    if (handle && (json_object_get(c->input, "cwd") || background))
        return "cwd and background go with command, not with handle";
    if (command && (json_object_get(c->input, "kill") || json_object_get(c->input, "eof")))
        return "kill and eof go with handle, not with command";
    if (command && background && json_object_get(c->input, "stdin"))
        return "a background command is given its input by a later call, with handle and stdin";
    const json_t *script = json_object_get(c->input, "command");
    if (command && strlen(json_string_value(script)) != json_string_length(script))
        return "command holds a NUL byte, which no shell can read";
    return NULL;
}

static int bash_run(struct tool_call *c, struct error *err)
{
    const char *wrong = bash_contradiction(c);
    if (wrong)
        return tool_fail(c, "%s", wrong);
    if (json_object_get(c->input, "handle"))
        return bash_run_handle(c, err);
    const json_t *input = json_object_get(c->input, "stdin");
    double seconds = json_number_value(json_object_get(c->input, "timeout"));
    bool background = input_bool(c, "background", false);
    struct box_command command = {.shell = TOOL_SHELL,
                                  .script = input_string(c, "command"),
                                  .cwd = input_string(c, "cwd"),
                                  .input = json_string_value(input),
                                  .n_input = json_string_length(input),
                                  .timeout_ns = background ? -1 : 0,
                                  .background = background,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .cancel = c->cancel};
    if (seconds > 0)
        command.timeout_ns = (int64_t)(seconds * (double)NS_PER_S);
    return bash_run_command(c, &command, err);
}

static int bash_view_call(const json_t *input, struct buf *b)
{
    const char *command = json_get_string(input, "command");
    if (command)
        return buf_printf(b, "%s%s", command, json_get_bool(input, "background") ? " &" : "");
    const char *what = json_get_bool(input, "kill")      ? "end"
                       : json_object_get(input, "stdin") ? "write to"
                                                         : "look at";
    return buf_printf(b, "%s background command %" JSON_INTEGER_FORMAT, what,
                      json_get_integer(input, "handle"));
}

static int bash_view_result(const json_t *data, struct buf *b)
{
    const char *killed = json_get_string(data, "killed_by");
    const char *signal = json_get_string(data, "signal");
    json_int_t exit_code = json_get_integer(data, "exit_code");
    if (json_get_bool(data, "running"))
        return buf_printf(b, "runs in the background as %" JSON_INTEGER_FORMAT,
                          json_get_integer(data, "handle"));
    if (killed)
        return buf_printf(b, "ended by the limit on %s", killed);
    if (signal)
        return buf_printf(b, "ended by %s", signal);
    return exit_code ? buf_printf(b, "exit %" JSON_INTEGER_FORMAT, exit_code) : 0;
}

/* clang-format off */
const struct tool TOOL_BASH = {
    .name = "bash",
    .title = "Run a command",
    .summary = "Runs a command in a bash shell inside the box. The working folder, exported"
               " variables and functions persist from call to call; shell options and plain"
               " variables do not. stdout and stderr are combined. Nothing is interactive: stdin"
               " is empty unless given, pagers and prompts are off. For long-running commands"
               " (servers, watchers) use background, then call again with the handle to see new"
               " output, to write to stdin or to kill it. Of long output the head and the tail"
               " are shown; all of it is in output_file.",
    .input = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "command": {"type": "string", "minLength": 1,
            "description": "The command line, or a whole script."},
        "timeout": {"type": "number", "minimum": 0, "maximum": 86400,
            "description": "Seconds (default: the box's limit); with handle: wait for output."},
        "background": {"type": "boolean",
            "description": "Return at once with a handle; no time limit unless one is given."},
        "cwd": {"type": "string", "minLength": 1,
            "description": "The folder for this command only; relative to the shell's."},
        "stdin": {"type": "string",
            "description": "Standard input of the command, or of the one that handle names."},
        "handle": {"type": "integer", "minimum": 1,
            "description": "A background command, instead of command."},
        "eof": {"type": "boolean",
            "description": "With handle: closes its standard input, after stdin was written."},
        "kill": {"type": "boolean",
            "description": "With handle: ends it and everything it has started."}}}),
    .output = SCHEMA({"type": "object", "required": ["output_file"], "properties": {
        "exit_code": {"type": ["integer", "null"],
            "description": "128+N after signal N, 124 at a time limit, null while it runs."},
        "signal": {"type": ["string", "null"]},
        "timed_out": {"type": "boolean"},
        "killed_by": {"enum": [null, "timeout", "cpu-time", "memory", "pids", "disk", "output"]},
        "duration_ms": {"type": "integer"},
        "output": {"type": "string",
            "description": "stdout and stderr; the head and the tail if it is long."},
        "output_bytes": {"type": "integer", "description": "Of all of it."},
        "truncated": {"type": "boolean"},
        "output_file": {"type": ["string", "null"],
            "description": "Where all output is, in the box (of very much: head and tail)."},
        "dropped_bytes": {"type": "integer",
            "description": "New output that output_file no longer has (background only)."},
        "cwd": {"type": ["string", "null"], "description": "The shell's folder now."},
        "note": {"type": ["string", "null"],
            "description": "Other remarks, such as that the shell had to be replaced."},
        "handle": {"type": "integer"},
        "running": {"type": "boolean"}}}),
    .flags = TOOL_RUNS,
    .run = bash_run,
    .view = &(const struct tool_view){
        .call = bash_view_call, .result = bash_view_result, .data_body = "output",
        .head = 2, .tail = 4,
    },
};
/* clang-format on */
