/* Boxes: opening, closing, tools. Commands are in exec.c, what became of the files in changes.c. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec_result.h"
#include "git_box.h"
#include "io.h"
#include "entry.h"
#include "lib_box.h"
#include "option_json.h"
#include "tool.h"
#include "banned.h"

static void box_handle_free(hutch_box *b)
{
    tool_session_free(b->session);
    box_close(b->box);
    pthread_mutex_destroy(&b->owner);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int box_handle(struct box *box, hutch_box **ret, struct error *err)
{
    hutch_box *b = calloc(1, sizeof *b);
    if (!b) {
        box_close(box);
        return error_set(err, ENOMEM, "no memory");
    }
    b->handle = handle_new(HANDLE_BOX);
    b->box = box;
    pthread_mutex_init(&b->owner, NULL);
    pthread_mutex_init(&b->lock, NULL);
    int r = tool_session_new(box, &b->session, err);
    if (r < 0)
        box_handle_free(b);
    else
        *ret = b;
    return r;
}

static int box_open_handle(const char *text, hutch_box **ret, struct error *err)
{
    _cleanup_json_ json_t *options = NULL;
    _cleanup_json_ json_t *texts = json_array();
    _cleanup_box_spec_ struct box_spec w;
    struct box *box = NULL;
    box_spec_init(&w, "");
    int r = json_take_object("options", text, &options, err);
    if (r == 0)
        r = options_box(options, texts, &w, err);
    if (r == 0)
        r = box_spec_resolve(&w, err);
    _cleanup_git_box_ struct git_box git = {0};
    if (r == 0 && w.box.workspace && io_folder_with(w.box.workspace, ".git"))
        git_box_prepare(&w.box, &git);
    if (r == 0)
        r = box_open(&w.box, &box, err);
    if (r == 0)
        r = git_box_install(&git, box, err);
    if (r < 0)
        box_close(box);
    return r < 0 ? r : box_handle(box, ret, err);
}

int hutch_box_open(const char *options, hutch_box **ret, struct hutch_error *err)
{
    struct entry e;
    entry_begin_plain(&e, err);
    int r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = box_open_handle(options, ret, &e.error);
    return entry_end(&e, r);
}

/* The lock is held. */
static void box_interrupt_all(hutch_box *b)
{
    for (struct running *one = b->running; one; one = one->next)
        eventfd_write(one->cancel, 1);
}

static void box_end_calls(void *handle)
{
    hutch_box *b = handle;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    box_interrupt_all(b);
    pthread_mutex_unlock(&b->lock);
}

void hutch_box_close(hutch_box *b)
{
    struct entry e;
    entry_begin_plain(&e, NULL);
    if (handle_close(b, HANDLE_BOX, box_end_calls))
        box_handle_free(b);
    entry_end(&e, 0);
}

int running_begin(hutch_box *b, struct running *r, struct error *err)
{
    r->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->cancel < 0)
        return error_errno(err, errno, "cannot make a descriptor");
    pthread_mutex_lock(&b->lock);
    r->next = b->running;
    b->running = r;
    if (b->closing)
        eventfd_write(r->cancel, 1);
    pthread_mutex_unlock(&b->lock);
    return 0;
}

void running_end(hutch_box *b, struct running *r)
{
    pthread_mutex_lock(&b->lock);
    struct running **at = &b->running;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&b->lock);
    close(r->cancel);
}

int hutch_box_interrupt(hutch_box *b, struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, b, HANDLE_BOX, err);
    if (r < 0)
        return entry_end(&e, r);
    pthread_mutex_lock(&b->lock);
    box_interrupt_all(b);
    pthread_mutex_unlock(&b->lock);
    return entry_end(&e, 0);
}

static int box_call_tool(hutch_box *b, const char *name, json_t *input, char **ret,
                         struct error *err)
{
    struct running running;
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    int r = running_begin(b, &running, err);
    if (r < 0)
        return r;
    struct tool_request q = {.name = name, .input = input, .cancel = running.cancel};
    r = tool_call(b->session, &q, &result);
    running_end(b, &running);
    if (r == -ENOENT)
        return error_set(err, ENOENT, "there is no tool '%.100s'; hutch_tools() lists all", name);
    return json_give(tool_result_json(&result), ret,
                     err); /* wrong input is a failed call, told by the result */
}

int hutch_box_tool(hutch_box *b, const char *name, const char *input, char **ret_result,
                   struct hutch_error *err)
{
    struct entry e;
    _cleanup_json_ json_t *object = NULL;
    int r = entry_begin(&e, b, HANDLE_BOX, err);
    if (r == 0)
        r = entry_need(&e, name, "name");
    if (r == 0)
        r = entry_need(&e, ret_result, "ret_result");
    if (r == 0)
        r = json_take_object("input", input, &object, &e.error);
    if (r == 0)
        r = box_call_tool(b, name, object, ret_result, &e.error);
    return entry_end(&e, r);
}

