#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "clock.h"
#include "kept_output.h"
#include "session.h"
#include "utf8.h"
#include "banned.h"

#define FOLDER           "/tmp/.hutch/output"
#define FILE_PATIENCE_MS 5000
#define TICK_NS          (500 * NS_PER_MS)
#define LINE_SEARCH      (KEPT_OUTPUT_MAX / 8) /* how far back a cut looks for the end of a line */

void kept_output_init(struct kept_output *o, struct tool_call *c)
{
    *o = (struct kept_output){.call = c};
    capture_init(&o->kept, KEPT_OUTPUT_MAX);
}

void kept_output_free(struct kept_output *o)
{
    if (o->open)
        ask_free(&o->file);
    buf_free(&o->kept.head);
    buf_free(&o->kept.tail);
}

static uint64_t kept_count_lines(const void *data, size_t n)
{
    const char *at = data, *end = at + n;
    uint64_t lines = 0;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        lines++;
        at++;
    }
    return lines;
}

/* A name that no other call of this box takes: they are separate programs, perhaps at the same
 * time. */
static void kept_choose_path(struct kept_output *o)
{
    struct timespec t;
    uint64_t serial = tool_session_serial_now(o->call->session);
    if (serial) {
        snprintf(o->path, sizeof o->path, FOLDER "/%" PRIu64 ".txt", serial);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
    snprintf(o->path, sizeof o->path, FOLDER "/%" PRIu64 "%05u.txt", ms,
             (unsigned)getpid() % 100000);
}

static void kept_give_up(struct kept_output *o)
{
    ask_free(&o->file);
    o->open = false;
    o->path[0] = 0;
}

static void kept_send(struct kept_output *o, const void *data, size_t n)
{
    if (o->open && n && ask_data(&o->file, data, n, false, &o->failure) < 0)
        kept_give_up(o);
}

static void kept_open_file(struct kept_output *o)
{
    kept_choose_path(o);
    ask_begin(&o->file, o->call, WIRE_WRITE);
    o->file.patience_ms = FILE_PATIENCE_MS;
    o->open = true;
    ask_path(&o->file, o->path);
    if (ask_send(&o->file, &o->failure) < 0)
        kept_give_up(o);
    /* Up to now the head and the tail have everything. */
    kept_send(o, o->kept.head.data, o->kept.head.len);
    kept_send(o, o->kept.tail.data, o->kept.tail.len);
}

static void kept_spill(struct kept_output *o, const void *data, size_t n)
{
    uint64_t had = o->kept.total;
    if (had + n <= KEPT_OUTPUT_MAX)
        return;
    if (had <= KEPT_OUTPUT_MAX)
        kept_open_file(o);
    uint64_t room = had < KEPT_FILE_MAX ? KEPT_FILE_MAX - had : 0;
    o->capped = o->capped || n > room;
    kept_send(o, data, n < room ? n : (size_t)room);
}

void kept_output_add(struct kept_output *o, const void *data, size_t n)
{
    kept_spill(o, data, n);
    o->lines += kept_count_lines(data, n);
    capture_add(&o->kept, data, n);
}

void kept_output_finish(struct kept_output *o)
{
    struct wire_frame frame;
    capture_finish(&o->kept);
    if (!o->open)
        return;
    int r = ask_data(&o->file, NULL, 0, true, &o->failure);
    while (r >= 0 && (r = ask_next(&o->file, &frame, &o->failure)) > 0)
        ;
    if (r < 0)
        kept_give_up(o);
}

bool kept_output_is_cut(const struct kept_output *o)
{
    return o->kept.total > o->kept.head.len + o->kept.tail.len;
}

/* The head up to where it may be cut: behind a line, else behind a character. */
static size_t kept_head_length(const struct buf *b)
{
    size_t from = b->len > LINE_SEARCH ? b->len - LINE_SEARCH : 0;
    const uint8_t *end = memrchr(b->data + from, '\n', b->len - from);
    return end ? (size_t)(end - b->data) + 1 : b->len - utf8_cut_end(b->data, b->len);
}

static size_t kept_tail_begin(const struct buf *b)
{
    size_t most = b->len < LINE_SEARCH ? b->len : LINE_SEARCH;
    const uint8_t *end = memchr(b->data, '\n', most);
    return end ? (size_t)(end - b->data) + 1 : utf8_cut_start(b->data, b->len);
}

static void kept_put_gap(const struct kept_output *o, const char *file, uint64_t bytes,
                         uint64_t lines, struct buf *text)
{
    buf_printf(text, "[... %" PRIu64 " bytes", bytes);
    if (!o->uncounted)
        buf_printf(text, " (%" PRIu64 " lines)", lines);
    buf_append_str(text, " left out; ");
    if (o->dropped && file)
        buf_printf(
            text, "%" PRIu64 " of them were dropped, the head and the tail of the output are in %s",
            o->dropped, file);
    else if (o->path[0] && o->capped)
        buf_printf(text, "the first %u MiB of the output are in %s", KEPT_FILE_MAX >> 20, o->path);
    else if (o->path[0] || file)
        buf_printf(text, "all of the output is in %s", o->path[0] ? o->path : file);
    else
        buf_printf(text, "they could not be kept in a file: %s", o->failure.text);
    buf_append_str(text, " ...]\n");
}

int kept_output_text(const struct kept_output *o, const char *file, struct buf *text)
{
    const struct buf *head = &o->kept.head, *tail = &o->kept.tail;
    if (!kept_output_is_cut(o)) {
        _cleanup_buf_ struct buf all = BUF_INIT(KEPT_OUTPUT_MAX);
        buf_append(&all, head->data, head->len);
        buf_append(&all, tail->data, tail->len);
        return all.failed ? -ENOMEM : text_append(text, all.data, all.len);
    }
    size_t n = kept_head_length(head), from = kept_tail_begin(tail);
    uint64_t shown =
        kept_count_lines(head->data, n) + kept_count_lines(tail->data + from, tail->len - from);
    text_append(text, head->data, n);
    if (n && head->data[n - 1] != '\n')
        buf_append(text, "\n", 1);
    kept_put_gap(o, file, o->kept.total - n - (tail->len - from), o->lines - shown, text);
    return text_append(text, tail->data + from, tail->len - from);
}

void ticker_start(struct ticker *t, const struct tool_call *c)
{
    t->progress = c->progress;
    t->began = clock_now();
    t->next = t->began + TICK_NS;
}

/* The last line that is not blank, or the end of it. */
static void ticker_last_line(const struct box_capture *c, char *line, size_t size)
{
    const struct buf *b = c->tail.len ? &c->tail : &c->head;
    size_t end = b->len;
    while (end > 0 && strchr("\n\r ", b->data[end - 1] ? b->data[end - 1] : 1))
        end--;
    size_t begin = end;
    while (begin > 0 && b->data[begin - 1] != '\n' && b->data[begin - 1] != '\r' &&
           end - begin < size / 4)
        begin--;
    begin += utf8_cut_start(b->data + begin, end - begin);
    _cleanup_buf_ struct buf text = BUF_INIT(4 * size);
    text_append(&text, b->data + begin, end - begin);
    snprintf(line, size, "%s", text.len && buf_cstr(&text) ? (const char *)text.data : "");
}

void ticker_tick(struct ticker *t, const struct box_capture *output)
{
    int64_t now = clock_now();
    char line[256];
    if (!t->progress || now < t->next)
        return;
    t->next = now + TICK_NS;
    ticker_last_line(output, line, sizeof line);
    t->progress->say(t->progress->data, (double)(now - t->began) / NS_PER_S, line);
}
