/* The clients' side of `hutch box exec`: one command, run by the keeper of a box; and of its
 * changes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keeper_ask.h"
#include "banned.h"

#define TICK_MS 100

static void put_command(struct buf *out, const struct box_command *c)
{
    for (char *const *arg = c->argv; arg && *arg; arg++)
        wire_put_str(out, WIRE_K_ARG, *arg);
    for (char *const *env = c->env; env && *env; env++)
        wire_put_str(out, WIRE_K_ENV, *env);
    if (c->cwd)
        wire_put_str(out, WIRE_K_CWD, c->cwd);
    if (c->shell) {
        wire_put_str(out, KEEPER_K_SHELL, c->shell);
        wire_put_str(out, KEEPER_K_SCRIPT, c->script);
        wire_put_u64(out, WIRE_K_BACKGROUND, c->background);
    }
    if (c->input)
        wire_put(out, KEEPER_K_INPUT, c->input, c->n_input);
    wire_put_u64(out, KEEPER_K_TTY, c->tty);
    wire_put_u64(out, KEEPER_K_CAPTURE, c->capture);
    wire_put_u64(out, KEEPER_K_TIMEOUT_NS, (uint64_t)c->timeout_ns);
    wire_put_u64(out, KEEPER_K_CPU_TIME_NS, (uint64_t)c->cpu_time_ns);
}

static int add_kept(struct box_result *result, const struct wire_frame *f)
{
    struct buf *to[] = {
        [KEEPER_OUT_HEAD] = &result->out.head,
        [KEEPER_OUT_TAIL] = &result->out.tail,
        [KEEPER_ERR_HEAD] = &result->err.head,
        [KEEPER_ERR_TAIL] = &result->err.tail,
    };
    struct wire_field field;
    uint64_t stream = wire_find_u64(f, WIRE_K_STREAM, 0);
    if (stream >= ARRAY_SIZE(to) || !to[stream] || !wire_find(f, WIRE_K_DATA, &field))
        return -EPROTO;
    return buf_append(to[stream], field.data, field.size);
}

static int add_change(struct box_changes *changes, const struct wire_frame *f)
{
    struct box_change change = {
        .kind = (enum wire_change)wire_find_u64(f, WIRE_K_KIND, 0),
        .mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0),
        .size = wire_find_u64(f, WIRE_K_SIZE, 0),
        .path = wire_find_str(f, WIRE_K_PATH),
    };
    size_t n = changes->count;
    if (!change.path)
        return -ENOMEM;
    /* Grown to each power of two. */
    if ((n & (n - 1)) == 0) {
        struct box_change *more = reallocarray(changes->items, n ? 2 * n : 1, sizeof *more);
        if (!more) {
            free(change.path);
            return -ENOMEM;
        }
        changes->items = more;
    }
    changes->items[changes->count++] = change;
    return 0;
}

static void take_refusals(struct box_result *result, const struct wire_frame *f)
{
    struct wire_field field;
    result->refused = calloc(BOX_REFUSALS_MAX, sizeof *result->refused);
    for (size_t at = 0;
         result->refused && result->n_refused < BOX_REFUSALS_MAX && wire_next(f, &at, &field);) {
        struct box_refusal *r = &result->refused[result->n_refused];
        bool is_private = field.key == KEEPER_K_REFUSED_PRIVATE;
        if ((!is_private && field.key != KEEPER_K_REFUSED) || field.size >= sizeof r->target)
            continue;
        memcpy(r->target, field.data, field.size);
        r->is_private = is_private;
        result->n_refused++;
    }
}

static void take_result(struct box_result *result, const struct wire_frame *f)
{
    result->exit_code = (int)wire_find_u64(f, WIRE_K_EXIT_CODE, 0);
    result->signal = (int)wire_find_u64(f, WIRE_K_TERM_SIGNAL, 0);
    result->limit = (enum wire_limit)wire_find_u64(f, WIRE_K_LIMIT, 0);
    _cleanup_free_ char *failure = wire_find_str(f, WIRE_K_TEXT);
    snprintf(result->failure, sizeof result->failure, "%s", failure ? failure : "");
    result->duration_ns = (int64_t)wire_find_u64(f, WIRE_K_DURATION_NS, 0);
    result->cpu_ns = (int64_t)wire_find_u64(f, KEEPER_K_CPU_NS, 0);
    result->max_rss = wire_find_u64(f, WIRE_K_MAX_RSS, 0);
    result->out.total = wire_find_u64(f, KEEPER_K_OUT_TOTAL, 0);
    result->err.total = wire_find_u64(f, KEEPER_K_ERR_TOTAL, 0);
    result->out_error = (int)wire_find_u64(f, KEEPER_K_OUT_ERROR, 0);
    result->state = (enum wire_state)wire_find_u64(f, WIRE_K_STATE, 0);
    result->handle = wire_find_u64(f, WIRE_K_HANDLE, 0);
    result->cwd = wire_find_str(f, WIRE_K_CWD);
    result->notes = wire_find_str(f, WIRE_K_NOTE);
    result->output_path = wire_find_str(f, WIRE_K_OUTPUT_PATH);
    take_refusals(result, f);
}

