/*
 * The file is a sequence of JSON values (one per line, or however they are laid out), or one array
 * of them, or one object with the member "answers". All of it is parsed when it is opened, so that
 * a mistake is told before anything has happened.
 *
 * Text comes in the pieces that it was recorded in, at their times; without pieces it comes word by
 * word.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "buf.h"
#include "clock.h"
#include "io.h"
#include "replay.h"
#include "replay_answer.h"
#include "retry.h"
#include "utf8.h"
#include "banned.h"

#define WORD_MS  20
#define WAIT_MAX 60000

struct replay {
    char *name;
    json_t *answers;
    size_t next;
};

struct replay *replay_free(struct replay *p)
{
    if (!p)
        return NULL;
    json_decref(p->answers);
    free(p->name);
    free(p);
    return NULL;
}

size_t replay_count(const struct replay *p)
{
    return json_array_size(p->answers);
}

static size_t line_of(const char *text, size_t at)
{
    size_t line = 1;
    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

static size_t skip_blank(const char *text, size_t n, size_t at)
{
    while (at < n && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at;
}

/* One value of the sequence: an answer, or a document that holds them all. */
static int take_value(struct replay *p, json_t *value, struct error *err)
{
    json_t *inner = json_is_array(value) ? value : json_object_get(value, "answers");
    int r = inner && !json_is_array(inner)
                ? error_set(err, EINVAL, "%s: \"answers\" must be an array", p->name)
            : inner ? json_array_extend(p->answers, inner)
                    : json_array_append(p->answers, value);
    if (r == -1)
        return error_set(err, ENOMEM, "no memory for %s", p->name);
    if (r == 0 && json_array_size(p->answers) > REPLAY_ANSWERS_MAX)
        return error_set(err, E2BIG, "%s: more than %u answers", p->name, REPLAY_ANSWERS_MAX);
    return r;
}

static int parse_all(struct replay *p, const char *text, size_t n, struct error *err)
{
    int r = 0;
    for (size_t at = skip_blank(text, n, 0); r == 0 && at < n; at = skip_blank(text, n, at)) {
        json_error_t why;
        json_t *value =
            json_loadb(text + at, n - at, JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &why);
        if (!value)
            return error_set(err, EINVAL, "%s:%zu: no JSON: %s", p->name,
                             line_of(text, at) + (size_t)(why.line > 0 ? why.line - 1 : 0),
                             why.text);
        at += (size_t)why.position;
        r = take_value(p, value, err);
        json_decref(value);
    }
    return r;
}

static int check_all(const struct replay *p, struct error *err)
{
    size_t i;
    json_t *said;
    if (json_array_size(p->answers) == 0)
        return error_set(err, EINVAL, "%s holds no answer", p->name);
    json_array_foreach(p->answers, i, said)
    {
        struct model_reply reply;
        struct error inner = {0};
        int r = replay_answer(said, i + 1, &reply, &inner);
        if (r < 0)
            return error_set(err, -r, "%s: answer %zu: %s", p->name, i + 1, inner.text);
        model_reply_free(&reply);
    }
    return 0;
}

int replay_parse(const char *name, const char *text, size_t n, struct replay **ret,
                 struct error *err)
{
    struct replay *p = calloc(1, sizeof *p);
    if (p) {
        p->name = strdup(name);
        p->answers = json_array();
    }
    if (!p || !p->name || !p->answers) {
        replay_free(p);
        return error_set(err, ENOMEM, "no memory for %s", name);
    }
    int r = parse_all(p, text, n, err);
    if (r == 0)
        r = check_all(p, err);
    if (r < 0) {
        replay_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

/* A pipe or a device would keep us waiting, or never end. */
static int read_recording(const char *path, struct buf *b)
{
    struct stat st;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    return S_ISREG(st.st_mode) ? io_read_all(fd, b) : -EINVAL;
}

int replay_open(const char *path, struct replay **ret, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(REPLAY_BYTES_MAX);
    int r = read_recording(path, &b);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "the recording %s is larger than %u MiB", path,
                         REPLAY_BYTES_MAX >> 20);
    if (r < 0)
        return error_errno(err, -r, "cannot read the recording %s", path);
    return replay_parse(path, (const char *)b.data, b.len, ret, err);
}

/* Playing one answer. */
struct player {
    const struct model_sink *sink;
    double pace;
    int cancel;
    int64_t began;
    const json_t *pieces; /* or NULL */
    size_t piece;         /* the next of them */
    int64_t ms;           /* when the next piece comes, where they are not recorded */
    json_t *content;      /* what has been told */
};

static int wait_until(const struct player *p, int64_t ms)
{
    if (p->pace <= 0)
        return retry_wait(0, p->cancel);
    double due = (double)ms * p->pace - (double)(clock_now() - p->began) / NS_PER_MS;
    return retry_wait(due <= 0 ? 0 : due > WAIT_MAX ? WAIT_MAX : (int)due, p->cancel);
}

static size_t word_end(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n && text[at] != ' ' && text[at] != '\n')
        at++;
    while (at < n && (text[at] == ' ' || text[at] == '\n'))
        at++;
    return at;
}

