/* A keeper's side of `hutch box exec`, and of what a box changed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keeper_visit.h"
#include "keeper_wire.h"
#include "banned.h"

/* All fields of one key as a NULL-terminated list of strings, in one block of memory that starts
 * with the list. */
static char **copy_strings(const struct wire_frame *f, uint16_t key)
{
    size_t count = 0, bytes = 0;
    struct wire_field field;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            if (memchr(field.data, 0, field.size))
                return NULL;
            count++;
            bytes += field.size + 1;
        }
    char **list = calloc(1, (count + 1) * sizeof *list + bytes);
    char *text = (char *)(list + count + 1);
    size_t i = 0;
    for (size_t at = 0; list && wire_next(f, &at, &field);)
        if (field.key == key) {
            list[i++] = text;
            memcpy(text, field.data, field.size);
            text += field.size + 1;
        }
    return list;
}

static int send_kept(struct visit *v, enum keeper_stream stream, const struct buf *kept)
{
    for (size_t at = 0; at < kept->len;) {
        size_t n = kept->len - at < WIRE_DATA_MAX ? kept->len - at : WIRE_DATA_MAX;
        size_t begin = wire_begin(&v->out, (enum wire_type)KEEPER_KEPT);
        wire_put_u64(&v->out, WIRE_K_STREAM, stream);
        wire_put(&v->out, WIRE_K_DATA, kept->data + at, n);
        int r = visit_send(v, begin);
        if (r < 0)
            return r;
        at += n;
    }
    return 0;
}

static int send_changes(struct visit *v, struct error *err)
{
    struct box_changes changes = {0};
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    if (box_mode_of(v->q->in->box) == BOX_COW)
        r = box_changes(v->q->in->box, &changes, err);
    visit_unlock_owner(v);
    for (size_t i = 0; r == 0 && i < changes.count; i++) {
        const struct box_change *change = &changes.items[i];
        size_t begin = wire_begin(&v->out, WIRE_ENTRY);
        wire_put_str(&v->out, WIRE_K_PATH, change->path);
        wire_put_u64(&v->out, WIRE_K_KIND, change->kind);
        wire_put_u64(&v->out, WIRE_K_MODE, change->mode);
        wire_put_u64(&v->out, WIRE_K_SIZE, change->size);
        if (visit_send(v, begin) < 0)
            break; /* the client has gone */
    }
    box_changes_free(&changes);
    return r;
}

static int send_exec_result(struct visit *v, const struct box_result *r)
{
    if (send_kept(v, KEEPER_OUT_HEAD, &r->out.head) < 0 ||
        send_kept(v, KEEPER_OUT_TAIL, &r->out.tail) < 0 ||
        send_kept(v, KEEPER_ERR_HEAD, &r->err.head) < 0 ||
        send_kept(v, KEEPER_ERR_TAIL, &r->err.tail) < 0)
        return 0; /* the client has gone */
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    wire_put_u64(&v->out, WIRE_K_EXIT_CODE, (uint64_t)r->exit_code);
    wire_put_u64(&v->out, WIRE_K_TERM_SIGNAL, (uint64_t)r->signal);
    wire_put_u64(&v->out, WIRE_K_LIMIT, r->limit);
    wire_put_str(&v->out, WIRE_K_TEXT, r->failure);
    wire_put_u64(&v->out, WIRE_K_DURATION_NS, (uint64_t)r->duration_ns);
    wire_put_u64(&v->out, KEEPER_K_CPU_NS, (uint64_t)r->cpu_ns);
    wire_put_u64(&v->out, WIRE_K_MAX_RSS, r->max_rss);
    wire_put_u64(&v->out, KEEPER_K_OUT_TOTAL, r->out.total);
    wire_put_u64(&v->out, KEEPER_K_ERR_TOTAL, r->err.total);
    wire_put_u64(&v->out, KEEPER_K_OUT_ERROR, (uint64_t)r->out_error);
    wire_put_u64(&v->out, WIRE_K_STATE, r->state);
    wire_put_u64(&v->out, WIRE_K_HANDLE, r->handle);
    if (r->cwd)
        wire_put_str(&v->out, WIRE_K_CWD, r->cwd);
    if (r->notes)
        wire_put_str(&v->out, WIRE_K_NOTE, r->notes);
    if (r->output_path)
        wire_put_str(&v->out, WIRE_K_OUTPUT_PATH, r->output_path);
    for (size_t i = 0; i < r->n_refused; i++)
        wire_put_str(&v->out,
                     r->refused[i].is_private ? KEEPER_K_REFUSED_PRIVATE : KEEPER_K_REFUSED,
                     r->refused[i].target);
    return visit_send(v, begin);
}

/* Runs the command; its client's going away cancels it. */
static int exec_command(struct visit *v, struct box_result *ret, struct error *err)
{
    const struct wire_frame *f = v->frame;
    _cleanup_free_ char **argv = copy_strings(f, WIRE_K_ARG);
    _cleanup_free_ char **env = copy_strings(f, WIRE_K_ENV);
    _cleanup_free_ char *cwd = wire_find_str(f, WIRE_K_CWD);
    _cleanup_free_ char *shell = wire_find_str(f, KEEPER_K_SHELL);
    _cleanup_free_ char *script = wire_find_str(f, KEEPER_K_SCRIPT);
    struct wire_field input = {0};
    bool capture = wire_find_u64(f, KEEPER_K_CAPTURE, 0);
    if (!argv || !env || !(argv[0] || (shell && script)) || v->reader->n_fds < 3)
        return error_set(err, EPROTO, "malformed request");
    struct box_command command = {
        .argv = argv,
        .shell = shell,
        .script = script,
        .input = wire_find(f, KEEPER_K_INPUT, &input) ? input.data : NULL,
        .n_input = input.size,
        .background = wire_find_u64(f, WIRE_K_BACKGROUND, 0),
        .env = env,
        .cwd = cwd,
        .timeout_ns = (int64_t)wire_find_u64(f, KEEPER_K_TIMEOUT_NS, 0),
        .cpu_time_ns = (int64_t)wire_find_u64(f, KEEPER_K_CPU_TIME_NS, 0),
        .tty = wire_find_u64(f, KEEPER_K_TTY, 0),
        .in = v->reader->fds[0],
        .out = capture ? -1 : v->reader->fds[1],
        .err = capture ? -1 : v->reader->fds[2],
        .capture = capture,
        .cancel = v->q->conn,
    };
    /* What belongs to the box's owner stops its processes for a moment, and no command can start
     * meanwhile.
     */
    pthread_mutex_lock(&v->q->held->owner);
    int r = held_enter(v->q, err);
    pthread_mutex_unlock(&v->q->held->owner);
    if (r == 0)
        r = box_exec(v->q->in->box, &command, ret, err);
    held_leave(v->q);
    /* Before the client knows that the command has ended, and the person goes on to work on the
     * files. */
    if (r == 0 && visit_lock_owner(v, NULL) == 0) {
        box_note_seen(v->q->in->box, NULL);
        visit_unlock_owner(v);
    }
    return r;
}

int serve_exec(struct visit *v, struct error *err)
{
    struct box_result result = {0};
    int r = exec_command(v, &result, err);
    if (r == 0)
        send_exec_result(v, &result);
    box_result_free(&result);
    return r;
}

int serve_changes(struct visit *v, struct error *err)
{
    int r = send_changes(v, err);
    if (r == 0)
        visit_answer(v);
    return r;
}