static struct box_capture empty_capture(void)
{
    return (struct box_capture){.head = BUF_INIT(SIZE_MAX / 2), .tail = BUF_INIT(SIZE_MAX / 2)};
}

/* Reads answers up to the result. */
static int read_result(struct keeper_ask *a, struct box_result *result, struct box_changes *changes,
                       struct error *err)
{
    for (;;) {
        struct wire_frame frame;
        int r = keeper_ask_next(a, &frame, err);
        if (r < 0)
            return r;
        if (frame.type == WIRE_RESULT) {
            take_result(result, &frame);
            return 0;
        }
        if (frame.type == (enum wire_type)KEEPER_KEPT)
            r = add_kept(result, &frame);
        else if (frame.type == WIRE_ENTRY)
            r = add_change(changes, &frame);
        if (r < 0)
            return error_errno(err, -r, "cannot keep the result of the command");
    }
}

/* Moves what is in the pipe to the sink. False at its end. */
static bool drain_once(int from, const struct box_sink *sink)
{
    char data[WIRE_DATA_MAX];
    ssize_t n = read(from, data, sizeof data);
    if (n > 0)
        sink->write(sink->data, data, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Waits for the first piece of the answer, together with the caller's wish to end and with output
 * for its sink. */
static int wait_for_answer(struct keeper_ask *a, const struct box_command *c, int *output,
                           struct error *err)
{
    bool ticks = c->sink && c->sink->tick;
    for (;;) {
        struct pollfd fds[] = {{.fd = a->conn, .events = POLLIN},
                               {.fd = c->cancel, .events = POLLIN},
                               {.fd = *output, .events = POLLIN}};
        int n = poll(fds, ARRAY_SIZE(fds), ticks ? TICK_MS : -1);
        if (n < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait for the command");
        if (n > 0 && fds[1].revents)
            return error_set(err, ECANCELED, "the command was cancelled");
        if (n > 0 && fds[2].revents && !drain_once(*output, c->sink))
            close(TAKE_FD(*output));
        if (n > 0 && fds[0].revents)
            return 0;
        if (ticks)
            c->sink->tick(c->sink->data);
    }
}

/* A pipe for the sink, of which the keeper gets the writing end. */
static int open_sink(const struct box_command *c, int *ret_ours, int *ret_theirs, struct error *err)
{
    int ends[2];
    if (!c->sink)
        return 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    *ret_ours = ends[0];
    *ret_theirs = ends[1];
    return 0;
}

/* Sends the command and waits until there is an answer; all output has come to the sink by then,
 * since the keeper closes its end behind the answer. */
static int run(struct keeper_ask *a, const struct box_command *c, struct error *err)
{
    _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    _cleanup_fd_ int ours = -1;
    _cleanup_fd_ int theirs = -1;
    int r = open_sink(c, &ours, &theirs, err);
    if (r < 0)
        return r;
    int out = theirs >= 0 ? theirs : c->out >= 0 ? c->out : null;
    int fds[] = {c->in >= 0 ? c->in : null, out, c->err >= 0 ? c->err : null};
    r = keeper_ask_send(a, fds, ARRAY_SIZE(fds), err);
    if (theirs >= 0)
        close(TAKE_FD(theirs));
    if (r == 0)
        r = wait_for_answer(a, c, &ours, err);
    while (r == 0 && ours >= 0 && drain_once(ours, c->sink))
        ;
    return r;
}

int keeper_exec(int registry, const struct registry_id *id, const struct box_command *c,
                struct box_result *ret, struct box_changes *ret_changes, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct box_result result = {.out = empty_capture(), .err = empty_capture()};
    struct box_changes changes = {0};
    int r = keeper_ask_begin(&a, registry, id, KEEPER_EXEC, err);
    if (r < 0)
        return r;
    put_command(&a.out, c);
    wire_put_u64(&a.out, KEEPER_K_CHANGES, ret_changes != NULL);
    r = run(&a, c, err);
    if (r == 0)
        r = read_result(&a, &result, &changes, err);
    if (r == 0 && ret_changes)
        *ret_changes = changes;
    else
        box_changes_free(&changes);
    if (r == 0)
        *ret = result;
    else
        box_result_free(&result);
    return r;
}

int keeper_changes(int registry, const struct registry_id *id, struct box_changes *ret,
                   struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct box_changes changes = {0};
    struct wire_frame frame;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_CHANGES, err);
    if (r == 0)
        r = keeper_ask_send(&a, NULL, 0, err);
    while (r == 0 && (r = keeper_ask_next(&a, &frame, err)) > 0 && frame.type == WIRE_ENTRY)
        r = add_change(&changes, &frame) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
    if (r < 0) {
        box_changes_free(&changes);
        return r;
    }
    *ret = changes;
    return 0;
}
