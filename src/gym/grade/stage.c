/* grade_stage: one STAGE request (docs/protocol.md), its files behind it, what differed back. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ask.h"
#include "grade.h"
#include "tool_result.h"
#include "banned.h"

#define BATCH       WIRE_DATA_MAX /* of frames that are sent together */
#define CHANGED_MAX 1000u

static void put_roots(struct ask *a, uint16_t key, const struct task_list *l)
{
    for (size_t i = 0; l && i < l->count; i++)
        wire_put_str(&a->out, key, l->items[i]);
}

/* Sends if there is enough to send. 1: the guest takes no more. */
static int flush_batch(struct ask *a, struct error *err)
{
    if (a->fd < 0 || a->out.len < BATCH)
        return 0;
    return ask_flush(a, err);
}

/* What was put so far goes out with the request while it is small; then the box is connected. */
static int connect_if_large(struct ask *a, size_t more, struct error *err)
{
    return a->fd < 0 && a->out.len + more > BATCH ? ask_send(a, err) : 0;
}

static int put_rest(struct ask *a, const struct task_file *f, size_t at, struct error *err)
{
    int r = 0;
    while (r == 0 && at < f->size) {
        size_t piece = f->size - at < WIRE_DATA_MAX ? f->size - at : WIRE_DATA_MAX;
        size_t begin = wire_begin(&a->out, WIRE_DATA);
        wire_put(&a->out, WIRE_K_DATA, f->bytes + at, piece);
        wire_end(&a->out, begin);
        at += piece;
        r = ask_flush(a, err);
    }
    return r;
}

static int put_file(struct ask *a, const struct task_file *f, struct error *err)
{
    size_t first = f->size < WIRE_DATA_MAX ? f->size : WIRE_DATA_MAX;
    int r = connect_if_large(a, first + strlen(f->path) + 128, err);
    if (r < 0)
        return r;
    size_t begin = wire_begin(&a->out, WIRE_ENTRY);
    wire_put_str(&a->out, WIRE_K_PATH, f->path);
    wire_put_u64(&a->out, WIRE_K_MODE, f->mode);
    wire_put_u64(&a->out, WIRE_K_SIZE, f->size);
    wire_put(&a->out, WIRE_K_DATA, f->bytes, first);
    wire_end(&a->out, begin);
    r = flush_batch(a, err);
    return r == 0 ? put_rest(a, f, first, err) : r;
}

static int send_all(struct ask *a, const struct task_tree *tree, struct error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && tree && i < tree->count; i++)
        r = put_file(a, &tree->items[i], err);
    if (r != 0)
        return r;
    size_t begin = wire_begin(&a->out, WIRE_ENTRY);
    wire_put_u64(&a->out, WIRE_K_EOF, 1);
    wire_end(&a->out, begin);
    return a->fd < 0 ? ask_send(a, err) : ask_flush(a, err);
}

/* "M tests/x.py", with a slash behind a folder. Names are bytes of the box. */
static int take_change(const struct wire_frame *f, struct task_list *changed)
{
    static const char LETTERS[] = {0, 'A', 'M', 'D'};
    struct wire_field path = {0};
    uint64_t kind = wire_find_u64(f, WIRE_K_KIND, 0);
    _cleanup_buf_ struct buf text = BUF_INIT(16384);
    if (f->type != WIRE_ENTRY || kind < WIRE_ADDED || kind > WIRE_DELETED ||
        !wire_find(f, WIRE_K_PATH, &path) || path.size > 4096 || changed->count >= CHANGED_MAX)
        return -EPROTO;
    buf_printf(&text, "%c ", LETTERS[kind]);
    text_append(&text, path.data, path.size);
    if (S_ISDIR((mode_t)wire_find_u64(f, WIRE_K_MODE, 0)))
        buf_append_str(&text, "/");
    return buf_cstr(&text) ? task_list_add(changed, (char *)text.data) : -ENOMEM;
}

static int take_answer(struct ask *a, struct task_list *changed, struct error *err)
{
    struct wire_frame f;
    int r;
    while ((r = ask_next(a, &f, err)) > 0) {
        r = take_change(&f, changed);
        if (r < 0)
            return error_set(err, -r,
                             r == -ENOMEM ? "no memory" : "the box sent a malformed answer");
    }
    uint64_t more = r == 0 ? wire_find_u64(&f, WIRE_K_TOO_MANY, 0) : 0;
    if (more) {
        char text[64];
        snprintf(text, sizeof text, "and %llu more", (unsigned long long)more);
        r = task_list_add(changed, text);
    }
    return r;
}

int grade_stage(struct box *b, int cancel, const struct task_tree *tree,
                const struct task_list *own, const struct task_list *clear,
                struct task_list *ret_changed, struct error *err)
{
    struct task_list changed = {0};
    _cleanup_ask_ struct ask a;
    ask_begin_box(&a, b, cancel, WIRE_STAGE);
    put_roots(&a, WIRE_K_OWN, own);
    put_roots(&a, WIRE_K_CLEAR, clear);
    ask_end(&a);
    int r = send_all(&a, tree, err);
    if (r >= 0)
        r = take_answer(&a, &changed, err);
    if (r == 0 && ret_changed) {
        *ret_changed = changed;
        return 0;
    }
    task_list_free(&changed);
    return r;
}
