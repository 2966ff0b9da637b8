/*
 * Replay: a recorded conversation instead of a model (docs/replay.md).
 *
 * The file is a sequence of JSON values (one per line, or however they are laid out), or one array
 * of them, or one object with the member "answers". Each is an answer in its short form
 * ({"thinking", "text", "calls"}, or just a string) or in its full one ({"content", "stop",
 * "usage", "pieces"}). All of it is parsed when it is opened, so that a mistake is reported before
 * anything has happened.
 *
 * Text comes in the pieces that it was recorded in, at their times; without pieces it comes word by
 * word.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "assembly.h"
#include "buf.h"
#include "clock.h"
#include "exchange.h"
#include "io.h"
#include "provider.h"
#include "replay.h"
#include "utf8.h"
#include "banned.h"

#define WORD_MS        20
#define WAIT_MAX_MS    60000
#define ID_BYTES_MAX   256u
#define NAME_BYTES_MAX 256u
#define PACE_MAX       100

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

/* Of a call, beside what every call has (model.h). */
static const char *const CALL_MORE[] = {"bad_input", "raw", "from"};

static bool value_is_text(const json_t *value, size_t max)
{
    return json_is_string(value) && json_string_length(value) <= max;
}

static bool is_call(const json_t *block)
{
    return strcmp(json_string_value(json_object_get(block, "type")), "tool_use") == 0;
}

