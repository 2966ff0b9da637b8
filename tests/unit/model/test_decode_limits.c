/* What a stream can make a decoder keep; JSON of strangers; the words of errors. */
#include "decode_run.h"
#include "decode.h"
#include "http.h"

static void test_blocks(void **state)
{
    RUN(run, &PROVIDER_ANTHROPIC, "{'type':'message_start','message':{}}");
    assert_int_equal(run_r, 0);
    for (int i = 0; i < DECODER_BLOCKS_MAX; i++)
        assert_int_equal(
            run_take(&run,
                     "{'type':'content_block_start','index':0,'content_block':{'type':'text'}}"),
            0);
    assert_int_equal(
        run_take(&run, "{'type':'content_block_start','index':0,'content_block':{'type':'text'}}"),
        -E2BIG);
    assert_false(run.trouble.retry);
    RUN(calls, &PROVIDER_OPENAI_CHAT, "{}");
    assert_int_equal(calls_r, 0);
    for (int i = 0; i < DECODER_BLOCKS_MAX; i++) {
        char event[200];
        snprintf(event, sizeof event,
                 "{'choices':[{'delta':{'tool_calls':[{'index':0,'id':'%d','function':{'name':'x'}}"
                 "]}}]}",
                 i);
        assert_int_equal(run_take(&calls, event), 0);
    }
    assert_int_equal(run_take(&calls, "{'choices':[{'delta':{'tool_calls':[{'index':0,'id':'x','"
                                      "function':{'name':'x'}}]}}]}"),
                     -E2BIG);
}

#define MIB (1u << 20)

/* An event with a MiB of one byte, n times; the answer to the last. */
static int take_much(struct run *run, const char *before, char fill, const char *after, int n)
{
    _cleanup_buf_ struct buf event = BUF_INIT(2 * MIB);
    buf_append_str(&event, before);
    memset(buf_reserve(&event, MIB), fill, MIB);
    event.len += MIB;
    buf_append_str(&event, after);
    _cleanup_free_ char *data = quoted(buf_cstr(&event), '\'', '"');
    int r = 0;
    for (int i = 0; i < n && r == 0; i++)
        r = run_bytes(run, "message", data, strlen(data));
    return r;
}

static void ignore(void *data, const struct model_event *e) {}

static void begin_quiet(struct run *run, const struct provider *api)
{
    static const struct model_sink QUIET = {.event = ignore};
    *run = (struct run){.shown = BUF_INIT(16)};
    assert_int_equal(decoder_new(api->decoder, "p/m", &QUIET, &run->d), 0);
}

static void expect_much(const struct provider *api, const char *first, const char *before,
                        const char *after)
{
    _cleanup_run_ struct run run;
    begin_quiet(&run, api);
    assert_int_equal(run_take(&run, first), 0);
    assert_int_equal(take_much(&run, before, 'x', after, (DECODER_BYTES_MAX >> 20) - 1), 0);
    assert_int_equal(take_much(&run, before, 'x', after, 2), -EFBIG);
    assert_int_equal(run.err.code, EFBIG);
    assert_false(run.trouble.retry);
}

static void test_bytes(void **state)
{
    expect_much(&PROVIDER_OPENAI_CHAT, "{}", "{'choices':[{'delta':{'content':'", "'}}]}");
    expect_much(&PROVIDER_OPENAI_CHAT, "{}",
                "{'choices':[{'delta':{'tool_calls':[{'index':0,'function':{'arguments':'",
                "'}}]}}]}");
    expect_much(
        &PROVIDER_ANTHROPIC,
        "{'type':'content_block_start','index':0,'content_block':{'type':'thinking','thinking':''}"
        "}",
        "{'type':'content_block_delta','index':0,'delta':{'type':'thinking_delta','thinking':'",
        "'}}");
    expect_much(&PROVIDER_OPENAI_RESPONSES, "{}",
                "{'type':'response.output_text.delta','output_index':0,'delta':'", "'}");
}

/* Values that are kept cost what their event took. */
static void test_kept_values(void **state)
{
    _cleanup_run_ struct run run;
    begin_quiet(&run, &PROVIDER_OPENAI_RESPONSES);
    assert_int_equal(
        take_much(&run,
                  "{'type':'response.output_item.done','output_index':0,'item':{'type':'new','x':'",
                  'x', "'}}", 100),
        -EFBIG);
}

static void test_values(void **state)
{
    _cleanup_run_ struct run run;
    begin_quiet(&run, &PROVIDER_OPENAI_CHAT);
    assert_int_equal(take_much(&run, "{'x':[0", ',', "0]}", 1), -E2BIG);
    _cleanup_buf_ struct buf deep = BUF_INIT(MIB);
    for (int i = 0; i < 100000; i++)
        buf_append_str(&deep, "[");
    assert_int_equal(run_bytes(&run, "message", (char *)deep.data, deep.len), -EPROTO);
}

/* The document's string `s`, mended and settled. */
static void expect_text(const char *json, const char *want)
{
    struct lenient_json l;
    assert_int_equal(lenient_json_parse(json, strlen(json), &l), 0);
    _cleanup_json_ json_t *value = l.value;
    _cleanup_json_ json_t *settled = lenient_json_settle(value, l.mended);
    assert_string_equal(json_string_value(json_object_get(settled, "s")), want);
}

