/*
 * `bash`: a command in the session's shell.
 *
 * The shell itself, what lasts of it from call to call and what does not, is the guest's
 * (src/guest/shell); here its output is kept within what a model can read, and its end is put into
 * words. A command that fails is no failed call: the exit code is part of the answer.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bash.h"
#include "clock.h"
#include "host.h"
#include "input.h"
#include "missing.h"
#include "session.h"
#include "names.h"
#include "ticker.h"
#include "banned.h"

struct foreground {
    struct kept_output output;
    struct ticker ticker;
};

static void take_output(void *data, const void *bytes, size_t n)
{
    struct foreground *f = data;
    kept_output_add(&f->output, bytes, n);
}

static void take_tick(void *data)
{
    struct foreground *f = data;
    ticker_tick(&f->ticker, &f->output.kept);
}

static const char *text_of(const struct tool_call *c, const char *name, size_t *ret_n)
{
    const json_t *value = json_object_get(c->input, name);
    if (ret_n)
        *ret_n = json_string_length(value);
    return json_string_value(value);
}

static int64_t timeout_of(const struct tool_call *c, int64_t fallback)
{
    const json_t *value = json_object_get(c->input, "timeout");
    double seconds = json_number_value(value);
    return seconds > 0 ? (int64_t)(seconds * (double)NS_PER_S) : fallback;
}

static json_t *string_or_null(const char *text)
{
    return text ? text_json(text, strlen(text)) : json_null();
}

int bash_set_end(json_t *data, const struct bash_end *e, bool running)
{
    char name[32];
    signame_format(e->signal, name, sizeof name);
    data_set(data, "exit_code", running ? json_null() : json_integer(e->exit_code));
    data_set(data, "signal", string_or_null(!running && e->signal ? name : NULL));
    data_set(data, "timed_out", json_boolean(e->limit == WIRE_LIMIT_TIMEOUT));
    return data_set(data, "killed_by", string_or_null(box_limit_name(e->limit)));
}

static void put_limit(struct buf *text, const struct bash_end *e)
{
    static const char *const words[] = {
        [WIRE_LIMIT_TIMEOUT] = "the command ran longer than its time limit and was ended with "
                               "everything it had started",
        [WIRE_LIMIT_CPU] = "the command used more CPU time than the box allows and was ended",
        [WIRE_LIMIT_MEMORY] = "the command needed more memory than the box has and was ended",
        [WIRE_LIMIT_PIDS] = "the command needed more processes than the box may have",
        [WIRE_LIMIT_DISK] = "the box's disk is full: remove files that are not needed",
        [WIRE_LIMIT_OUTPUT] = "the command printed more than it may and was ended",
    };
    if (!e->limit || (size_t)e->limit >= ARRAY_SIZE(words))
        return;
    buf_printf(text, "[%s%s]\n", words[e->limit],
               e->limit == WIRE_LIMIT_TIMEOUT && e->limit_hint ? e->limit_hint : "");
}

void bash_put_end(struct buf *text, const struct bash_end *e)
{
    char name[32];
    if (text->len && text->data[text->len - 1] != '\n' && (e->limit || e->signal || e->exit_code))
        buf_append(text, "\n", 1);
    put_limit(text, e);
    signame_format(e->signal, name, sizeof name);
    if (e->signal)
        buf_printf(text, "[ended by signal %s]\n", name);
    else if (e->exit_code)
        buf_printf(text, "[exit code %d]\n", e->exit_code);
}

int bash_set_output(struct tool_call *c, json_t *data, const struct kept_output *o,
                    const char *file)
{
    struct buf *text = &c->result->text;
    const char *path = o->path[0] ? o->path : file;
    int r = kept_output_text(o, file, text);
    if (r < 0)
        return r;
    data_set(data, "output", json_stringn(text->len ? (const char *)text->data : "", text->len));
    data_set(data, "output_bytes", json_integer((json_int_t)o->kept.total));
    data_set(data, "truncated", json_boolean(kept_output_is_cut(o)));
    return data_set(data, "output_file", string_or_null(path));
}

/* Which connections were refused, and what to do about it. */
static void put_refusals(const struct tool_call *c, const struct box_result *r, struct buf *notes)
{
    bool askable = tool_session_host(c->session) != NULL;
    for (size_t i = 0; i < r->n_refused; i++) {
        const char *target = r->refused[i].target;
        buf_printf(notes, "%sthe network refused %s: ", notes->len ? "\n" : "", target);
        if (r->refused[i].is_private)
            buf_append_str(notes, "the host is allowed, but its address is a private or local one");
        else
            buf_printf(notes, "this host is not allowed%s%s%s",
                       askable ? "; ask for it with request_network, or the user types /net allow:"
                               : "",
                       askable ? target : "", askable ? "" : " from this box");
    }
}