static int content_append(json_t *content, json_t *block, struct error *err)
{
    return json_array_append_new(content, block) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

/* A tool_use, from {"name", "input", "id"} and whatever else belongs to it. */
static int content_add_call(json_t *content, const json_t *call, size_t number, struct error *err)
{
    const json_t *name = json_object_get(call, "name"), *id = json_object_get(call, "id");
    const json_t *input = json_object_get(call, "input");
    size_t i = json_array_size(content) + 1;
    if (!value_is_text(name, NAME_BYTES_MAX) || json_string_length(name) == 0)
        return error_set(err, EINVAL, "block %zu: a call needs a \"name\"", i);
    if (input && !json_is_object(input))
        return error_set(err, EINVAL, "block %zu: the \"input\" of a call must be an object", i);
    if (id && (!value_is_text(id, ID_BYTES_MAX) || json_string_length(id) == 0))
        return error_set(err, EINVAL, "block %zu: the \"id\" of a call must be a short string", i);
    json_t *block = json_pack("{s:s}", "type", "tool_use");
    json_object_set_new(block, "id",
                        id ? json_copy((json_t *)id) : json_sprintf("call_%zu_%zu", number, i));
    json_object_set_new(block, "name", json_copy((json_t *)name));
    json_object_set_new(block, "input", input ? json_deep_copy(input) : json_object());
    for (size_t k = 0; k < ARRAY_SIZE(CALL_MORE); k++) {
        const json_t *more = json_object_get(call, CALL_MORE[k]);
        if (more)
            json_object_set_new(block, CALL_MORE[k], json_deep_copy(more));
    }
    return content_append(content, block, err);
}

/* A text, a thinking or an other block: copied as it was recorded. */
static int content_add_said(json_t *content, const json_t *block, const char *type,
                            struct error *err)
{
    const json_t *text = json_object_get(block, "text"), *from = json_object_get(block, "from");
    size_t i = json_array_size(content) + 1;
    bool other = strcmp(type, "other") == 0;
    if (from && !json_is_string(from))
        return error_set(err, EINVAL, "block %zu: \"from\" must be a string", i);
    if (!other && !json_is_string(text))
        return error_set(err, EINVAL, "block %zu: \"text\" must be a string", i);
    json_t *copy = json_pack("{s:s}", "type", type);
    json_object_update_missing_new(copy, json_deep_copy(block));
    return content_append(content, copy, err);
}

static int content_add_block(json_t *content, const json_t *block, size_t number, struct error *err)
{
    static const char *const SAID[] = {"text", "thinking", "other"};
    const char *type = json_string_value(json_object_get(block, "type"));
    if (json_array_size(content) >= DECODER_BLOCKS_MAX)
        return error_set(err, EINVAL, "more than %u blocks", DECODER_BLOCKS_MAX);
    if (type && strcmp(type, "tool_use") == 0)
        return content_add_call(content, block, number, err);
    for (size_t i = 0; type && i < ARRAY_SIZE(SAID); i++)
        if (strcmp(type, SAID[i]) == 0)
            return content_add_said(content, block, type, err);
    return error_set(err, EINVAL, "block %zu: its \"type\" must be text, thinking or tool_use",
                     json_array_size(content) + 1);
}

/* An empty text is no block. */
static int content_add_words(json_t *content, const char *type, const json_t *words,
                             struct error *err)
{
    if (json_is_string(words) && json_string_length(words) == 0)
        return 0;
    json_t *block = json_pack("{s:O}", "text", words);
    int r = content_add_said(content, block, type, err);
    json_decref(block);
    return r;
}

/* {"thinking", "text", "calls"}, each of them optional. */
static int content_add_short(json_t *content, const json_t *said, size_t number, struct error *err)
{
    const json_t *thinking = json_object_get(said, "thinking"),
                 *text = json_object_get(said, "text");
    const json_t *calls = json_object_get(said, "calls");
    json_t *call;
    size_t i;
    int r = 0;
    if (!thinking && !text && !calls)
        return error_set(err, EINVAL, "it needs \"text\", \"calls\", \"thinking\" or \"content\"");
    if (calls && (!json_is_array(calls) || json_array_size(calls) > DECODER_BLOCKS_MAX))
        return error_set(err, EINVAL, "\"calls\" must be an array of at most %u calls",
                         DECODER_BLOCKS_MAX);
    if (thinking)
        r = content_add_words(content, "thinking", thinking, err);
    if (r == 0 && text)
        r = content_add_words(content, "text", text, err);
    json_array_foreach(calls, i, call)
    {
        if (r == 0)
            r = content_add_call(content, call, number, err);
    }
    return r;
}

static int content_add_all(json_t *content, const json_t *said, size_t number, struct error *err)
{
    const json_t *blocks = json_object_get(said, "content");
    json_t *block;
    size_t i;
    if (json_is_string(said))
        return content_add_words(content, "text", said, err);
    if (!json_is_object(said))
        return error_set(err, EINVAL, "it must be an object or a string");
    if (!blocks)
        return content_add_short(content, said, number, err);
    if (!json_is_array(blocks))
        return error_set(err, EINVAL, "\"content\" must be an array of blocks");
    json_array_foreach(blocks, i, block)
    {
        int r = content_add_block(content, block, number, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static uint64_t usage_count(const json_t *usage, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(usage, name));
    return n > 0 ? (uint64_t)n : 0;
}

/* `number` (from 1) names calls that have no id. -EINVAL: the text says which block is wrong. */
static int replay_answer(const json_t *said, size_t number, struct model_reply *ret,
                         struct error *err)
{
    const char *model = json_string_value(json_object_get(said, "model"));
    const json_t *stop = json_object_get(said, "stop"), *usage = json_object_get(said, "usage");
    _cleanup_json_ json_t *content = json_array();
    int r = content_add_all(content, said, number, err);
    if (r < 0)
        return r;
    struct model_reply reply = {.stop = MODEL_END_TURN,
                                .usage = {.known = json_is_object(usage),
                                          .input = usage_count(usage, "input"),
                                          .output = usage_count(usage, "output"),
                                          .cache_read = usage_count(usage, "cache_read"),
                                          .cache_write = usage_count(usage, "cache_write"),
                                          .thinking = usage_count(usage, "thinking")}};
    for (size_t i = 0; i < json_array_size(content); i++)
        if (is_call(json_array_get(content, i)))
            reply.stop = MODEL_TOOL_USE;
    if (stop) {
        int k = MODEL_END_TURN;
        while (k <= MODEL_WINDOW_EXCEEDED &&
               !(json_is_string(stop) &&
                 strcmp(json_string_value(stop), model_stop_name((enum model_stop)k)) == 0))
            k++;
        if (k > MODEL_WINDOW_EXCEEDED)
            return error_set(err, EINVAL, "\"stop\" is none of end_turn, tool_use, max_tokens, …");
        reply.stop = (enum model_stop)k;
    }
    if (model && strlen(model) < sizeof reply.model)
        snprintf(reply.model, sizeof reply.model, "%s", model);
    reply.content = TAKE_PTR(content);
    *ret = reply;
    return 0;
}

static size_t text_skip_blank(const char *text, size_t n, size_t at)
{
    while (at < n && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at;
}

/* One value of the sequence: an answer, or a document that holds them all. */
static int replay_take_value(struct replay *p, json_t *value, struct error *err)
{
    json_t *inner = json_is_array(value) ? value : json_object_get(value, "answers");
    int r = inner && !json_is_array(inner)
                ? error_set(err, EINVAL, "%s: \"answers\" must be an array", p->name)
            : inner ? json_array_extend(p->answers, inner)
                    : json_array_append(p->answers, value);
    if (r == -1)
        return error_set(err, ENOMEM, "out of memory for %s", p->name);
    if (r == 0 && json_array_size(p->answers) > REPLAY_ANSWERS_MAX)
        return error_set(err, E2BIG, "%s: more than %u answers", p->name, REPLAY_ANSWERS_MAX);
    return r;
}

static int replay_parse_all(struct replay *p, const char *text, size_t n, struct error *err)
{
    int r = 0;
    for (size_t at = text_skip_blank(text, n, 0); r == 0 && at < n;
         at = text_skip_blank(text, n, at)) {
        json_error_t why;
        json_t *value =
            json_loadb(text + at, n - at, JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &why);
        if (!value) {
            size_t line = why.line > 0 ? (size_t)why.line : 1;
            for (size_t i = 0; i < at; i++)
                line += text[i] == '\n';
            return error_set(err, EINVAL, "%s:%zu: not JSON: %s", p->name, line, why.text);
        }
        at += (size_t)why.position;
        r = replay_take_value(p, value, err);
        json_decref(value);
    }
    return r;
}

static int replay_check_all(const struct replay *p, struct error *err)
{
    size_t i;
    json_t *said;
    if (json_array_size(p->answers) == 0)
        return error_set(err, EINVAL, "%s contains no answer", p->name);
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
        return error_set(err, ENOMEM, "out of memory for %s", name);
    }
    int r = replay_parse_all(p, text, n, err);
    if (r == 0)
        r = replay_check_all(p, err);
    if (r < 0) {
        replay_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

int replay_open(const char *path, struct replay **ret, struct error *err)
{
    struct stat st;
    _cleanup_buf_ struct buf b = BUF_INIT(REPLAY_BYTES_MAX);
    /* A pipe or a device would keep us waiting, or never end. */
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno
            : S_ISDIR(st.st_mode)        ? -EISDIR
            : S_ISREG(st.st_mode)        ? io_read_all(fd, &b)
                                         : -EINVAL;
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
    json_t *content;      /* what was played */
};

static int player_wait(const struct player *p, int64_t ms)
{
    if (p->pace <= 0)
        return retry_wait(0, p->cancel);
    double due = (double)ms * p->pace - (double)(clock_now() - p->began) / NS_PER_MS;
    return retry_wait(due <= 0 ? 0 : due > WAIT_MAX_MS ? WAIT_MAX_MS : (int)due, p->cancel);
}

static size_t text_word_end(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n && text[at] != ' ' && text[at] != '\n')
        at++;
    while (at < n && (text[at] == ' ' || text[at] == '\n'))
        at++;
    return at;
}

/* The size and time of the next piece. Recorded pieces that do not fit the text are ignored. */
static size_t player_next_piece(struct player *p, bool thinking, const char *text, size_t n,
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
    return text_word_end(text, n);
}

static int player_text(struct player *p, bool thinking, const char *text, size_t *ret_played)
{
    size_t n = strlen(text), at = 0;
    int r = 0;
    while (at < n) {
        int64_t ms;
        size_t size = player_next_piece(p, thinking, text + at, n - at, &ms);
        r = player_wait(p, ms);
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
    *ret_played = at;
    return r;
}

/* Plays one block. When cancelled, the played part of a text is kept, and a call is not. */
static int player_block(struct player *p, json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const char *text = json_string_value(json_object_get(block, "text"));
    if (is_call(block)) {
        const char *name = json_string_value(json_object_get(block, "name"));
        const struct model_event e = {.kind = MODEL_CALL, .text = name, .n = strlen(name)};
        int r = player_wait(p, p->ms);
        if (r < 0)
            return r;
        p->sink->event(p->sink->data, &e);
        return json_array_append(p->content, block) < 0 ? -ENOMEM : 0;
    }
    bool thinking = strcmp(type, "thinking") == 0;
    size_t played = 0;
    int r = player_text(p, thinking, text ? text : "", &played);
    if (r == 0)
        return json_array_append(p->content, block) < 0 ? -ENOMEM : 0;
    if (r == -ECANCELED && text && !thinking && played)
        json_array_append_new(p->content,
                              json_pack("{s:s,s:s%}", "type", "text", "text", text, played));
    return r;
}

static int player_run(struct player *p, struct model_reply *reply)
{
    size_t i;
    json_t *block;
    int r = 0;
    json_array_foreach(reply->content, i, block)
    {
        if (r == 0)
            r = player_block(p, block);
    }
    if (r == -ECANCELED) {
        for (size_t k = json_array_size(p->content); k-- > 0;) /* calls are not to be run */
            if (is_call(json_array_get(p->content, k)))
                json_array_remove(p->content, k);
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
        return error_set(err, ENODATA,
                         "the recording %s ends after %zu answer%s, but the conversation continues",
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
    r = player.content ? player_run(&player, &reply) : -ENOMEM;
    if (r == 0 || r == -ECANCELED)
        *ret = reply;
    else
        model_reply_free(&reply);
    return r < 0 ? error_set(err, -r, r == -ECANCELED ? "cancelled" : "out of memory") : 0;
}

static int replay_model_open(const struct model_spec *spec, void **ret, struct error *err)
{
    struct replay *p = NULL;
    int r = replay_open(spec->name, &p, err);
    if (r == 0)
        *ret = p;
    return r;
}

/* HUTCH_REPLAY_PACE: 1 is as it was recorded. At once, unless a person wants to watch. */
static int replay_model_ask(void *state, const struct model_spec *spec,
                            const struct model_request *q, const struct model_sink *sink,
                            struct model_reply *ret, struct error *err)
{
    const char *text = getenv("HUTCH_REPLAY_PACE");
    char *end = NULL;
    double pace = text ? strtod(text, &end) : 0;
    bool is_set = text && end != text && *end == 0 && pace > 0 && pace <= PACE_MAX;
    return replay_ask(state, q, spec->pace > 0 || !is_set ? spec->pace : pace, sink, ret, err);
}

static void replay_model_close(void *state)
{
    replay_free(state);
}

const struct provider PROVIDER_REPLAY = {
    .open = replay_model_open,
    .ask = replay_model_ask,
    .close = replay_model_close,
    .guess = {128000, 16384, {-1, -1, -1, -1, 0, 1, 1}},
    .cache_read_rate = 1,
    .cache_write_rate = 1,
};
