/*
 * Commands, tools and files of a live box.
 *
 * Files are the guest's matter: it resolves each path beneath the workspace and reads and writes
 * there; here are only frames and pipes. A folder is packed by the box's own tar.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "encoding.h"
#include "exec_result.h"
#include "io.h"
#include "job.h"
#include "json.h"
#include "live_box.h"
#include "options.h"
#include "thread.h"
#include "tool.h"
#include "banned.h"

#define ARGS_MAX        1024
#define ENV_MAX         256
#define OUTPUT_PIECE    (32u << 10) /* bytes of one event of output */
#define CHANGES_MAX     10000
#define PROGRESS_GAP_NS (NS_PER_S / 2)

/* --- commands --- */

/* A command of a call's input. The strings belong to the input, but for those of env. */
struct exec_input {
    struct box_command command;
    char *argv[ARGS_MAX + 1];
    char *env[ENV_MAX + 1];
    size_t n_env;
    int in;
};

static void exec_input_free(struct exec_input *e)
{
    for (size_t i = 0; i < e->n_env; i++)
        free(e->env[i]);
    cleanup_close(&e->in);
}

/* A text goes to a shell, a list is the program and its arguments. */
static int exec_input_argv(struct exec_input *e, const json_t *command, struct error *err)
{
    size_t n = 0;
    if (json_is_string(command)) {
        e->argv[n++] = (char *)"/bin/sh";
        e->argv[n++] = (char *)"-c";
        e->argv[n++] = (char *)json_string_value(command);
        return 0;
    }
    for (; n < json_array_size(command) && n < ARGS_MAX; n++) {
        e->argv[n] = (char *)json_string_value(json_array_get(command, n));
        if (!e->argv[n])
            return error_set(err, EINVAL, "command[%zu]: must be a string", n);
    }
    if (n == 0 || n < json_array_size(command))
        return error_set(err, EINVAL, "command: must be a string or a list of 1 to %d strings",
                         ARGS_MAX);
    return 0;
}

static int exec_input_read(struct exec_input *e, const json_t *input, int cancel, struct error *err)
{
    const json_t *given = json_object_get(input, "stdin");
    const char *timeout = json_get_string(input, "timeout"), *name;
    json_t *value;
    *e = (struct exec_input){.in = -1};
    e->command = (struct box_command){.argv = e->argv,
                                      .env = e->env,
                                      .cwd = json_get_string(input, "cwd"),
                                      .in = -1,
                                      .out = -1,
                                      .err = -1,
                                      .cancel = cancel};
    int r = exec_input_argv(e, json_object_get(input, "command"), err);
    if (r < 0)
        return r;
    if (timeout &&
        (units_parse_time(timeout, &e->command.timeout_ns) < 0 || e->command.timeout_ns <= 0))
        return error_set(err, EINVAL, "timeout: '%.40s' is not a time like 30s or 5m", timeout);
    json_object_foreach(json_object_get(input, "env"), name, value)
    {
        const char *text = json_string_value(value);
        if (e->n_env >= ENV_MAX || !text || !*name || strchr(name, '='))
            return error_set(err, EINVAL, "env: must be at most %d names with a string each",
                             ENV_MAX);
        e->env[e->n_env] = str_printf("%s=%s", name, text);
        if (!e->env[e->n_env++])
            return error_set(err, ENOMEM, "no memory");
    }
    if (!given)
        return 0;
    e->command.in = e->in = io_memory_file(json_string_value(given), json_string_length(given));
    return e->in < 0 ? error_errno(err, -e->in, "cannot keep the command's input") : 0;
}

/* A command on a thread of its own, while the call's thread reads its output. */
struct exec_run {
    struct box *box;
    struct box_command command;
    struct box_result result;
    struct error err;
    int r;
};

static void *exec_run_thread(void *data)
{
    struct exec_run *x = data;
    x->r = box_exec(x->box, &x->command, &x->result, &x->err);
    close(x->command.out);
    if (x->command.err >= 0)
        close(x->command.err);
    return NULL;
}

