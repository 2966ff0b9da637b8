#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "box.h"
#include "kept_output.h"
#include "session.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define FOLDER           "/tmp/.hutch/output"
#define FILE_PATIENCE_MS 5000
#define TICK_NS          (500 * NS_PER_MS)
#define LINE_SHOWN       64u
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
    struct timespec t;
    uint64_t serial = tool_session_serial_now(o->call->session);
    /* A name that no other call of this box takes: they may be separate programs, at the same
     * time. */
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
    if (serial)
        snprintf(o->path, sizeof o->path, FOLDER "/%" PRIu64 ".txt", serial);
    else
        snprintf(o->path, sizeof o->path, FOLDER "/%" PRIu64 "%05u.txt", ms,
                 (unsigned)getpid() % 100000);
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

void kept_output_add(struct kept_output *o, const void *data, size_t n)
{
    uint64_t had = o->kept.total, room = had < KEPT_FILE_MAX ? KEPT_FILE_MAX - had : 0;
    if (had + n > KEPT_OUTPUT_MAX) { /* there is a middle: all of it goes to the file */
        if (had <= KEPT_OUTPUT_MAX)
            kept_open_file(o);
        o->capped = o->capped || n > room;
        kept_send(o, data, n < room ? n : (size_t)room);
    }
    o->lines += kept_count_lines(data, n);
    capture_add(&o->kept, data, n);
}

void kept_output_finish(struct kept_output *o)
{
    struct wire_frame frame;
    capture_finish(&o->kept);
    if (!o->open)
        return;
    if (ask_data(&o->file, NULL, 0, true, &o->failure) < 0 ||
        ask_result(&o->file, &frame, &o->failure) < 0)
        kept_give_up(o);
}

bool kept_output_is_cut(const struct kept_output *o)
{
    return o->kept.total > o->kept.head.len + o->kept.tail.len;
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

    /* Both are cut at a line if one ends nearby, else at a character. */
    size_t look = head->len > LINE_SEARCH ? head->len - LINE_SEARCH : 0;
    const uint8_t *end = memrchr(head->data + look, '\n', head->len - look);
    size_t n =
        end ? (size_t)(end - head->data) + 1 : head->len - utf8_cut_end(head->data, head->len);
    end = memchr(tail->data, '\n', tail->len < LINE_SEARCH ? tail->len : LINE_SEARCH);
    size_t from = end ? (size_t)(end - tail->data) + 1 : utf8_cut_start(tail->data, tail->len);
    text_append(text, head->data, n);
    buf_end_line(text);
    buf_printf(text, "[... %" PRIu64 " bytes", o->kept.total - n - (tail->len - from));
    if (!o->uncounted)
        buf_printf(text, " (%" PRIu64 " lines)",
                   o->lines - kept_count_lines(head->data, n) -
                       kept_count_lines(tail->data + from, tail->len - from));
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
    return text_append(text, tail->data + from, tail->len - from);
}

void ticker_start(struct ticker *t, const struct tool_call *c)
{
    t->progress = c->progress;
    t->began = clock_now();
    t->next = t->began + TICK_NS;
}

void ticker_tick(struct ticker *t, const struct box_capture *output)
{
    int64_t now = clock_now();
    if (!t->progress || now < t->next)
        return;
    t->next = now + TICK_NS;

    /* The last line that is not blank, or the end of it. */
    const struct buf *b = output->tail.len ? &output->tail : &output->head;
    size_t end = b->len;
    while (end > 0 && strchr("\n\r ", b->data[end - 1] ? b->data[end - 1] : 1))
        end--;
    size_t begin = end;
    while (begin > 0 && !strchr("\n\r", b->data[begin - 1] ? b->data[begin - 1] : 1) &&
           end - begin < LINE_SHOWN)
        begin--;
    begin += utf8_cut_start(b->data + begin, end - begin);
    _cleanup_buf_ struct buf line = BUF_INIT(4 * LINE_SHOWN);
    text_append(&line, b->data + begin, end - begin);
    const char *text = buf_cstr(&line);
    t->progress->say(t->progress->data, (double)(now - t->began) / NS_PER_S, text ? text : "");
}
