/*
 * Replay: recording a conversation, and playing it instead of a model (docs/replay.md).
 *
 * The file is a sequence of JSON values (one per line, or however they are laid out), or one array
 * of them, or one object with the member "answers". Each is an answer in its short form
 * ({"thinking", "text", "calls"}, or just a string) or in its full one ({"content", "stop",
 * "usage", "pieces"}). All of it is parsed when it is opened, so that a mistake is reported before
 * anything has happened.
 *
 * `builtin/demo` is a recording that is part of the program: the conversation of `make run`, which
 * works on a copy of share/sample.
 *
 * Text is played in the pieces and at the times that were recorded; without pieces word by word.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "decode.h"
#include "encoding.h"
#include "http.h"
#include "io.h"
#include "json.h"
#include "provider.h"
#include "replay.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define LINE_MAX_BYTES (256u << 20)
#define PIECES_MAX     (1u << 17)
#define TOGETHER_MS    5 /* what comes within this time is one piece */
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

/* The blocks of an answer, in their full form but not checked yet: an array, or NULL with the text
 * set. An empty text of the short form is no block. */
static json_t *answer_blocks(const json_t *said, struct error *err)
{
    static const char *const words[] = {"thinking", "text"};
    json_t *call, *blocks = json_object_get(said, "content");
    const json_t *calls = json_object_get(said, "calls");
    size_t i;
    bool is_short = json_is_object(said) && !blocks;
    const char *problem = NULL;
    if (!json_is_string(said) && !json_is_object(said))
        problem = "it must be an object or a string";
    else if (blocks && !json_is_array(blocks))
        problem = "\"content\" must be an array of blocks";
    else if (is_short && !calls && !json_object_get(said, "text") &&
             !json_object_get(said, "thinking"))
        problem = "it needs \"text\", \"calls\", \"thinking\" or \"content\"";
    else if (is_short && calls && !json_is_array(calls))
        problem = "\"calls\" must be an array of calls";
    if (problem) {
        error_set(err, EINVAL, "%s", problem);
        return NULL;
    }
    if (blocks)
        return json_incref(blocks);
    blocks = json_array();
    for (i = 0; i < ARRAY_SIZE(words); i++) {
        json_t *text = is_short ? json_object_get(said, words[i]) : i == 1 ? (json_t *)said : NULL;
        if (text && !(json_is_string(text) && json_string_length(text) == 0))
            json_array_append_new(blocks, json_pack("{s:s, s:O}", "type", words[i], "text", text));
    }
    json_array_foreach(is_short ? calls : NULL, i, call)
    {
        json_t *block = json_pack("{s:s}", "type", "tool_use");
        json_object_update_missing(block, call);
        json_array_append_new(blocks, block);
    }
    return blocks;
}

/* A copy of block number i. A call of answer `number` without an id gets one. */
static json_t *block_copy(const json_t *block, size_t number, size_t i, struct error *err)
{
    static const char *const members[] = {"id", "name", "input", "bad_input", "raw", "from"};
    const char *type = json_get_string_or(block, "type", "");
    const json_t *name = json_object_get(block, "name"), *id = json_object_get(block, "id");
    const json_t *input = json_object_get(block, "input"), *from = json_object_get(block, "from");
    const char *problem = NULL;
    if (!block_is(block, "tool_use")) {
        bool other = strcmp(type, "other") == 0;
        if (!other && strcmp(type, "text") != 0 && strcmp(type, "thinking") != 0)
            problem = "its \"type\" must be text, thinking or tool_use";
        else if (from && !json_is_string(from))
            problem = "\"from\" must be a string";
        else if (!other && !json_is_string(json_object_get(block, "text")))
            problem = "\"text\" must be a string";
    } else if (json_string_length(name) == 0 || json_string_length(name) > NAME_BYTES_MAX) {
        problem = "a call needs a \"name\"";
    } else if (input && !json_is_object(input)) {
        problem = "the \"input\" of a call must be an object";
    } else if (id && (json_string_length(id) == 0 || json_string_length(id) > ID_BYTES_MAX)) {
        problem = "the \"id\" of a call must be a short string";
    }
    if (problem) {
        error_set(err, EINVAL, "block %zu: %s", i, problem);
        return NULL;
    }
    if (!block_is(block, "tool_use"))
        return json_deep_copy(block);
    json_t *copy = json_pack("{s:s}", "type", "tool_use");
    for (size_t k = 0; k < ARRAY_SIZE(members); k++) {
        const json_t *member = json_object_get(block, members[k]);
        if (member)
            json_object_set_new(copy, members[k], json_deep_copy(member));
        else if (k == 0)
            json_object_set_new(copy, "id", json_sprintf("call_%zu_%zu", number, i));
        else if (k == 2)
            json_object_set_new(copy, "input", json_object());
    }
    return copy;
}