/* Starts it with pipes and returns their reading ends. `ret_err` NULL: stderr goes to /dev/null. */
static int exec_run_start(struct exec_run *x, int *ret_out, int *ret_err, pthread_t *ret_thread,
                          struct error *err)
{
    int out[2], second[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    if (ret_err && pipe2(second, O_CLOEXEC) < 0) {
        int code = errno;
        close(out[0]);
        close(out[1]);
        return error_errno(err, code, "cannot make a pipe");
    }
    x->command.out = out[1];
    x->command.err = second[1];
    int r = thread_start(ret_thread, NULL, exec_run_thread, x);
    if (r < 0) {
        cleanup_close(&out[1]);
        cleanup_close(&second[1]);
        cleanup_close(&out[0]);
        cleanup_close(&second[0]);
        return error_errno(err, -r, "cannot start a thread");
    }
    *ret_out = out[0];
    if (ret_err)
        *ret_err = second[0];
    return 0;
}

/* One stream of output as events. A character that is cut off waits for its rest. */
struct output_events {
    struct live_call *call;
    const char *name;
    int fd; /* -1: it has ended */
    uint8_t data[OUTPUT_PIECE];
    size_t n;
};

static int output_event_send(struct output_events *o, size_t n)
{
    bool text = utf8_valid(o->data, n);
    _cleanup_buf_ struct buf coded = BUF_INIT(2 * OUTPUT_PIECE);
    if (!text)
        base64_append(&coded, o->data, n);
    json_t *event =
        text ? json_pack("{s:s, s:s%}", "stream", o->name, "text", o->data, n)
             : json_pack("{s:s, s:s%}", "stream", o->name, "base64", coded.data, coded.len);
    memmove(o->data, o->data + n, o->n - n);
    o->n -= n;
    return call_event(o->call, event);
}

static int output_events_read(struct output_events *o)
{
    ssize_t got = read(o->fd, o->data + o->n, sizeof o->data - o->n);
    if (got < 0 && errno == EINTR)
        return 0;
    if (got <= 0)
        close(TAKE_FD(o->fd));
    o->n += got > 0 ? (size_t)got : 0;
    size_t cut = got > 0 ? utf8_cut_end(o->data, o->n) : 0;
    return o->n > cut ? output_event_send(o, o->n - cut) : 0;
}

static void exec_stream(struct live_call *c, const struct exec_input *e)
{
    struct exec_run x = {.box = call_box(c)->box, .command = e->command};
    struct output_events *streams = calloc(2, sizeof *streams);
    pthread_t thread;
    int out, errors;
    int r = streams ? exec_run_start(&x, &out, &errors, &thread, &x.err)
                    : error_set(&x.err, ENOMEM, "no memory");
    if (r < 0) {
        call_fail(c, &x.err);
        free(streams);
        return;
    }
    streams[0] = (struct output_events){.call = c, .name = "stdout", .fd = out};
    streams[1] = (struct output_events){.call = c, .name = "stderr", .fd = errors};
    while (r == 0 && (streams[0].fd >= 0 || streams[1].fd >= 0)) {
        struct pollfd p[] = {{.fd = streams[0].fd, .events = POLLIN},
                             {.fd = streams[1].fd, .events = POLLIN}};
        poll(p, ARRAY_SIZE(p), -1);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(p); i++)
            r = p[i].revents ? output_events_read(&streams[i]) : 0;
    }
    cleanup_close(&streams[0].fd); /* its client has gone: so does the command */
    cleanup_close(&streams[1].fd);
    pthread_join(thread, NULL);
    free(streams);
    if (x.r < 0) {
        call_fail(c, &x.err);
        return;
    }
    static const char *const PASSED_ON[] = {"stdout", "stderr", "truncated", "stdout_bytes",
                                            "stderr_bytes"};
    json_t *result = exec_result_json(&x.result, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(PASSED_ON); i++)
        json_object_del(result, PASSED_ON[i]);
    box_result_free(&x.result);
    call_end(c, result);
}

void box_call_exec(struct live_call *c)
{
    struct error err = {0};
    struct exec_input *e = malloc(sizeof *e);
    if (!e)
        return call_problem(c, 503, "busy", "no memory");
    if (exec_input_read(e, call_input(c), call_cancel(c), &err) < 0) {
        call_fail(c, &err);
    } else if (json_get_bool(call_input(c), "stream")) {
        exec_stream(c, e);
    } else {
        struct box_result result;
        e->command.capture = true;
        if (box_exec(call_box(c)->box, &e->command, &result, &err) < 0) {
            call_fail(c, &err);
        } else {
            call_end(c, exec_result_json(&result, NULL));
            box_result_free(&result);
        }
    }
    exec_input_free(e);
    free(e);
}

/* --- tools --- */

struct tool_events {
    struct live_call *call;
    int64_t next;
};

static void tool_events_say(void *data, double seconds, const char *message)
{
    struct tool_events *t = data;
    if (clock_now() < t->next)
        return;
    t->next = clock_now() + PROGRESS_GAP_NS;
    call_event(t->call, json_pack("{s:f, s:s}", "seconds", seconds, "text", message));
}

