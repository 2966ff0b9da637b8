#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "encoding.h"
#include "io.h"
#include "json.h"
#include "record.h"
#include "thread.h"
#include "banned.h"

#define LINE_MAX_BYTES (256u << 20)
#define PIECES_MAX     (1u << 20)
#define TOGETHER_MS    5 /* what comes within this time is one piece */

struct record_piece {
    bool thinking;
    int64_t ms; /* since the request */
    size_t n;
};

static int record_open(const char *path, int *ret_fd, struct error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return error_errno(err, errno, "cannot record to %s", path);
    *ret_fd = fd;
    return 0;
}

int record_check(const char *path, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    return record_open(path, &fd, err);
}

/* A recording without pieces is played at an even pace: being out of memory is no failure. */
static void record_add_piece(struct record *r, bool thinking, size_t n)
{
    int64_t ms = (clock_now() - r->began) / NS_PER_MS;
    if (r->n > 0) {
        struct record_piece *last = &r->pieces[r->n - 1];
        if (last->thinking == thinking && ms - last->ms < TOGETHER_MS) {
            last->n += n;
            return;
        }
    }
    if (r->n == r->room) {
        size_t room = r->room ? r->room * 2 : 64;
        struct record_piece *more =
            room <= PIECES_MAX ? reallocarray(r->pieces, room, sizeof *r->pieces) : NULL;
        if (!more)
            return;
        r->pieces = more;
        r->room = room;
    }
    r->pieces[r->n++] = (struct record_piece){thinking, ms, n};
}

/* Only so many bytes of one kind count still. */
static void record_keep_pieces(struct record *r, bool thinking, size_t keep)
{
    size_t sum = 0, to = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct record_piece p = r->pieces[i];
        if (p.thinking == thinking) {
            p.n = sum + p.n > keep ? keep - sum : p.n;
            sum += p.n;
        }
        if (p.n)
            r->pieces[to++] = p;
    }
    r->n = to;
}

static void record_event(void *data, const struct model_event *e)
{
    struct record *r = data;
    if (e->kind == MODEL_TEXT || e->kind == MODEL_THINKING) {
        record_add_piece(r, e->kind == MODEL_THINKING, e->n);
    } else if (e->kind == MODEL_BACK) {
        record_keep_pieces(r, false, e->keep);
        record_keep_pieces(r, true, e->keep_thinking);
    }
    r->next->event(r->next->data, e);
}

void record_begin(struct record *r, const struct model_sink *next)
{
    *r = (struct record){.next = next, .began = clock_now()};
    r->sink = (struct model_sink){.event = record_event, .data = r};
}

void record_free(struct record *r)
{
    free(r->pieces);
}

static int digest_piece(const char *bytes, size_t n, void *data)
{
    uint64_t *sum = data;
    *sum = digest(*sum, bytes, n);
    return 0;
}

/* Appends a line. Its digest is of the messages alone. */
int record_end(struct record *r, const struct model_spec *spec, const struct model_request *q,
               const struct model_reply *reply, bool cut, struct error *err)
{
    const struct model_usage *u = &reply->usage;
    uint64_t sum = DIGEST_BEGIN;
    _cleanup_buf_ struct buf out = BUF_INIT(LINE_MAX_BYTES);
    _cleanup_fd_ int fd = -1;
    json_dump_callback(q->messages, digest_piece, &sum,
                       JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    json_t *pieces = r->n ? json_array() : NULL;
    for (size_t i = 0; i < r->n; i++)
        json_array_append_new(pieces, json_pack("[I, s, I]", (json_int_t)r->pieces[i].ms,
                                                r->pieces[i].thinking ? "thinking" : "text",
                                                (json_int_t)r->pieces[i].n));
    json_t *usage = u->known
                        ? json_pack("{s:I, s:I, s:I, s:I, s:I}", "input", (json_int_t)u->input,
                                    "output", (json_int_t)u->output, "cache_read",
                                    (json_int_t)u->cache_read, "cache_write",
                                    (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking)
                        : NULL;
    _cleanup_json_ json_t *line = json_pack(
        "{s:o, s:I, s:O, s:s, s:o*, s:s*, s:o*, s:o*}", "digest",
        json_sprintf("%016llx", (unsigned long long)sum), "messages",
        (json_int_t)json_array_size(q->messages), "content", reply->content, "stop",
        model_stop_name(reply->stop), "usage", usage, "model",
        reply->model[0] ? reply->model : NULL, "cut", cut ? json_true() : NULL, "pieces", pieces);
    _cleanup_free_ char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;

    /* A tool's output may have brought the key into the conversation: it is not recorded. */
    size_t n = spec->key ? strlen(spec->key) : 0;
    const char *rest = text, *at;
    while (rest && n >= 4 && (at = strstr(rest, spec->key))) {
        buf_append(&out, rest, (size_t)(at - rest));
        buf_append_str(&out, "...");
        rest = at + n;
    }
    if (!rest || buf_append_str(&out, rest) < 0 || buf_append_str(&out, "\n") < 0)
        return error_set(err, ENOMEM, "out of memory");
    int fail = record_open(spec->record, &fd, err);
    if (fail == 0 && (fail = io_write_all(fd, out.data, out.len)) < 0)
        error_errno(err, -fail, "cannot record to %s", spec->record);
    return fail;
}