#define BAD "\xef\xbf\xbd"

static void test_loose(void **state)
{
    expect_text("{\"s\":\"a\\ud83d\\ude00b\"}", "a😀b");
    expect_text("{\"s\":\"a\\ud83db\"}", "a" BAD "b");
    expect_text("{\"s\":\"\\ude00\\ud83d\"}", BAD BAD);
    expect_text("{\"s\":\"\\ud83d\\ud83d\\ude00\"}", BAD "😀");
    expect_text("{\"s\":\"\\\\ud83d\xff\"}", "\\ud83d" BAD);
    expect_text("{\"s\":\"\xe2\x82\"}", BAD);
    expect_text("{\"s\":\"\xe2\x82z\xc0\x80\"}", BAD "z" BAD BAD);
    expect_text("{\"s\":\"\xed\xa0\xbd\xed\xb8\x80\"}", "😀");
    expect_text("{\"s\":\"\xed\xa0"
                "A\xed\xb8\x80\"}",
                BAD BAD "A" BAD);
    expect_text("{\"t\":\"\xff\",\"s\":\"\\n\\\"\"}", "\n\"");
    struct lenient_json l;
    static const char *const NO_JSON[] = {"",     "{",    "{\"s\":\"\\ud83\"}", "{\"s\":\"\\u\"}",
                                          "\"\\", "\xff", "{\"s\":1}x"};
    for (size_t i = 0; i < ARRAY_SIZE(NO_JSON); i++)
        assert_int_equal(lenient_json_parse(NO_JSON[i], strlen(NO_JSON[i]), &l), -EBADMSG);
    static const char BIG[] = "{\"n\":123456789012345678901234567890}";
    assert_int_equal(lenient_json_parse(BIG, strlen(BIG), &l), 0);
    assert_true(json_is_real(json_object_get(l.value, "n")));
    json_decref(l.value);
}

static void test_broken_bytes(void **state)
{
    static const char TEXT[] = "a\xf0\x9f\x98\x80\xed\xa0\xbd\xed\xb8\x80z\xff\xe2\x82";
    _cleanup_buf_ struct buf out = BUF_INIT(100);
    struct utf8_pieces b = {.n = 0};
    for (size_t i = 0; i < sizeof TEXT - 1; i++)
        utf8_pieces_byte(&b, (uint8_t)TEXT[i], &out);
    utf8_pieces_end(&b, &out);
    assert_string_equal(buf_cstr(&out), "a😀😀z" BAD BAD);
}

static void test_delays(void **state)
{
    assert_int_equal(provider_error_delay_ms("Please try again in 1.3s."), 1300);
    assert_int_equal(provider_error_delay_ms("please TRY AGAIN IN 28ms"), 28);
    assert_int_equal(provider_error_delay_ms("try again in 1m2.5s"), 62500);
    assert_int_equal(provider_error_delay_ms("try again in 2h"), 7200000);
    assert_int_equal(provider_error_delay_ms("retry after 20 seconds"), 20000);
    assert_int_equal(provider_error_delay_ms("Retry in 3 minutes, or else"), 180000);
    assert_int_equal(provider_error_delay_ms("retry in 500 milliseconds"), 500);
    assert_int_equal(provider_error_delay_ms("try again in 99999999999h"), 24LL * 3600 * 1000);
    assert_int_equal(provider_error_delay_ms("try again in a while"), -1);
    assert_int_equal(provider_error_delay_ms("try again in 5"), -1);
    assert_int_equal(provider_error_delay_ms("try again in 5 x"), -1);
    assert_int_equal(provider_error_delay_ms(""), -1);
}

/* Nothing of what a provider says moves a terminal's cursor. */
static void test_error_text(void **state)
{
    RUN(run, &PROVIDER_OPENAI_CHAT,
        "{'error':{'message':'one\\u001b[2J\\ntwo \\u202e\xff','type':'server_error'}}");
    assert_int_equal(run_r, -EIO);
    assert_string_equal(run.err.text, "the provider says: one [2J two " BAD " (server_error)");
}

/* A model's name ends with a character, however long it is. */
static void test_model_name(void **state)
{
    char event[600] = "{'model':'a";
    for (int i = 0; i < 100; i++)
        memcpy(event + 11 + 3 * i, "\xe2\x82\xac", 4);
    snprintf(event + 311, sizeof event - 311, "','choices':[{'delta':{},'finish_reason':'stop'}]}");
    RUN(run, &PROVIDER_OPENAI_CHAT, event);
    assert_int_equal(run_r, 0);
    run_expect(&run, "[]", MODEL_END_TURN);
    assert_int_equal(strlen(run.reply.model), 1 + 42 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),      cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_kept_values), cmocka_unit_test(test_values),
        cmocka_unit_test(test_loose),       cmocka_unit_test(test_broken_bytes),
        cmocka_unit_test(test_delays),      cmocka_unit_test(test_error_text),
        cmocka_unit_test(test_model_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