/* The notes of the guest, and those that only the host can make. */
static int set_notes(struct tool_call *c, json_t *data, const struct foreground *f,
                     const struct box_result *r)
{
    struct buf *text = &c->result->text;
    _cleanup_buf_ struct buf notes = BUF_INIT(8192);
    char missing[1024];
    if (r->notes)
        text_append(&notes, r->notes, strlen(r->notes));
    if (r->exit_code == 127 && missing_describe(&f->output.kept, missing, sizeof missing))
        buf_printf(&notes, "%s%s", notes.len ? "\n" : "", missing);
    put_refusals(c, r, &notes);
    if (notes.len && text->len && text->data[text->len - 1] != '\n')
        buf_append(text, "\n", 1);
    if (notes.len)
        buf_printf(text, "[%.*s]\n", (int)notes.len, (const char *)notes.data);
    json_t *value = notes.len ? json_stringn((const char *)notes.data, notes.len) : json_null();
    return data_set(data, "note", value);
}

static int answer(struct tool_call *c, const struct foreground *f, const struct box_result *r,
                  struct error *err)
{
    json_t *data = c->result->data = json_object();
    struct bash_end end = {
        .exit_code = r->exit_code,
        .signal = r->signal,
        .limit = r->limit,
        .limit_hint = "; give it a larger timeout (in seconds), or run it with background: true"};
    if (!data || bash_set_output(c, data, &f->output, NULL) < 0)
        return error_set(err, ENOMEM, "no memory");
    if (c->result->text.len == 0 && r->exit_code == 0 && !r->limit)
        buf_append_str(&c->result->text, "(no output)\n");
    bash_put_end(&c->result->text, &end);
    bash_set_end(data, &end, false);
    data_set(data, "duration_ms", json_integer(r->duration_ns / NS_PER_MS));
    data_set(data, "cwd", string_or_null(r->cwd));
    return set_notes(c, data, f, r) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

static int run_foreground(struct tool_call *c, const struct box_command *asked, struct error *err)
{
    struct foreground f = {0};
    struct box_sink sink = {
        .write = take_output, .tick = c->progress ? take_tick : NULL, .data = &f};
    struct box_result result = {0};
    ticker_start(&f.ticker, c);
    kept_output_init(&f.output, c);
    struct box_command command = *asked;
    command.sink = &sink;
    int r = tool_box_exec(tool_session_box(c->session), &command, &result, err);
    if (r == 0) {
        kept_output_finish(&f.output);
        r = answer(c, &f, &result, err);
        box_result_free(&result);
    }
    kept_output_free(&f.output);
    return r;
}

static int run_background(struct tool_call *c, const struct box_command *command, struct error *err)
{
    struct box_result result = {0};
    c->result->lingers = true;
    int r = tool_box_exec(tool_session_box(c->session), command, &result, err);
    if (r < 0)
        return r;
    json_t *data = c->result->data = json_object();
    data_set(data, "handle", json_integer((json_int_t)result.handle));
    data_set(data, "running", json_true());
    data_set(data, "output_file", string_or_null(result.output_path));
    buf_printf(&c->result->text,
               "Started in the background with handle %" PRIu64
               ". Call bash with {\"handle\": %" PRIu64 "} for its new output and how it ended.\n",
               result.handle, result.handle);
    box_result_free(&result);
    return data ? 0 : error_set(err, ENOMEM, "no memory");
}

/* What does not go together, said before anything runs. */
static const char *contradiction(const struct tool_call *c)
{
    bool command = json_object_get(c->input, "command"),
         handle = json_object_get(c->input, "handle");
    if (command == handle)
        return "give either command, to run something, or handle, to look after a background "
               "command";
    if (handle && (json_object_get(c->input, "cwd") || input_bool(c, "background", false)))
        return "cwd and background go with command, not with handle";
    if (command && (json_object_get(c->input, "kill") || json_object_get(c->input, "eof")))
        return "kill and eof go with handle, not with command";
    if (command && input_bool(c, "background", false) && json_object_get(c->input, "stdin"))
        return "a background command is given its input by a later call, with handle and stdin";
    return NULL;
}

static int run(struct tool_call *c, struct error *err)
{
    const char *wrong = contradiction(c);
    if (wrong)
        return tool_fail(c, "%s", wrong);
    if (json_object_get(c->input, "handle"))
        return bash_handle(c, err);
    size_t n;
    bool background = input_bool(c, "background", false);
    struct box_command command = {.shell = tool_session_shell(c->session),
                                  .script = text_of(c, "command", &n),
                                  .cwd = text_of(c, "cwd", NULL),
                                  .timeout_ns = timeout_of(c, background ? -1 : 0),
                                  .background = background,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .cancel = c->cancel};
    if (strlen(command.script) != n)
        return tool_fail(c, "command holds a NUL byte, which no shell can read");
    command.input = text_of(c, "stdin", &command.n_input);
    return background ? run_background(c, &command, err) : run_foreground(c, &command, err);
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
    .summary = "Runs a command in a bash shell inside the box. The working folder, exported variables and functions"
               " last from call to call; shell options and plain variables do not. stdout and stderr come as one. Nothing"
               " is interactive: stdin is empty unless given, pagers and prompts are off. For what runs long (servers,"
               " watchers) use background, then call again with the handle to see new output, to write to its stdin or"
               " to kill it. Long output keeps its head and its tail; all of it is in output_file.",
    .input = SCHEMA({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "The command line, or a whole script."},
            "timeout": {"type": "number", "minimum": 0, "maximum": 86400,
                "description": "Seconds after which a command is ended (default, and the most: the box's limit, usually 600). With handle: how long to wait for new output or the end (default 0)."},
            "background": {"type": "boolean", "description": "Returns at once with a handle; the command runs on, without a time limit unless one is given."},
            "cwd": {"type": "string", "minLength": 1, "description": "The folder for this command only; relative to the shell's."},
            "stdin": {"type": "string", "description": "What the command reads from its standard input. With handle: written to the background command's."},
            "handle": {"type": "integer", "minimum": 1, "description": "A background command, instead of command."},
            "eof": {"type": "boolean", "description": "With handle: closes its standard input, after stdin was written."},
            "kill": {"type": "boolean", "description": "With handle: ends it and everything it has started."}
        }
    }),
    .output = SCHEMA({
        "type": "object",
        "required": ["output_file"],
        "properties": {
            "exit_code": {"type": ["integer", "null"], "description": "128+N if signal N ended it, 124 at a time limit; null while it runs."},
            "signal": {"type": ["string", "null"]},
            "timed_out": {"type": "boolean"},
            "killed_by": {"enum": [null, "timeout", "cpu-time", "memory", "pids", "disk", "output"]},
            "duration_ms": {"type": "integer"},
            "output": {"type": "string", "description": "stdout and stderr; the head and the tail if it is long."},
            "output_bytes": {"type": "integer", "description": "Of all of it."},
            "truncated": {"type": "boolean"},
            "output_file": {"type": ["string", "null"], "description": "Where all of the output is, in the box; of a background command with much of it, the head and the tail."},
            "dropped_bytes": {"type": "integer", "description": "Of a background command's new output: bytes that output_file does not have any more."},
            "cwd": {"type": ["string", "null"], "description": "The shell's folder now."},
            "note": {"type": ["string", "null"], "description": "What else there is to know, such as that the shell had to be replaced."},
            "handle": {"type": "integer"},
            "running": {"type": "boolean"}
        }
    }),
    .flags = TOOL_RUNS,
    .run = run,
    .view = &(const struct tool_view){
        .call = bash_view_call, .result = bash_view_result, .data_body = "output", .head = 2, .tail = 4,
    },
};
/* clang-format on */
