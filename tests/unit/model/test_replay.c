/* Recordings: short and full forms, what is refused, playing, and what a recording keeps. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "io.h"
#include "replay.h"
#include "text.h"

struct heard {
    struct buf log;
    int cancel_after; /* events; -1: never */
    int cancel[2];
};

static void hear(void *data, const struct model_event *e)
{
    static const char KINDS[] = "+~!?<";
    struct heard *h = data;
    assert_int_equal(e->text[e->n], 0);
    buf_printf(&h->log, "%c%s|", KINDS[e->kind], e->text);
    if (h->cancel_after > 0 && --h->cancel_after == 0)
        assert_int_equal(write(h->cancel[1], "x", 1), 1);
}

static struct replay *open_text(const char *text)
{
    struct replay *p = NULL;
    struct error err = {0};
    if (replay_parse("rec", text, strlen(text), &p, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

/* Plays one answer; "events\ncontent\nstop". */
static int play(struct replay *p, int cancel_after, struct buf *ret)
{
    struct heard h = {.log = BUF_INIT(1 << 20), .cancel_after = cancel_after};
    const struct model_sink sink = {.event = hear, .data = &h};
    struct model_reply reply = {0};
    struct error err = {0};
    assert_int_equal(pipe(h.cancel), 0);
    const struct model_request q = {.cancel = h.cancel[0]};
    int r = replay_ask(p, &q, 0, &sink, &reply, &err);
    ret->len = 0;
    if (reply.content) {
        char *content = json_dumps(reply.content, JSON_COMPACT);
        buf_printf(ret, "%s\n%s\n%s", h.log.len ? buf_cstr(&h.log) : "", content,
                   model_stop_name(reply.stop));
        free(content);
    } else {
        buf_append_str(ret, err.text);
    }
    model_reply_free(&reply);
    buf_free(&h.log);
    close(h.cancel[0]);
    close(h.cancel[1]);
    return r;
}

static void test_short_forms(void **state)
{
    _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
    struct replay *p = open_text(
        "\"Hi there\"\n{\"text\":\"Run\",\"calls\":[{\"name\":\"bash\",\"input\":{\"command\":"
        "\"true\"}},{\"name\":\"bash\",\"id\":\"x\"}]}\n{\"thinking\":\"hm\",\"text\":\"done\"}\n");
    assert_int_equal(replay_count(p), 3);
    assert_int_equal(play(p, -1, &got), 0);
    assert_string_equal(buf_cstr(&got),
                        "+Hi |+there|\n[{\"type\":\"text\",\"text\":\"Hi there\"}]\nend_turn");
    assert_int_equal(play(p, -1, &got), 0);
    assert_string_equal(buf_cstr(&got), "+Run|!bash|!bash|\n[{\"type\":\"text\",\"text\":\"Run\"},{"
                                        "\"type\":\"tool_use\",\"id\":\"call_2_2\","
                                        "\"name\":\"bash\",\"input\":{\"command\":\"true\"}},{"
                                        "\"type\":\"tool_use\",\"id\":\"x\",\"name\":"
                                        "\"bash\",\"input\":{}}]\ntool_use");
    assert_int_equal(play(p, -1, &got), 0);
    assert_int_equal(play(p, -1, &got), -ENODATA);
    assert_string_equal(buf_cstr(&got),
                        "the recording rec ends after 3 answers, but the conversation continues");
    replay_free(p);
}

static void test_documents(void **state)
{
    static const char *const SAME[] = {
        "\"a\" \"b\"", "[\"a\",\"b\"]", "{\"answers\":[\"a\",{\"text\":\"b\"}]}",
        "{\n \"text\":\n\"a\"}\n\n{\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}\n"};
    for (size_t i = 0; i < ARRAY_SIZE(SAME); i++) {
        _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
        struct replay *p = open_text(SAME[i]);
        assert_int_equal(replay_count(p), 2);
        play(p, -1, &got);
        play(p, -1, &got);
        assert_string_equal(buf_cstr(&got), "+b|\n[{\"type\":\"text\",\"text\":\"b\"}]\nend_turn");
        replay_free(p);
    }
}

static void expect_refused(const char *text, const char *says)
{
    struct replay *p = NULL;
    struct error err = {0};
    assert_true(replay_parse("rec", text, strlen(text), &p, &err) < 0);
    assert_null(p);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void test_refused(void **state)
{
    expect_refused("", "contains no answer");
    expect_refused("[]", "contains no answer");
    expect_refused("{}", "answer 1: it needs \"text\"");
    expect_refused("\"a\"\n7", "answer 2: it must be an object or a string");
    expect_refused("\"a\"\n\n{\"text\": tru}", "rec:3: not JSON");
    expect_refused("{\"text\":7}", "must be a string");
    expect_refused("{\"calls\":{}}", "must be an array");
    expect_refused("{\"calls\":[{}]}", "needs a \"name\"");
    expect_refused("{\"calls\":[{\"name\":\"x\",\"input\":[]}]}", "must be an object");
    expect_refused("{\"calls\":[{\"name\":\"x\",\"id\":\"\"}]}", "must be a short string");
    expect_refused("{\"content\":[{\"type\":\"image\"}]}", "must be text, thinking or tool_use");
    expect_refused("{\"content\":7}", "must be an array");
    expect_refused("{\"text\":\"a\",\"stop\":\"never\"}", "\"stop\" is none of");
    expect_refused("{\"answers\":7}", "must be an array");
}

static void test_limits(void **state)
{
    _cleanup_buf_ struct buf many = BUF_INIT(8 << 20), deep = BUF_INIT(1 << 20),
                             blocks = BUF_INIT(1 << 20);
    for (unsigned i = 0; i <= REPLAY_ANSWERS_MAX; i++)
        buf_append_str(&many, "\"a\"\n");
    expect_refused(buf_cstr(&many), "more than 100000 answers");
    for (unsigned i = 0; i < 100000; i++)
        buf_append_str(&deep, "[");
    expect_refused(buf_cstr(&deep), "not JSON");
    buf_append_str(&blocks, "{\"content\":[");
    for (unsigned i = 0; i <= 1024; i++)
        buf_append_str(&blocks, i ? ",{\"type\":\"text\",\"text\":\"a\"}"
                                  : "{\"type\":\"text\",\"text\":\"a\"}");
    buf_append_str(&blocks, "]}");
    expect_refused(buf_cstr(&blocks), "more than 1024 blocks");
}

static void test_pieces(void **state)
{
    _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
    struct replay *p = open_text(
        "{\"text\":\"aäb c\",\"pieces\":[[5,\"text\",2],[9,\"text\",1],[9,\"text\",99]]}"
        "{\"text\":\"ab\",\"pieces\":[[-1,\"text\",1],7]}{\"text\":\"ab\",\"pieces\":{}}");
    play(p, -1, &got); /* a piece that ends within a character ends before it */
    assert_string_equal(strtok_r(buf_cstr(&got), "\n", &(char *){NULL}), "+a|+ä|+b |+c|");
    play(p, -1, &got);
    assert_string_equal(strtok_r(buf_cstr(&got), "\n", &(char *){NULL}), "+ab|");
    play(p, -1, &got);
    assert_string_equal(strtok_r(buf_cstr(&got), "\n", &(char *){NULL}), "+ab|");
    replay_free(p);
}

static void test_cancelled(void **state)
{
    _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
    struct replay *p = open_text("{\"text\":\"one two three\",\"calls\":[{\"name\":\"bash\"}]}"
                                 "{\"text\":\"a\",\"calls\":[{\"name\":\"x\"},{\"name\":\"y\"}]}");
    assert_int_equal(play(p, 2, &got), -ECANCELED);
    assert_string_equal(buf_cstr(&got),
                        "+one |+two |\n[{\"type\":\"text\",\"text\":\"one two \"}]\nend_turn");
    assert_int_equal(play(p, 2, &got), -ECANCELED); /* a call that was told is not kept */
    assert_string_equal(buf_cstr(&got), "+a|!x|\n[{\"type\":\"text\",\"text\":\"a\"}]\nend_turn");
    replay_free(p);
}

/* A piece that comes in an hour is waited for, and the wait can be cancelled. */
static void test_pace(void **state)
{
    struct heard h = {.log = BUF_INIT(4096), .cancel_after = 1};
    const struct model_sink sink = {.event = hear, .data = &h};
    struct model_reply reply = {0};
    struct error err = {0};
    struct replay *p =
        open_text("{\"text\":\"ab\",\"pieces\":[[0,\"text\",1],[3600000,\"text\",1]]}");
    assert_int_equal(pipe(h.cancel), 0);
    const struct model_request q = {.cancel = h.cancel[0]};
    assert_int_equal(replay_ask(p, &q, 1, &sink, &reply, &err), -ECANCELED);
    assert_string_equal(buf_cstr(&h.log), "+a|");
    model_reply_free(&reply);
    replay_free(p);
    buf_free(&h.log);
    close(h.cancel[0]);
    close(h.cancel[1]);
}

static void say(struct record *r, enum model_event_kind kind, const char *text)
{
    const struct model_event e = {.kind = kind, .text = text, .n = strlen(text)};
    r->sink.event(r->sink.data, &e);
}

static void test_recorded_and_played(void **state)
{
    char path[] = "/tmp/hutch-record-XXXXXX";
    int fd = mkstemp(path);
    struct heard h = {.log = BUF_INIT(4096)};
    const struct model_sink sink = {.event = hear, .data = &h};
    const struct model_spec spec = {.key = "sk-secret", .record = path};
    struct error err = {0};
    struct record rec;
    json_t *messages =
        json_pack("[{s:s,s:[{s:s,s:s}]}]", "role", "user", "content", "type", "text", "text", "go");
    const struct model_request q = {.messages = messages, .cancel = -1};
    struct model_reply reply = {.content =
                                    json_pack("[{s:s,s:s},{s:s,s:s,s:s,s:{s:s}}]", "type", "text",
                                              "text", "Hello you", "type", "tool_use", "id", "t1",
                                              "name", "bash", "input", "command", "echo sk-secret"),
                                .stop = MODEL_TOOL_USE,
                                .usage = {.known = true, .input = 12, .output = 3},
                                .model = "m-1"};
    record_begin(&rec, &sink);
    say(&rec, MODEL_TEXT, "Hello me");
    const struct model_event back = {.kind = MODEL_BACK, .text = "", .keep = 6};
    rec.sink.event(rec.sink.data, &back);
    say(&rec, MODEL_TEXT, "you");
    assert_int_equal(record_end(&rec, &spec, &q, &reply, false, &err), 0);
    record_free(&rec);

    _cleanup_buf_ struct buf file = BUF_INIT(1 << 20), got = BUF_INIT(1 << 20);
    assert_int_equal(io_read_all(fd, &file), 0);
    assert_null(strstr(buf_cstr(&file), "sk-secret"));
    assert_non_null(strstr(buf_cstr(&file), "\"digest\":\""));
    struct replay *p = NULL;
    assert_int_equal(replay_open(path, &p, &err), 0);
    struct model_reply again = {0};
    h.log.len = 0;
    assert_int_equal(replay_ask(p, &q, 0, &sink, &again, &err), 0);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(again.content, 0), "text")), "Hello you");
    assert_string_equal(json_string_value(json_object_get(json_array_get(again.content, 1), "id")),
                        "t1");
    assert_true(again.usage.known && again.usage.input == 12 && again.usage.output == 3);
    assert_string_equal(again.model, "m-1");
    model_reply_free(&again);
    model_reply_free(&reply);
    replay_free(p);
    json_decref(messages);
    buf_free(&h.log);
    close(fd);
    unlink(path);
}

static void test_files(void **state)
{
    struct replay *p = NULL;
    struct error err = {0};
    assert_int_equal(replay_open("/nonexistent/x", &p, &err), -ENOENT);
    assert_int_equal(replay_open("/tmp", &p, &err), -EISDIR);
    assert_int_equal(replay_open("/dev/zero", &p, &err), -EINVAL);
    assert_int_equal(record_check("/nonexistent/x", &err), -ENOENT);
    assert_non_null(strstr(err.text, "cannot record to /nonexistent/x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_forms),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_recorded_and_played),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
