/* Boxes: opening, closing, tools, commands, and their files: changes, diff, apply, snapshots. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "box.h"
#include "entry.h"
#include "exec_result.h"
#include "git_box.h"
#include "io.h"
#include "option_json.h"
#include "session.h"
#include "thread.h"
#include "tool.h"
#include "banned.h"

#define DIFF_MAX  (256u << 20)
#define WORDS_MAX 100000

/*
 * The library offers no tools that work on the host and so does not need libcurl. The linker takes
 * from an archive only what is missing: with these rows it leaves the real ones out. Their flag
 * keeps them out of every list.
 */
extern const struct tool TOOL_GIT_CLONE, TOOL_GIT_PUSH, TOOL_CREATE_PR;

const struct tool TOOL_GIT_CLONE = {.name = "git_clone", .flags = TOOL_HOST};
const struct tool TOOL_GIT_PUSH = {.name = "git_push", .flags = TOOL_HOST};
const struct tool TOOL_CREATE_PR = {.name = "create_pr", .flags = TOOL_HOST};

/* A call that runs in a box, for hutch_box_interrupt. */
struct running {
    int cancel; /* eventfd */
    struct running *next;
};

struct hutch_box {
    struct handle handle;
    struct box *box;
    struct tool_session *session;
    pthread_mutex_t owner; /* of what box.h allows only one thread at a time */
    pthread_mutex_t lock;  /* of the next two */
    struct running *running;
    bool closing;
};

struct hutch_snapshot {
    struct handle handle;
    struct snapshot *snapshot;
};

static void box_handle_free(hutch_box *b)
{
    tool_session_free(b->session);
    box_close(b->box);
    pthread_mutex_destroy(&b->owner);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* Makes a handle of the box, which it takes over whether it succeeds or not. */
static int box_handle(struct box *box, hutch_box **ret, struct error *err)
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

int hutch_box_open(const char *options, hutch_box **ret, struct hutch_error *err)
{
    struct entry e;
    _cleanup_json_ json_t *object = NULL;
    _cleanup_json_ json_t *texts = json_array();
    _cleanup_box_spec_ struct box_spec w;
    _cleanup_git_box_ struct git_box git = {0};
    struct box *box = NULL;
    entry_begin_plain(&e, err);
    box_spec_init(&w, "");
    int r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = json_take_object("options", options, &object, &e.error);
    if (r == 0)
        r = options_box(object, texts, &w, &e.error);
    if (r == 0)
        r = box_spec_resolve(&w, &e.error);
    if (r == 0 && w.box.workspace && io_folder_with(w.box.workspace, ".git"))
        git_box_prepare(&w.box, &git);
    if (r == 0)
        r = box_open(&w.box, &box, &e.error);
    if (r == 0)
        r = git_box_install(&git, box, &e.error);
    if (r == 0)
        r = box_handle(TAKE_PTR(box), ret, &e.error);
    box_close(box);
    return entry_end(&e, r);
}

/* Interrupts all calls of the box, and if it is closing later ones, too. */
static void box_interrupt(hutch_box *b, bool closing)
{
    LOCKED(&b->lock);
    b->closing |= closing;
    for (struct running *one = b->running; one; one = one->next)
        eventfd_write(one->cancel, 1);
}

static void box_end_calls(void *handle)
{
    box_interrupt(handle, true);
}

void hutch_box_close(hutch_box *b)
{
    struct entry e;
    entry_begin_plain(&e, NULL);
    if (handle_close(b, HANDLE_BOX, box_end_calls))
        box_handle_free(b);
    entry_end(&e, 0);
}

/* Around calls that take long: hutch_box_interrupt makes r->cancel readable. */
static int running_begin(hutch_box *b, struct running *r, struct error *err)
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

static void running_end(hutch_box *b, struct running *r)
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
    if (r == 0)
        box_interrupt(b, false);
    return entry_end(&e, r);
}

