/*
 * `hutch tool`: the tools from the command line, one call each; and how it and `hutch mcp` open a
 * session of tools, on a fresh box or on one that a keeper holds.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"
#include "git_box.h"
#include "text.h"
#include "io.h"
#include "keeper.h"
#include "run_options.h"
#include "session.h"
#include "thread.h"
#include "tool.h"
#include "banned.h"

#define INPUT_MAX (64u << 20)

void tool_close(struct tool_open *t)
{
    t->session = tool_session_free(t->session);
    t->box = box_close(t->box);
}

int tool_open(struct run_options *o, const struct tool_confirm *confirm, struct tool_open *ret,
              struct error *err)
{
    _cleanup_config_ struct config config = {0};
    _cleanup_box_info_ struct box_info info = {0};
    _cleanup_git_box_ struct git_box git = {0};
    struct tool_host host = run_options_host(o);
    int r;
    *ret = (struct tool_open){0};
    if (o->box_id && (o->spec.fields || o->apply))
        return error_set(
            err, EINVAL,
            "--box names an existing box: it cannot be used with options for a new box");
    if (o->box_id) {
        r = keeper_find(o->box_id, &ret->box, err);
    } else {
        r = box_spec_resolve(&o->spec, err);
        if (r == 0)
            git_box_prepare(&o->spec.box, &git);
        o->spec.box.adjustable = true; /* for request_network */
        if (r == 0)
            r = box_begin(&o->spec.box, &ret->box, err);
        o->spec.box.git_config = o->spec.box.git_mask = NULL;
        if (r == 0)
            r = git_box_install(&git, ret->box, err);
        if (git.worktree.needed)
            o->spec.box.n_shares--; /* what it names ends here */
    }
    if (r == 0)
        r = tool_session_new(ret->box, &ret->session, err);
    host.clone_max = o->box_id ? 0 : o->spec.box.limits.disk;
    if (confirm)
        host.confirm = *confirm;
    if (r == 0)
        r = tool_session_set_host(ret->session, &host, err);
    if (r == 0) { /* the tools that the settings name; a folder that is gone has no settings */
        bool known = box_info(ret->box, &info, NULL) == 0 && info.workspace;
        const char *folder = known && access(info.workspace, F_OK) == 0 ? info.workspace : NULL;
        r = config_read_all(folder, o->trust, &config, err);
    }
    if (r == 0)
        r = tool_sources_add(ret->session, &config, err);
    if (r < 0)
        tool_close(ret);
    return r;
}

static void tool_list_add(void *data, const struct tool *t)
{
    json_array_append_new(data, tool_describe(t));
}

static void tool_list_warn(void *data, const char *text)
{
    say("%s", text);
}

/* The first sentence is what a list has room for. */
static void tool_list_print(void *data, const struct tool *t)
{
    char name[128], text[512];
    const char *end = strstr(t->summary, ". ");
    int n = end ? (int)(end - t->summary) : (int)strcspn(t->summary, "\n");
    char first[400];
    snprintf(first, sizeof first, "%.*s", n, t->summary);
    printf("%-16s %s\n", say_clean(t->name, name, sizeof name),
           say_clean(first, text, sizeof text));
}

static int tool_list(struct run_options *o)
{
    struct error err = {0};
    _cleanup_tool_open_ struct tool_open t = {0};
    if (o->markdown) {
        _cleanup_buf_ struct buf page = BUF_INIT(1u << 20);
        if (tool_markdown(&page) < 0)
            return say_failure(&(struct error){.code = ENOMEM, .text = "no memory"});
        output_write(page.data, page.len);
        return 0;
    }
    if (tool_open(o, NULL, &t, &err) < 0)
        return say_failure(&err);
    json_t *list = o->json ? json_array() : NULL;
    tool_session_list(t.session, o->json ? tool_list_add : tool_list_print, tool_list_warn, list);
    if (o->json)
        output_json(list, JSON_INDENT(2));
    return 0;
}

/* The argument, or what is on stdin, or nothing: an empty object. */
static int tool_read_input(const char *given, json_t **ret, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(INPUT_MAX);
    json_error_t at;
    bool from_stdin = given && strcmp(given, "-") == 0;
    int r =
        from_stdin ? io_read_all(STDIN_FILENO, &text) : buf_append_str(&text, given ? given : "{}");
    if (r == -ENOBUFS)
        return error_set(err, E2BIG, "the input is longer than %u MB", INPUT_MAX >> 20);
    if (r < 0)
        return error_errno(err, -r, "cannot read the input");
    json_t *input = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &at);
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

/* On a terminal what came out of the box is made harmless; anywhere else it is passed on as it
 * is. */
static int tool_print_text(int fd, const struct buf *text)
{
    _cleanup_buf_ struct buf safe = BUF_INIT(HARMLESS_GROWTH * (size_t)RESULT_TEXT_MAX + 1);
    struct harmless state = {0};
    if (!isatty(fd))
        buf_append(&safe, text->data, text->len);
    else
        harmless_append(&state, text->data, text->len, &safe);
    if (safe.len && safe.data[safe.len - 1] != '\n')
        buf_append(&safe, "\n", 1);
    if (safe.failed)
        output_failed(ENOMEM);
    return fd == STDOUT_FILENO ? output_write(safe.data, safe.len)
                               : io_write_all(fd, safe.data, safe.len);
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

static int tool_call_once(struct run_options *o, const char *name, json_t *input)
{
    struct error err = {0};
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    _cleanup_tool_open_ struct tool_open t = {0};
    int cancel = interrupt_watch(&err), r = 0;
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
    if (o->json)
        r = output_json(tool_result_json(&result), JSON_COMPACT);
    else if (result.text.len)
        r = tool_print_text(result.failed ? STDERR_FILENO : STDOUT_FILENO, &result.text);
    if (r == 0 && result.mime && !o->json)
        say("the result is an image (%s, %zu bytes); --json prints it", result.mime,
            result.image.len);
    if (r < 0)
        return EXIT_HUTCH;
    if (result.failed || !o->apply || o->box_id)
        return result.failed;
    return apply_box(t.box, &(struct apply_options){.allow_git_dirs = o->allow_git_dirs},
                     o->spec.box.limits.disk);
}

static int tool_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    json_t *input = NULL;
    int n, status;
    run_options_init(&o);
    if (!command_words(self, argc, argv, &o, 0, 2, &n, &status))
        return status;
    if ((o.list || o.markdown) && n == 0)
        return tool_list(&o);
    if (o.list || o.markdown)
        error_set(&err, EINVAL, "--list takes no tool name");
    else if (n == 0)
        error_set(&err, EINVAL,
                  "no tool given; 'hutch tool --list' lists them; usage: hutch tool %s",
                  self->body->usage);
    if (err.code || tool_read_input(n > 1 ? argv[1] : NULL, &input, &err) < 0)
        return say_usage(&err);
    status = tool_call_once(&o, argv[0], input);
    json_decref(input);
    return status;
}

const struct command_body COMMAND_TOOL = {
    .usage = "[OPTIONS] NAME [JSON | -]",
    .options = {{RUN_OPTIONS, FOR_TOOL}, {BOX_OPTIONS, BOX_OPTION_NEW}},
    .notes =
        "The input is a JSON object, as an argument or (with -) on stdin; 'hutch tool --list' "
        "lists the tools. A fresh box is removed after the call, with its changes, unless --apply "
        "or --mode direct is given; use --box for a box that stays. The exit status is 0, or 1 if "
        "the tool reported an error.",
    .run = tool_run};
