/* hutch_box_exec: one command to its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec_result.h"
#include "io.h"
#include "json_text.h"
#include "lib_box.h"
#include "option_json.h"
#include "banned.h"

#define WORDS_MAX 100000

/* The command as a list of words; they belong to the JSON, the list is to be freed. */
static int take_words(json_t *command, char ***ret, struct error *err)
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

static int take_command(json_t *command, char ***ret, struct error *err)
{
    if (json_is_array(command))
        return take_words(command, ret, err);
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
static int take_input(const struct exec_options *o, int *ret_fd, struct error *err)
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

static int run(hutch_box *b, char **argv, const struct exec_options *o, struct box_result *ret,
               struct error *err)
{
    char *env[BOX_ENV_MAX + 1] = {0};
    struct running running;
    _cleanup_fd_ int input = -1;
    int r = take_input(o, &input, err);
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

static int exec(hutch_box *b, const char *command_text, const char *options_text, char **ret,
                struct error *err)
{
    struct exec_options o;
    _cleanup_json_ json_t *command = NULL, *options = NULL;
    _cleanup_json_ json_t *texts = json_array();
    _cleanup_free_ char **argv = NULL;
    struct box_result result = {0};
    int r = json_take("command", command_text, &command, err);
    if (r == 0)
        r = take_command(command, &argv, err);
    if (r == 0)
        r = json_take_object("options", options_text, &options, err);
    if (r == 0)
        r = options_exec(options, texts, &o, err);
    if (r == 0)
        r = run(b, argv, &o, &result, err);
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
        r = exec(b, command, options, ret_result, &e.error);
    return entry_end(&e, r);
}
