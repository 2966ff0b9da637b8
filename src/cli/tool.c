/* `hutch tool`: the tools from the command line, one call each. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "thread.h"
#include "commands.h"
#include "harmless.h"
#include "interrupt.h"
#include "io.h"
#include "output.h"
#include "say.h"
#include "show_apply.h"
#include "tool_list.h"
#include "tool_open.h"
#include "banned.h"

#define INPUT_MAX (64u << 20)

static int parse_input(const char *text, size_t n, json_t **ret, struct error *err)
{
    json_error_t at;
    json_t *input = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!input)
        return error_set(err, EINVAL, "the input is not JSON: line %d, column %d: %s", at.line,
                         at.column, at.text);
    if (!json_is_object(input)) {
        json_decref(input);
        return error_set(err, EINVAL,
                         "the input must be a JSON object, such as '{\"path\": \"README.md\"}'");
    }
    *ret = input;
    return 0;
}

/* The argument, or what is on stdin, or nothing: an empty object. */
static int read_input(const char *given, json_t **ret, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(INPUT_MAX);
    if (!given)
        return parse_input("{}", 2, ret, err);
    if (strcmp(given, "-") != 0)
        return parse_input(given, strlen(given), ret, err);
    int r = io_read_all(STDIN_FILENO, &text);
    if (r == -ENOBUFS)
        return error_set(err, E2BIG, "the input is longer than %u bytes", INPUT_MAX);
    if (r < 0)
        return error_errno(err, -r, "cannot read the input");
    return parse_input((const char *)text.data, text.len, ret, err);
}

/* On a terminal what came out of the box is made harmless; anywhere else it is passed on as it is.
 */
static int print_text(int fd, const struct buf *text)
{
    _cleanup_buf_ struct buf safe = BUF_INIT(HARMLESS_GROWTH * (size_t)RESULT_TEXT_MAX + 1);
    struct harmless state = {0};
    if (!isatty(fd))
        buf_append(&safe, text->data, text->len);
    else if (harmless_append(&state, text->data, text->len, &safe) < 0)
        return -ENOMEM;
    if (safe.len && safe.data[safe.len - 1] != '\n')
        buf_append(&safe, "\n", 1);
    if (safe.failed)
        return -ENOMEM;
    return fd == STDOUT_FILENO ? output_write(safe.data, safe.len)
                               : io_write_all(fd, safe.data, safe.len);
}

static int print_json(const struct tool_result *r)
{
    json_t *o = tool_result_json(r);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return -ENOMEM;
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL: it is not used as a string any more */
    int e = output_write(text, n + 1);
    free(text);
    return e;
}

static int print_result(const struct run_options *o, const struct tool_result *r)
{
    int e = o->json       ? print_json(r)
            : r->text.len ? print_text(r->failed ? STDERR_FILENO : STDOUT_FILENO, &r->text)
                          : 0;
    if (e == 0 && r->mime && !o->json)
        say("the result is an image (%s, %zu bytes); --json prints it", r->mime, r->image.len);
    if (e == -ENOMEM)
        return say_failure(&(struct error){.code = ENOMEM, .text = "no memory for the result"});
    if (e < 0)
        return EXIT_HUTCH;
    return r->failed ? 1 : 0;
}

static int apply(const struct run_options *o, struct tool_open *t)
{
    struct error err = {0};
    int conflicts =
        o->apply && t->own
            ? show_apply(&t->box, &(struct apply_options){.allow_git_dirs = o->allow_git_dirs},
                         o->spec.box.limits.disk, &err)
            : 0;
    if (conflicts < 0)
        return say_failure(&err);
    return conflicts ? 1 : 0;
}

/* Asks on the terminal; what was typed before the question is no answer to it. */
static int tool_confirm(void *data, const char *title, const char *text, int cancel)
{
    _cleanup_buf_ struct buf safe = BUF_INIT(HARMLESS_GROWTH * (size_t)RESULT_TEXT_MAX);
    struct harmless state = {0};
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return -ENOTTY;
    harmless_append(&state, text, strlen(text), &safe);
    buf_printf(&safe, "\n%s [y/N] ", title);
    tcflush(STDIN_FILENO, TCIFLUSH);
    int r = safe.failed ? -E2BIG : io_write_all(STDERR_FILENO, safe.data, safe.len);
    if (r == 0)
        r = cancel_wait(STDIN_FILENO, POLLIN, -1, cancel);
    if (r < 0)
        return r;
    ssize_t n = read(STDIN_FILENO, answer, sizeof answer - 1);
    return n > 0 && (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0);
}

static int call(struct run_options *o, const char *name, json_t *input)
{
    struct error err = {0};
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    _cleanup_tool_open_ struct tool_open t = {.box = {.registry = -1}};
    int cancel = interrupt_watch(&err);
    if (cancel < 0 || tool_open(o, &(struct tool_confirm){.ask = tool_confirm}, &t, &err) < 0)
        return say_failure(&err);
    struct tool_request request = {.name = name, .input = input, .cancel = cancel};
    int reached = tool_call(t.session, &request, &result);
    if (interrupt_signal())
        return 128 + interrupt_signal();
    if (reached == -ENOENT && !o->json) {
        say("%s", buf_cstr(&result.text));
        return EXIT_USAGE;
    }
    int status = print_result(o, &result);
    return status ? status : apply(o, &t);
}

static int list(struct run_options *o)
{
    struct error err = {0};
    _cleanup_tool_open_ struct tool_open t = {.box = {.registry = -1}};
    if (o->markdown)
        return tool_list_markdown();
    if (tool_open(o, NULL, &t, &err) < 0)
        return say_failure(&err);
    return tool_list(t.session, o->json);
}

int command_tool(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    json_t *input = NULL;
    int n, status;
    run_options_init(&o);
    if (!command_words(self, argc, argv, &o, 0, 2, &n, &status))
        return status;
    if (o.list || o.markdown)
        return n == 0 ? list(&o) : (say("--list takes no name"), EXIT_USAGE);
    if (n == 0) {
        say("which tool? 'hutch tool --list' shows them; usage: hutch tool %s", self->usage);
        return EXIT_USAGE;
    }
    if (read_input(n > 1 ? argv[1] : NULL, &input, &err) < 0)
        return say_usage(&err);
    status = call(&o, argv[0], input);
    json_decref(input);
    return status;
}