void box_call_tool(struct live_call *c)
{
    struct error err = {0};
    struct tool_events events = {.call = c};
    const struct tool_progress progress = {.say = tool_events_say, .data = &events};
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    _cleanup_json_ json_t *input = NULL;
    const char *tool;
    if (step_call(call_input(c), &tool, &input, &err) < 0)
        return call_fail(c, &err);
    const struct tool_request request = {
        .name = tool, .input = input, .cancel = call_cancel(c), .progress = &progress};
    int64_t began = clock_now();
    int r = tool_call(call_box(c)->tools, &request, &result);
    const char *text = result.text.len ? buf_cstr(&result.text) : "";
    if (r == -ENOENT)
        return call_problem(c, 404, "not-found", "%s", text);
    if (r == -EINVAL)
        return call_problem(c, 422, "invalid-input", "%s", text);
    json_t *answer = tool_result_json(&result);
    json_object_set(answer, "tool", json_object_get(call_input(c), "tool"));
    json_object_set_new(answer, "seconds", json_real((double)(clock_now() - began) / 1e9));
    call_end(c, answer);
}

/* --- changes --- */

void box_call_changes(struct live_call *c)
{
    struct error err = {0};
    struct box_changes changes = {0};
    if (box_changes(call_box(c)->box, &changes, &err) < 0)
        return call_fail(c, &err);
    size_t all = changes.count;
    struct box_changes some = {.items = changes.items,
                               .count = all < CHANGES_MAX ? all : CHANGES_MAX};
    call_end(c, json_pack("{s:o, s:I, s:b}", "changes", changes_json(&some), "count",
                          (json_int_t)all, "truncated", all > CHANGES_MAX));
    box_changes_free(&changes);
}

/* Sends a file of ours: the event {"size"}, then its bytes. */
static int file_send(struct live_call *c, int fd, struct error *err)
{
    struct stat st;
    char data[OUTPUT_PIECE];
    if (fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot read the file");
    int r = call_event(c, json_pack("{s:I}", "size", (json_int_t)st.st_size));
    for (uint64_t at = 0; r == 0;) {
        ssize_t n = io_read_at(fd, data, sizeof data, at);
        if (n <= 0)
            return n < 0 ? error_errno(err, (int)-n, "cannot read the file") : 0;
        r = call_send(c, data, (size_t)n);
        at += (uint64_t)n;
    }
    return error_set(err, ECANCELED, "the call was cancelled");
}

void box_call_diff(struct live_call *c)
{
    struct error err = {0};
    _cleanup_fd_ int file = io_unnamed_file();
    int r = file < 0 ? error_errno(&err, -file, "cannot make a temporary file") : 0;
    if (r == 0)
        r = box_diff(call_box(c)->box, json_get_bool(call_input(c), "stat"), file, &err);
    if (r == 0)
        r = file_send(c, file, &err);
    if (r < 0)
        call_fail(c, &err);
}

/* --- files --- */

/* Sends a regular file: {"size", "executable"}, then its bytes. A file that shrinks meanwhile fails
 * the call, so that its client does not take the part for the whole. */
static int file_get(struct live_call *c, const char *path, struct error *err)
{
    struct wire_frame f;
    struct wire_field data;
    _cleanup_ask_ struct ask look;
    ask_begin_box(&look, call_box(c)->box, call_cancel(c), WIRE_READ);
    ask_path(&look, path);
    wire_put_u64(&look.out, WIRE_K_LIMIT_BYTES, 0);
    int r = ask_result(&look, &f, err);
    if (r < 0)
        return r;
    uint64_t size = wire_find_u64(&f, WIRE_K_SIZE, 0), sent = 0;
    bool executable = wire_find_u64(&f, WIRE_K_MODE, 0) & 0111;
    if (size > INT64_MAX)
        return error_set(err, EFBIG, "%s is too large", path);

    _cleanup_ask_ struct ask a;
    ask_begin_box(&a, call_box(c)->box, call_cancel(c), WIRE_READ);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, size);
    r = ask_send(&a, err);
    if (r == 0 && call_event(c, json_pack("{s:I, s:b}", "size", (json_int_t)size, "executable",
                                          executable)) < 0)
        return error_set(err, ECANCELED, "the call was cancelled");
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0) {
        if (f.type != WIRE_DATA || !wire_find(&f, WIRE_K_DATA, &data))
            continue;
        if (data.size > size - sent)
            return error_set(err, EPROTO, "the box sent more than it may");
        if (call_send(c, data.data, data.size) < 0)
            return error_set(err, ECANCELED, "the call was cancelled");
        sent += data.size;
    }
    if (r == 0 && sent < size)
        return error_set(err, EIO, "%s changed while it was read", path);
    return r;
}