int hutch_box_tool(hutch_box *b, const char *name, const char *input, char **ret_result,
                   struct hutch_error *err)
{
    struct entry e;
    struct running running;
    _cleanup_json_ json_t *object = NULL;
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    int r = entry_begin(&e, b, HANDLE_BOX, err);
    if (r == 0)
        r = entry_need(&e, name, "name");
    if (r == 0)
        r = entry_need(&e, ret_result, "ret_result");
    if (r == 0)
        r = json_take_object("input", input, &object, &e.error);
    if (r == 0)
        r = running_begin(b, &running, &e.error);
    if (r < 0)
        return entry_end(&e, r);
    struct tool_request q = {.name = name, .input = object, .cancel = running.cancel};
    r = tool_call(b->session, &q, &result);
    running_end(b, &running);
    if (r == -ENOENT)
        error_set(&e.error, ENOENT, "there is no tool '%.100s'; hutch_tools() lists all", name);
    else /* wrong input is a failed call, which the result says */
        r = json_give(tool_result_json(&result), ret_result, &e.error);
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

/* The command's words, as a list to be freed; the words belong to the JSON. */
static int exec_parse_command(json_t *command, char ***ret, struct error *err)
{
    bool shell = json_is_string(command);
    size_t n = shell ? 3 : json_array_size(command);
    if (!shell && !json_is_array(command))
        return error_set(err, EINVAL, "'command' is neither a list of words nor a string");
    if (n == 0 || n > WORDS_MAX)
        return error_set(err, EINVAL, "'command' has %s words", n ? "too many" : "no");
    _cleanup_free_ const char **words = calloc(n + 1, sizeof *words);
    if (!words)
        return error_set(err, ENOMEM, "no memory");
    if (shell)
        memcpy(words, (const char *[]){"sh", "-c", json_string_value(command)}, 3 * sizeof *words);
    for (size_t i = 0; !shell && i < n; i++) {
        words[i] = json_string_value(json_array_get(command, i));
        if (!words[i])
            return error_set(err, EINVAL, "'command': word %zu is not a string", i);
    }
    *ret = (char **)TAKE_PTR(words);
    return 0;
}

/* The box never gets the descriptor of the input: a pipe passes it on. */
static int exec_run(hutch_box *b, char **argv, const struct exec_options *o, struct box_result *ret,
                    struct error *err)
{
    char *env[BOX_ENV_MAX + 1] = {0};
    struct running running;
    _cleanup_fd_ int input = o->input ? io_memory_file(o->input, o->n_input) : -1;
    if (o->input && input < 0)
        return error_errno(err, -input, "cannot keep the command's input");
    int r = running_begin(b, &running, err);
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

int hutch_box_exec(hutch_box *b, const char *command, const char *options, char **ret_result,
                   struct hutch_error *err)
{
    struct entry e;
    struct exec_options o;
    _cleanup_json_ json_t *words = NULL, *object = NULL;
    _cleanup_json_ json_t *texts = json_array();
    _cleanup_free_ char **argv = NULL;
    struct box_result result = {0};
    int r = entry_begin(&e, b, HANDLE_BOX, err);
    if (r == 0)
        r = entry_need(&e, command, "command");
    if (r == 0)
        r = entry_need(&e, ret_result, "ret_result");
    if (r == 0)
        r = json_take("command", command, &words, &e.error);
    if (r == 0)
        r = exec_parse_command(words, &argv, &e.error);
    if (r == 0)
        r = json_take_object("options", options, &object, &e.error);
    if (r == 0)
        r = options_exec(object, texts, &o, &e.error);
    if (r == 0)
        r = exec_run(b, argv, &o, &result, &e.error);
    if (r == 0)
        r = json_give(exec_result_json(&result, NULL), ret_result, &e.error);
    box_result_free(&result);
    return entry_end(&e, r);
}

/* The beginning of every call here: the owner's lock is held if it succeeds. */
static int changes_begin(struct entry *e, hutch_box *b, const void *ret, const char *name,
                         struct hutch_error *out)
{
    int r = entry_begin(e, b, HANDLE_BOX, out);
    if (r == 0)
        r = entry_need(e, ret, name);
    if (r == 0)
        pthread_mutex_lock(&b->owner);
    return r;
}

static int changes_end(struct entry *e, hutch_box *b, int r)
{
    pthread_mutex_unlock(&b->owner);
    return entry_end(e, r);
}

int hutch_box_changes(hutch_box *b, char **ret_list, struct hutch_error *err)
{
    struct entry e;
    struct box_changes changes = {0};
    int r = changes_begin(&e, b, ret_list, "ret_list", err);
    if (r < 0)
        return entry_end(&e, r);
    r = box_changes(b->box, &changes, &e.error);
    if (r == 0)
        r = json_give(changes_json(&changes), ret_list, &e.error);
    box_changes_free(&changes);
    return changes_end(&e, b, r);
}

/* The file in memory takes DIFF_MAX bytes and not one more. */
static int changes_diff(hutch_box *b, char **ret, size_t *ret_size, struct error *err)
{
    _cleanup_fd_ int fd = memfd_create("hutch-diff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, DIFF_MAX) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return error_errno(err, errno, "cannot keep the diff");
    int r = box_diff(b->box, false, fd, err);
    if (r == -EPERM) /* from the seal */
        return error_set(err, EFBIG, "the diff is larger than %u MiB; ask for the changes instead",
                         DIFF_MAX >> 20);
    if (r < 0)
        return r;
    off_t size = lseek(fd, 0, SEEK_CUR);
    _cleanup_free_ char *bytes = size < 0 ? NULL : malloc((size_t)size + 1);
    if (!bytes)
        return error_set(err, ENOMEM, "no memory for the diff");
    ssize_t n = io_read_at(fd, bytes, (size_t)size, 0);
    if (n != size)
        return error_errno(err, n < 0 ? (int)-n : EIO, "cannot read the diff");
    bytes[size] = 0;
    *ret_size = (size_t)size;
    *ret = TAKE_PTR(bytes);
    return 0;
}

int hutch_box_diff(hutch_box *b, char **ret_diff, size_t *ret_size, struct hutch_error *err)
{
    struct entry e;
    size_t size = 0;
    int r = changes_begin(&e, b, ret_diff, "ret_diff", err);
    if (r < 0)
        return entry_end(&e, r);
    r = changes_diff(b, ret_diff, &size, &e.error);
    if (r == 0 && ret_size)
        *ret_size = size;
    return changes_end(&e, b, r);
}

struct applied {
    json_int_t done;
    json_t *conflicts, *refused, *notes;
};

static void changes_note(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct applied *a = data;
    a->done += outcome == APPLY_DONE || outcome == APPLY_MERGED;
    if (outcome != APPLY_CONFLICT && outcome != APPLY_REFUSED)
        return;
    bool conflict = outcome == APPLY_CONFLICT;
    const char *text = why        ? why
                       : conflict ? "it changed in your folder since the box read it"
                                  : "refused";
    json_array_append_new(
        conflict ? a->conflicts : a->refused,
        json_pack("{s:o, s:s}", "path", text_json(path, strlen(path)), "why", text));
}

static void changes_note_line(void *data, const char *line)
{
    struct applied *a = data;
    json_array_append_new(a->notes, text_json(line, strlen(line)));
}

int hutch_box_apply(hutch_box *b, char **ret_report, struct hutch_error *err)
{
    struct entry e;
    int r = changes_begin(&e, b, ret_report, "ret_report", err);
    if (r < 0)
        return entry_end(&e, r);
    struct applied a = {.conflicts = json_array(), .refused = json_array(), .notes = json_array()};
    const struct tool_apply_options how = {
        .report = {.say = changes_note, .data = &a}, .note = changes_note_line, .data = &a};
    r = tool_apply(b->box, &how, &e.error);
    json_t *report = json_pack("{s:I, s:o, s:o, s:o}", "applied", a.done, "conflicts", a.conflicts,
                               "refused", a.refused, "notes", a.notes);
    if (r >= 0)
        r = json_give(report, ret_report, &e.error);
    else
        json_decref(report);
    return changes_end(&e, b, r);
}

int hutch_box_snapshot(hutch_box *b, hutch_snapshot **ret, struct hutch_error *err)
{
    struct entry e;
    int r = changes_begin(&e, b, ret, "ret", err);
    if (r < 0)
        return entry_end(&e, r);
    _cleanup_free_ hutch_snapshot *s = calloc(1, sizeof *s);
    if (s) {
        s->handle = handle_new(HANDLE_SNAPSHOT);
        r = box_snapshot(b->box, &s->snapshot, &e.error);
    } else {
        r = error_set(&e.error, ENOMEM, "no memory");
    }
    if (r == 0)
        *ret = TAKE_PTR(s);
    return changes_end(&e, b, r);
}

void hutch_snapshot_free(hutch_snapshot *s)
{
    struct entry e;
    entry_begin_plain(&e, NULL);
    if (handle_close(s, HANDLE_SNAPSHOT, NULL)) {
        snapshot_free(s->snapshot);
        free(s);
    }
    entry_end(&e, 0);
}

static int snapshot_fork(struct snapshot *s, hutch_box **ret, struct error *err)
{
    struct box *box = NULL;
    int r = box_fork(s, &box, err);
    return r < 0 ? r : box_handle(box, ret, err);
}

int hutch_snapshot_fork(hutch_snapshot *s, hutch_box **ret, struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, s, HANDLE_SNAPSHOT, err);
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = snapshot_fork(s->snapshot, ret, &e.error);
    return entry_end(&e, r);
}

int hutch_box_fork(hutch_box *b, hutch_box **ret, struct hutch_error *err)
{
    struct entry e;
    struct snapshot *s = NULL;
    int r = changes_begin(&e, b, ret, "ret", err);
    if (r < 0)
        return entry_end(&e, r);
    r = box_snapshot(b->box, &s, &e.error);
    if (r == 0)
        r = snapshot_fork(s, ret, &e.error);
    snapshot_free(s);
    return changes_end(&e, b, r);
}