/* How much comes next, and when. Recorded pieces that do not fit the text are not believed. */
static size_t next_piece(struct player *p, bool thinking, const char *text, size_t n,
                         int64_t *ret_ms)
{
    const json_t *piece = json_array_get(p->pieces, p->piece);
    const char *kind = json_string_value(json_array_get(piece, 1));
    json_int_t ms = json_integer_value(json_array_get(piece, 0)),
               size = json_integer_value(json_array_get(piece, 2));
    if (kind && strcmp(kind, thinking ? "thinking" : "text") == 0 && size > 0 && ms >= 0 &&
        (uint64_t)size <= n) {
        size_t end = (size_t)size - utf8_cut_end((const uint8_t *)text, (size_t)size);
        p->piece++;
        p->ms = ms;
        *ret_ms = ms;
        return end ? end : (size_t)utf8_character((const uint8_t *)text, n);
    }
    p->ms += WORD_MS;
    *ret_ms = p->ms;
    return word_end(text, n);
}

static int play_text(struct player *p, bool thinking, const char *text, size_t *ret_told)
{
    size_t n = strlen(text), at = 0;
    int r = 0;
    while (at < n) {
        int64_t ms;
        size_t size = next_piece(p, thinking, text + at, n - at, &ms);
        r = wait_until(p, ms);
        if (r < 0)
            break;
        _cleanup_free_ char *piece = strndup(text + at, size);
        if (!piece)
            return -ENOMEM;
        const struct model_event e = {
            .kind = thinking ? MODEL_THINKING : MODEL_TEXT, .text = piece, .n = size};
        p->sink->event(p->sink->data, &e);
        at += size;
    }
    *ret_told = at;
    return r;
}

/* Tells one block. When that is cancelled, what was told of its text is kept, and a call is not. */
static int play_block(struct player *p, json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const char *text = json_string_value(json_object_get(block, "text"));
    if (strcmp(type, "tool_use") == 0) {
        const char *name = json_string_value(json_object_get(block, "name"));
        const struct model_event e = {.kind = MODEL_CALL, .text = name, .n = strlen(name)};
        int r = wait_until(p, p->ms);
        if (r < 0)
            return r;
        p->sink->event(p->sink->data, &e);
        return json_array_append(p->content, block) < 0 ? -ENOMEM : 0;
    }
    bool thinking = strcmp(type, "thinking") == 0;
    size_t told = 0;
    int r = play_text(p, thinking, text ? text : "", &told);
    if (r == 0)
        return json_array_append(p->content, block) < 0 ? -ENOMEM : 0;
    if (r == -ECANCELED && text && !thinking && told)
        json_array_append_new(p->content,
                              json_pack("{s:s,s:s%}", "type", "text", "text", text, told));
    return r;
}

/* A call that was told is not to be run when the rest was cancelled. */
static void drop_calls(json_t *content)
{
    for (size_t i = json_array_size(content); i-- > 0;)
        if (strcmp(json_string_value(json_object_get(json_array_get(content, i), "type")),
                   "tool_use") == 0)
            json_array_remove(content, i);
}

static int play(struct player *p, struct model_reply *reply)
{
    size_t i;
    json_t *block;
    int r = 0;
    json_array_foreach(reply->content, i, block)
    {
        if (r == 0)
            r = play_block(p, block);
    }
    if (r == -ECANCELED) {
        drop_calls(p->content);
        reply->stop = MODEL_END_TURN;
    }
    json_decref(reply->content);
    reply->content = p->content;
    return r;
}

int replay_ask(struct replay *p, const struct model_request *q, double pace,
               const struct model_sink *sink, struct model_reply *ret, struct error *err)
{
    struct model_reply reply;
    size_t n = json_array_size(p->answers);
    const json_t *said = json_array_get(p->answers, p->next);
    if (!said)
        return error_set(
            err, ENODATA,
            "the recording %s ends after %zu answer%s: the conversation has gone on beyond it",
            p->name, n, n == 1 ? "" : "s");
    int r = replay_answer(said, p->next + 1, &reply, err);
    if (r < 0)
        return r;
    p->next++;
    struct player player = {.sink = sink,
                            .pace = pace,
                            .cancel = q->cancel,
                            .began = clock_now(),
                            .pieces = json_object_get(said, "pieces"),
                            .content = json_array()};
    r = player.content ? play(&player, &reply) : -ENOMEM;
    if (r == 0 || r == -ECANCELED)
        *ret = reply;
    else
        model_reply_free(&reply);
    return r < 0 ? error_set(err, -r, r == -ECANCELED ? "cancelled" : "no memory for an answer")
                 : 0;
}