/* `number` (from 1) names calls that have no id. -EINVAL: the text says which block is wrong. */
static int replay_answer(const json_t *said, size_t number, struct model_reply *ret,
                         struct error *err)
{
    const char *model = json_get_string(said, "model");
    const json_t *stop = json_object_get(said, "stop"), *usage = json_object_get(said, "usage");
    json_t *block;
    size_t i;
    _cleanup_json_ json_t *content = json_array(), *blocks = answer_blocks(said, err);
    struct model_reply reply = {.stop = MODEL_END_TURN,
                                .usage = {.known = json_is_object(usage),
                                          .input = decode_count(usage, "input", 0),
                                          .output = decode_count(usage, "output", 0),
                                          .cache_read = decode_count(usage, "cache_read", 0),
                                          .cache_write = decode_count(usage, "cache_write", 0),
                                          .thinking = decode_count(usage, "thinking", 0)}};
    if (!blocks)
        return -EINVAL;
    if (json_array_size(blocks) > DECODER_BLOCKS_MAX)
        return error_set(err, EINVAL, "more than %u blocks", DECODER_BLOCKS_MAX);
    json_array_foreach(blocks, i, block)
    {
        json_t *copy = block_copy(block, number, i + 1, err);
        if (!copy)
            return -EINVAL;
        if (json_array_append_new(content, copy) < 0)
            return error_set(err, ENOMEM, "out of memory");
        if (block_is(copy, "tool_use"))
            reply.stop = MODEL_TOOL_USE;
    }
    if (stop) {
        const char *name = json_string_value(stop);
        int k = MODEL_END_TURN;
        while (k <= MODEL_WINDOW_EXCEEDED &&
               strcmp(name ? name : "", model_stop_name((enum model_stop)k)) != 0)
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

/* Reads the sequence of values: answers, or documents that hold them. */
static int replay_parse_all(struct replay *p, const char *text, size_t n, struct error *err)
{
    for (size_t at = 0; at < n;) {
        if (text[at] && strchr(" \t\r\n", text[at])) {
            at++;
            continue;
        }
        json_error_t why;
        _cleanup_json_ json_t *value =
            json_loadb(text + at, n - at, JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &why);
        if (!value) {
            size_t line = why.line > 0 ? (size_t)why.line : 1;
            for (size_t i = 0; i < at; i++)
                line += text[i] == '\n';
            return error_set(err, EINVAL, "%s:%zu: not JSON: %s", p->name, line, why.text);
        }
        at += (size_t)why.position;
        json_t *inner = json_is_array(value) ? value : json_object_get(value, "answers");
        if (inner && !json_is_array(inner))
            return error_set(err, EINVAL, "%s: \"answers\" must be an array", p->name);
        if ((inner ? json_array_extend(p->answers, inner) : json_array_append(p->answers, value)) <
            0)
            return error_set(err, ENOMEM, "out of memory for %s", p->name);
        if (json_array_size(p->answers) > REPLAY_ANSWERS_MAX)
            return error_set(err, E2BIG, "%s: more than %u answers", p->name, REPLAY_ANSWERS_MAX);
    }
    return json_array_size(p->answers) ? 0
                                       : error_set(err, EINVAL, "%s contains no answer", p->name);
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
    for (size_t i = 0; r == 0 && i < json_array_size(p->answers); i++) {
        _cleanup_reply_ struct model_reply reply = {0};
        struct error inner = {0};
        r = replay_answer(json_array_get(p->answers, i), i + 1, &reply, &inner);
        if (r < 0)
            error_set(err, -r, "%s: answer %zu: %s", p->name, i + 1, inner.text);
    }
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

/* Plays a text in the pieces that were recorded; those that do not fit it are ignored, and it comes
 * word by word. */
static int player_text(struct player *p, bool thinking, const char *text, size_t *ret_played)
{
    size_t n = strlen(text), at = 0;
    int r = 0;
    while (at < n) {
        const json_t *piece = json_array_get(p->pieces, p->piece);
        const char *kind = json_string_value(json_array_get(piece, 1)), *from = text + at;
        json_int_t ms = json_integer_value(json_array_get(piece, 0)),
                   recorded = json_integer_value(json_array_get(piece, 2));
        size_t size = strcspn(from, " \n");
        if (kind && strcmp(kind, thinking ? "thinking" : "text") == 0 && recorded > 0 && ms >= 0 &&
            (uint64_t)recorded <= n - at) {
            p->piece++;
            p->ms = ms;
            size = (size_t)recorded - utf8_cut_end((const uint8_t *)from, (size_t)recorded);
            size = size ? size : utf8_character((const uint8_t *)from, n - at);
        } else {
            p->ms += WORD_MS;
            size += strspn(from + size, " \n");
        }
        r = player_wait(p, p->ms);
        if (r < 0)
            break;
        _cleanup_free_ char *shown = strndup(from, size);
        if (!shown)
            return -ENOMEM;
        const struct model_event e = {
            .kind = thinking ? MODEL_THINKING : MODEL_TEXT, .text = shown, .n = size};
        p->sink->event(p->sink->data, &e);
        at += size;
    }
    *ret_played = at;
    return r;
}

/* Plays one block. When cancelled, the played part of a text is kept, and a call is not. */
static int player_block(struct player *p, json_t *block)
{
    const char *type = json_get_string(block, "type");
    const char *text = json_get_string(block, "text");
    if (block_is(block, "tool_use")) {
        const char *name = json_get_string(block, "name");
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
    r = player.content ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < json_array_size(reply.content); i++)
        r = player_block(&player, json_array_get(reply.content, i));
    if (r == -ECANCELED) {
        for (size_t k = json_array_size(player.content); k-- > 0;) /* calls are not to be run */
            if (block_is(json_array_get(player.content, k), "tool_use"))
                json_array_remove(player.content, k);
        reply.stop = MODEL_END_TURN;
    }
    json_decref(reply.content);
    reply.content = player.content;
    if (r == 0 || r == -ECANCELED)
        *ret = reply;
    else
        model_reply_free(&reply);
    return r < 0 ? error_set(err, -r, r == -ECANCELED ? "cancelled" : "out of memory") : 0;
}

/* A descriptor, or a negative errno with the text set. The file is made if it does not exist. */
static int record_open(const char *path, struct error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    return fd < 0 ? error_errno(err, errno, "cannot record to %s", path) : fd;
}

int record_check(const char *path, struct error *err)
{
    _cleanup_fd_ int fd = record_open(path, err);
    return fd < 0 ? fd : 0;
}

/* Notes a piece as [ms, kind, bytes]. A recording without pieces is played at an even pace, so
 * being out of memory is not a failure. */
static void record_add_piece(struct record *r, const char *kind, size_t n)
{
    json_int_t ms = (clock_now() - r->began) / NS_PER_MS;
    size_t count = json_array_size(r->pieces);
    const json_t *last = count ? json_array_get(r->pieces, count - 1) : NULL;
    if (last && strcmp(json_string_value(json_array_get(last, 1)), kind) == 0 &&
        ms - json_integer_value(json_array_get(last, 0)) < TOGETHER_MS) {
        json_t *bytes = json_array_get(last, 2);
        json_integer_set(bytes, json_integer_value(bytes) + (json_int_t)n);
    } else if (count < PIECES_MAX) {
        json_array_append_new(r->pieces, json_pack("[I, s, I]", ms, kind, (json_int_t)n));
    }
}

/* Only `keep` bytes of one kind are still valid. */
static void record_keep_pieces(struct record *r, const char *kind, size_t keep)
{
    for (size_t i = 0; i < json_array_size(r->pieces);) {
        const json_t *piece = json_array_get(r->pieces, i);
        json_t *bytes = json_array_get(piece, 2);
        size_t n = (size_t)json_integer_value(bytes);
        if (strcmp(json_string_value(json_array_get(piece, 1)), kind) == 0) {
            n = n < keep ? n : keep;
            keep -= n;
            json_integer_set(bytes, (json_int_t)n);
        }
        if (n)
            i++;
        else
            json_array_remove(r->pieces, i);
    }
}

static void record_event(void *data, const struct model_event *e)
{
    struct record *r = data;
    if (e->kind == MODEL_TEXT || e->kind == MODEL_THINKING) {
        record_add_piece(r, e->kind == MODEL_THINKING ? "thinking" : "text", e->n);
    } else if (e->kind == MODEL_BACK) {
        record_keep_pieces(r, "text", e->keep);
        record_keep_pieces(r, "thinking", e->keep_thinking);
    }
    r->next->event(r->next->data, e);
}

void record_begin(struct record *r, const struct model_sink *next)
{
    *r = (struct record){.next = next, .began = clock_now(), .pieces = json_array()};
    r->sink = (struct model_sink){.event = record_event, .data = r};
}

void record_free(struct record *r)
{
    json_decref(r->pieces);
}

static int digest_piece(const char *bytes, size_t n, void *data)
{
    uint64_t *sum = data;
    *sum = digest(*sum, bytes, n);
    return 0;
}

int record_end(struct record *r, const struct model_spec *spec, const struct model_request *q,
               const struct model_reply *reply, bool cut, struct error *err)
{
    const struct model_usage *u = &reply->usage;
    uint64_t sum = DIGEST_BEGIN;
    _cleanup_buf_ struct buf out = BUF_INIT(LINE_MAX_BYTES);
    json_dump_callback(q->messages, digest_piece, &sum,
                       JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    json_t *usage = u->known
                        ? json_pack("{s:I, s:I, s:I, s:I, s:I}", "input", (json_int_t)u->input,
                                    "output", (json_int_t)u->output, "cache_read",
                                    (json_int_t)u->cache_read, "cache_write",
                                    (json_int_t)u->cache_write, "thinking", (json_int_t)u->thinking)
                        : NULL;
    _cleanup_json_ json_t *line =
        json_pack("{s:o, s:I, s:O, s:s, s:o*, s:s*, s:o*, s:O*}", "digest",
                  json_sprintf("%016llx", (unsigned long long)sum), "messages",
                  (json_int_t)json_array_size(q->messages), "content", reply->content, "stop",
                  model_stop_name(reply->stop), "usage", usage, "model",
                  reply->model[0] ? reply->model : NULL, "cut", cut ? json_true() : NULL, "pieces",
                  json_array_size(r->pieces) ? r->pieces : NULL);
    _cleanup_free_ char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;

    /* The key is not recorded, in case a tool's output brought it into the conversation. */
    size_t n = spec->key ? strlen(spec->key) : 0;
    const char *rest = text, *at;
    while (rest && n >= 4 && (at = strstr(rest, spec->key))) {
        buf_append(&out, rest, (size_t)(at - rest));
        buf_append_str(&out, "...");
        rest = at + n;
    }
    if (!rest || buf_append_str(&out, rest) < 0 || buf_append_str(&out, "\n") < 0)
        return error_set(err, ENOMEM, "out of memory");
    _cleanup_fd_ int fd = record_open(spec->record, err);
    int written = fd < 0 ? fd : io_write_all(fd, out.data, out.len);
    if (fd >= 0 && written < 0)
        error_errno(err, -written, "cannot record to %s", spec->record);
    return written;
}

static int replay_model_open(const struct model_spec *spec, void **ret, struct error *err)
{
    struct replay *p = NULL;
    int r = replay_open(spec->name, &p, err);
    if (r == 0)
        *ret = p;
    return r;
}

static int builtin_model_open(const struct model_spec *spec, void **ret, struct error *err)
{
    struct replay *p = NULL;
    if (strcmp(spec->name, "demo") != 0)
        return error_set(err, ENOENT, "no built-in model '%.100s': use builtin/demo", spec->name);
    int r = replay_parse("builtin/demo", DEMO_RECORDING, strlen(DEMO_RECORDING), &p, err);
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

#define REPLAY_ROW(open_function)                                                                  \
    {                                                                                              \
        .open = open_function, .ask = replay_model_ask, .close = replay_model_close,               \
        .guess = {128000, 16384, {-1, -1, -1, -1, 0, 1, 1}}, .cache_read_rate = 1,                 \
        .cache_write_rate = 1,                                                                     \
    }

const struct provider PROVIDER_REPLAY = REPLAY_ROW(replay_model_open);
const struct provider PROVIDER_BUILTIN = REPLAY_ROW(builtin_model_open);