int hutch_tools(char **ret_list, struct hutch_error *err)
{
    struct entry e;
    entry_begin_plain(&e, err);
    int r = entry_need(&e, ret_list, "ret_list");
    if (r < 0)
        return entry_end(&e, r);
    json_t *list = json_array();
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(list, tool_describe(TOOLS[i]));
    return entry_end(&e, json_give(list, ret_list, &e.error));
}

#define WORDS_MAX 100000

/* The command as a list of words; they belong to the JSON, the list is to be freed. */
static int exec_parse_words(json_t *command, char ***ret, struct error *err)
{
    size_t n = json_array_size(command);
    if (n == 0 || n > WORDS_MAX)
        return error_set(err, EINVAL, "'command' has %s words", n ? "too many" : "no");
    _cleanup_free_ char **words = calloc(n + 1, sizeof *words);
    if (!words)
        return error_set(err, ENOMEM, "no memory");
    for (size_t i = 0; i < n; i++) {
        words[i] = (char *)json_string_value(json_array_get(command, i));
        if (!words[i])
            return error_set(err, EINVAL, "'command': word %zu is not a string", i);
    }
    *ret = TAKE_PTR(words);
    return 0;
}

static int exec_parse_command(json_t *command, char ***ret, struct error *err)
{
    if (json_is_array(command))
        return exec_parse_words(command, ret, err);
    if (!json_is_string(command))
        return error_set(err, EINVAL, "'command' is neither a list of words nor a string");
    const char *const words[] = {"sh", "-c", json_string_value(command), NULL};
    *ret = malloc(sizeof words);
    if (!*ret)
        return error_set(err, ENOMEM, "no memory");
    memcpy(*ret, words, sizeof words);
    return 0;
}

/* A descriptor to read the input from, or -1. The box never has it: what is read there is passed on
 * by a pipe. */
static int exec_open_input(const struct exec_options *o, int *ret_fd, struct error *err)
{
    if (!o->input)
        return 0;
    _cleanup_fd_ int fd = memfd_create("hutch-input", MFD_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot keep the command's input");
    int r = io_write_all(fd, o->input, o->n_input);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r < 0)
        return error_errno(err, -r, "cannot keep the command's input");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int exec_run(hutch_box *b, char **argv, const struct exec_options *o, struct box_result *ret,
                    struct error *err)
{
    char *env[BOX_ENV_MAX + 1] = {0};
    struct running running;
    _cleanup_fd_ int input = -1;
    int r = exec_open_input(o, &input, err);
    if (r == 0)
        r = running_begin(b, &running, err);
    if (r < 0)
        return r;
    memcpy(env, o->spec.box.env, o->spec.box.n_env * sizeof *env);
    struct box_command c = {.argv = argv,
                            .cwd = o->cwd,
                            .env = env,
                            .timeout_ns = o->timeout_ns,
                            .cpu_time_ns = o->cpu_time_ns,
                            .in = input,
                            .out = -1,
                            .err = -1,
                            .capture = true,
                            .cancel = running.cancel};
    r = box_exec(b->box, &c, ret, err);
    running_end(b, &running);
    return r;
}

static int exec_in_box(hutch_box *b, const char *command_text, const char *options_text, char **ret,
                       struct error *err)
{
    struct exec_options o;
    _cleanup_json_ json_t *command = NULL, *options = NULL;
    _cleanup_json_ json_t *texts = json_array();
    _cleanup_free_ char **argv = NULL;
    struct box_result result = {0};
    int r = json_take("command", command_text, &command, err);
    if (r == 0)
        r = exec_parse_command(command, &argv, err);
    if (r == 0)
        r = json_take_object("options", options_text, &options, err);
    if (r == 0)
        r = options_exec(options, texts, &o, err);
    if (r == 0)
        r = exec_run(b, argv, &o, &result, err);
    if (r == 0)
        r = json_give(exec_result_json(&result, NULL), ret, err);
    box_result_free(&result);
    return r;
}

int hutch_box_exec(hutch_box *b, const char *command, const char *options, char **ret_result,
                   struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, b, HANDLE_BOX, err);
    if (r == 0)
        r = entry_need(&e, command, "command");
    if (r == 0)
        r = entry_need(&e, ret_result, "ret_result");
    if (r == 0)
        r = exec_in_box(b, command, options, ret_result, &e.error);
    return entry_end(&e, r);
}