/* Sends a folder as tar packs it, after the event {"size": null}. */
static int folder_get(struct live_call *c, const char *path, struct error *err)
{
    _cleanup_free_ char *folder = str_printf("/workspace/%s", path);
    char *argv[] = {(char *)"tar", (char *)"-C", folder, (char *)"-cf",
                    (char *)"-",   (char *)".",  NULL};
    struct exec_run x = {
        .box = call_box(c)->box,
        .command = {.argv = argv, .cwd = "/", .in = -1, .err = -1, .cancel = call_cancel(c)}};
    char data[OUTPUT_PIECE];
    pthread_t thread;
    int out;
    int r =
        folder ? exec_run_start(&x, &out, NULL, &thread, err) : error_set(err, ENOMEM, "no memory");
    if (r < 0)
        return r;
    bool any = false;
    for (;;) {
        ssize_t n = read(out, data, sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || (!any && call_event(c, json_pack("{s:n}", "size")) < 0) ||
            call_send(c, data, (size_t)n) < 0)
            break;
        any = true;
    }
    close(out);
    pthread_join(thread, NULL);
    if (x.r < 0)
        return error_set(err, x.err.code, "%s", x.err.text);
    int status = x.result.exit_code;
    bool failed = *x.result.failure;
    box_result_free(&x.result);
    if (failed)
        return error_set(err, ENOTSUP, "cannot pack the folder: the box has no tar");
    if (status > 1 || !any) /* 1: a file changed while it was read */
        return error_set(err, any ? EIO : ENOENT,
                         "cannot pack the folder %s: tar ended with status %d", path, status);
    return 0;
}

void box_call_files_get(struct live_call *c)
{
    struct error err = {0};
    const char *path = json_get_string_or(call_input(c), "path", "");
    int r =
        json_get_bool(call_input(c), "tar") ? folder_get(c, path, &err) : file_get(c, path, &err);
    if (r < 0)
        call_fail(c, &err);
}

/* Nothing is written unless all of it came: the guest writes a file in one step. */
static int file_put(struct live_call *c, const char *path, json_t **ret, struct error *err)
{
    struct wire_frame f;
    _cleanup_buf_ struct buf data = BUF_INIT(1u << 20);
    _cleanup_ask_ struct ask a;
    ask_begin_box(&a, call_box(c)->box, call_cancel(c), WIRE_WRITE);
    ask_path(&a, path);
    if (json_get_bool(call_input(c), "executable"))
        wire_put_u64(&a.out, WIRE_K_EXECUTABLE, 1);
    int r = ask_send(&a, err);
    for (bool end = false; r == 0 && !end;) {
        int got = call_receive(c, &data, -1, &end);
        if (got < 0)
            return error_set(err, ECANCELED, "the call was cancelled");
        if (got > 0 || end)
            r = ask_data(&a, data.data, data.len, end, err);
    }
    if (r == 0)
        r = ask_result(&a, &f, err);
    if (r == 0)
        *ret = json_pack("{s:s, s:I, s:b}", "path", path, "size",
                         (json_int_t)wire_find_u64(&f, WIRE_K_SIZE, 0), "created",
                         wire_find_u64(&f, WIRE_K_CREATED, 0) != 0);
    return r;
}

void box_call_files_put(struct live_call *c)
{
    struct error err = {0};
    json_t *answer = NULL;
    if (file_put(c, json_get_string_or(call_input(c), "path", ""), &answer, &err) < 0)
        call_fail(c, &err);
    else
        call_end(c, answer);
}

static int files_list_entry(void *data, const struct wire_frame *f)
{
    struct wire_field name, target;
    json_t *list = data;
    if (f->type != WIRE_ENTRY || !wire_find(f, WIRE_K_NAME, &name))
        return -EPROTO;
    if (json_array_size(list) >= CHANGES_MAX)
        return 0;
    mode_t mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0);
    const char *type = S_ISREG(mode)   ? "file"
                       : S_ISDIR(mode) ? "folder"
                       : S_ISLNK(mode) ? "link"
                                       : "other";
    json_t *entry =
        json_pack("{s:o, s:s, s:I, s:b, s:f}", "name", text_json(name.data, name.size), "type",
                  type, "size", (json_int_t)(wire_find_u64(f, WIRE_K_SIZE, 0) & INT64_MAX),
                  "executable", S_ISREG(mode) && mode & 0111, "modified",
                  (double)(int64_t)wire_find_u64(f, WIRE_K_MTIME_NS, 0) / 1e9);
    if (wire_find(f, WIRE_K_TARGET, &target))
        data_set(entry, "target", text_json(target.data, target.size));
    return json_array_append_new(list, entry) < 0 ? -ENOMEM : 0;
}

void box_call_files_list(struct live_call *c)
{
    struct error err = {0};
    struct wire_frame f;
    const char *path = json_get_string_or(call_input(c), "path", "");
    _cleanup_json_ json_t *list = json_array();
    _cleanup_ask_ struct ask a;
    ask_begin_box(&a, call_box(c)->box, call_cancel(c), WIRE_LIST);
    ask_path(&a, path);
    if (ask_each(&a, files_list_entry, list, &f, &err) < 0)
        return call_fail(c, &err);
    call_end(c, json_pack("{s:s, s:O, s:b}", "path", path, "entries", list, "truncated",
                          wire_find_u64(&f, WIRE_K_TOO_MANY, 0) != 0));
}
