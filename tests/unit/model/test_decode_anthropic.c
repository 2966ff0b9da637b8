/* The Messages API's decoder. */
#include "decode_run.h"

#define A &PROVIDER_ANTHROPIC
#define START                                                                                      \
    "{'type':'message_start','message':{'id':'m1','model':'claude-x','usage':{'input_tokens':3,'"  \
    "output_"                                                                                      \
    "tokens':1}}}"
#define STOP(why)                                                                                  \
    "{'type':'message_delta','delta':{'stop_reason':'" why "'},'usage':{'output_tokens':9}}"
#define END             "{'type':'message_stop'}"
#define BLOCK(i, block) "{'type':'content_block_start','index':" #i ",'content_block':" block "}"
#define DELTA(i, delta) "{'type':'content_block_delta','index':" #i ",'delta':" delta "}"
#define BLOCK_END(i)    "{'type':'content_block_stop','index':" #i "}"
#define TEXT(i, text)   DELTA(i, "{'type':'text_delta','text':'" text "'}")
#define TOOL(i, id)     BLOCK(i, "{'type':'tool_use','id':'" id "','name':'bash','input':{}}")
#define INPUT(i, json)  DELTA(i, "{'type':'input_json_delta','partial_json':'" json "'}")

static void test_text(void **state)
{
    RUN(run, A, "{'type':'ping'}", START, BLOCK(0, "{'type':'text','text':''}"), "{'type':'ping'}",
        TEXT(0, "Hel"), "{'type':'new_thing','x':1}", TEXT(0, "lo"), BLOCK_END(0), STOP("end_turn"),
        END);
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "T(Hel)T(lo)");
    run_expect(&run, "[{'type':'text','text':'Hello'}]", MODEL_END_TURN);
    assert_string_equal(run.reply.model, "claude-x");
    assert_true(run.reply.usage.known);
    assert_int_equal(run.reply.usage.input, 3);
    assert_int_equal(run.reply.usage.output, 9);
}

/* The type of a stream's event serves where the data does not name one. */
static void test_type_of_stream(void **state)
{
    _cleanup_run_ struct run run;
    run_begin(&run, A);
    assert_int_equal(run_bytes(&run, "message_start", "{}", 2), 0);
    assert_int_equal(run_bytes(&run, "message_stop", "{}", 2), 1);
    run_expect(&run, "[]", MODEL_END_TURN);
}

static void test_input(void **state)
{
    RUN(run, A, START, TOOL(0, "t1"), INPUT(0, ""), INPUT(0, "{\\'a\\'"), INPUT(0, ": [1, 2]}"),
        BLOCK_END(0), TOOL(1, "t2"), BLOCK_END(1), TOOL(2, "t3"), INPUT(2, "{\\'a"), BLOCK_END(2),
        BLOCK(3, "{'type':'tool_use','id':'t4','name':'read','input':{'b':true}}"), BLOCK_END(3),
        STOP("tool_use"), END);
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "C(bash)C(bash)C(bash)C(read)");
    run_expect(&run,
               "[{'type':'tool_use','id':'t1','name':'bash','input':{'a':[1,2]}},"
               "{'type':'tool_use','id':'t2','name':'bash','input':{}},"
               "{'type':'tool_use','id':'t3','name':'bash','input':{},'bad_input':'{\\'a'},"
               "{'type':'tool_use','id':'t4','name':'read','input':{'b':true}}]",
               MODEL_TOOL_USE);
}

static void test_thinking(void **state)
{
    RUN(run, A, START, BLOCK(0, "{'type':'thinking','thinking':'','signature':''}"),
        DELTA(0, "{'type':'thinking_delta','thinking':'I '}"),
        DELTA(0, "{'type':'thinking_delta','thinking':'see'}"),
        DELTA(0, "{'type':'signature_delta','signature':'old'}"),
        DELTA(0, "{'type':'signature_delta','signature':'s=='}"), BLOCK_END(0),
        BLOCK(1, "{'type':'redacted_thinking','data':'xyz'}"), BLOCK_END(1), STOP("end_turn"), END);
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "H(I )H(see)");
    run_expect(&run,
               "[{'type':'thinking','from':'p/m','text':'I "
               "see','raw':{'type':'thinking','thinking':'I see',"
               "'signature':'s=='}},{'type':'thinking','from':'p/"
               "m','text':'','raw':{'type':'redacted_thinking',"
               "'data':'xyz'}}]",
               MODEL_END_TURN);
}

static void test_citations_and_others(void **state)
{
    RUN(run, A, START,
        BLOCK(0, "{'type':'server_tool_use','id':'s1','name':'web_search','input':{}}"),
        INPUT(0, "{\\'query\\': \\'x\\'}"), BLOCK_END(0),
        BLOCK(1, "{'type':'web_search_tool_result','tool_use_id':'s1','content':[{'url':'u'}]}"),
        BLOCK_END(1), BLOCK(2, "{'type':'text','text':'','citations':[]}"), TEXT(2, "so"),
        DELTA(2, "{'type':'citations_delta','citation':{'type':'c','n':1}}"),
        DELTA(2, "{'type':'citations_delta','citation':{'type':'c','n':2}}"), BLOCK_END(2),
        BLOCK(3, "{'type':'compaction','content':'a'}"),
        DELTA(3, "{'type':'compaction_delta','content':'b'}"), STOP("pause_turn"), END);
    assert_int_equal(run_r, 1);
    run_expect(
        &run,
        "[{'type':'other','from':'p/"
        "m','raw':{'type':'server_tool_use','id':'s1','name':'web_search',"
        "'input':{'query':'x'}}},"
        "{'type':'other','from':'p/m','raw':{'type':'web_search_tool_result','tool_use_id':'s1',"
        "'content':[{'url':'u'}]}},"
        "{'type':'text','text':'so','from':'p/"
        "m','citations':[{'type':'c','n':1},{'type':'c','n':2}]},"
        "{'type':'other','from':'p/m','raw':{'type':'compaction','content':'ab'}}]",
        MODEL_PAUSE_TURN);
}

static void test_stop_reasons(void **state)
{
    static const struct {
        const char *event;
        enum model_stop stop;
    } REASONS[] = {
        {STOP("end_turn"), MODEL_END_TURN},
        {STOP("max_tokens"), MODEL_MAX_TOKENS},
        {STOP("stop_sequence"), MODEL_STOP_SEQUENCE},
        {STOP("pause_turn"), MODEL_PAUSE_TURN},
        {STOP("refusal"), MODEL_REFUSAL},
        {STOP("model_context_window_exceeded"), MODEL_WINDOW_EXCEEDED},
        {STOP("something_new"), MODEL_END_TURN},
        {STOP("tool_use"), MODEL_END_TURN}, /* but there was no call */
    };
    for (size_t i = 0; i < ARRAY_SIZE(REASONS); i++) {
        RUN(run, A, START, REASONS[i].event, END);
        assert_int_equal(run_r, 1);
        run_expect(&run, "[]", REASONS[i].stop);
    }
    RUN(run, A, START, TOOL(0, "t"), STOP("end_turn"), END);
    assert_int_equal(run_r, 1);
    run_expect(&run, "[{'type':'tool_use','id':'t','name':'bash','input':{}}]", MODEL_TOOL_USE);
}

static void test_usage(void **state)
{
    RUN(run, A,
        "{'type':'message_start','message':{'usage':{'input_tokens':5,'cache_creation_input_tokens'"
        ":10,"
        "'cache_read_input_tokens':100,'output_tokens':1}}}",
        "{'type':'message_delta','delta':{'stop_reason':null},'usage':{'output_tokens':20}}",
        "{'type':'message_delta','delta':{'stop_reason':'end_turn'},'usage':{'input_tokens':7,'"
        "output_tokens'"
        ":30,"
        "'cache_read_input_tokens':null,'cache_creation_input_tokens':-5}}",
        END);
    assert_int_equal(run_r, 1);
    run_expect(&run, "[]", MODEL_END_TURN);
    assert_int_equal(run.reply.usage.input, 117);
    assert_int_equal(run.reply.usage.cache_read, 100);
    assert_int_equal(run.reply.usage.cache_write, 10);
    assert_int_equal(run.reply.usage.output, 30);
}

static void expect_error(const char *event, int code, bool retry, int64_t ms)
{
    RUN(run, A, START, event);
    assert_int_equal(run_r, -code);
    assert_int_equal(run.err.code, code);
    assert_int_equal(run.trouble.retry, retry);
    assert_int_equal(run.trouble.after_ms, ms);
}

#define ERROR(type, message) "{'type':'error','error':{'type':'" type "','message':'" message "'}}"

static void test_errors(void **state)
{
    expect_error(ERROR("overloaded_error", "Overloaded"), EIO, true, -1);
    expect_error(ERROR("rate_limit_error", "Please try again in 1.3s."), EBUSY, true, 1300);
    expect_error(ERROR("api_error", "Internal server error"), EIO, true, -1);
    expect_error(ERROR("timeout_error", ""), EIO, true, -1);
    expect_error(ERROR("invalid_request_error", "bad"), EINVAL, false, -1);
    expect_error(
        ERROR("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        EMSGSIZE, false, -1);
    expect_error(ERROR("authentication_error", "invalid x-api-key"), EACCES, false, -1);
    expect_error(ERROR("permission_error", ""), EACCES, false, -1);
    expect_error(ERROR("not_found_error", "model: x"), ENOENT, false, -1);
    expect_error("{'type':'error'}", EIO, true, -1);
    expect_error("nonsense", EPROTO, true, -1);
    expect_error("[1]", EPROTO, true, -1);
}

static void test_early_end(void **state)
{
    RUN(run, A, START, BLOCK(0, "{'type':'text','text':''}"), TEXT(0, "half"));
    assert_int_equal(run_r, 0);
    assert_int_equal(run_finish(&run, false), -EPIPE);
    RUN(cut, A, START, BLOCK(0, "{'type':'thinking','thinking':''}"),
        DELTA(0, "{'type':'thinking_delta','thinking':'hm'}"), TOOL(1, "t"), BLOCK_END(1),
        BLOCK(2, "{'type':'server_tool_use','id':'s','name':'n','input':{}}"), BLOCK_END(2),
        BLOCK(3, "{'type':'text','text':''}"), TEXT(3, "half"));
    assert_int_equal(cut_r, 0);
    assert_int_equal(run_finish(&cut, true), 0);
    assert_string_equal(
        cut.content,
        "[{'type':'thinking','from':'p/m','text':'hm'},{'type':'text','text':'half'}]");
    assert_int_equal(cut.reply.stop, MODEL_END_TURN);
    RUN(reason, A, START, BLOCK(0, "{'type':'text','text':'all'}"), STOP("end_turn"));
    assert_int_equal(reason_r, 0);
    run_expect(&reason, "[{'type':'text','text':'all'}]", MODEL_END_TURN);
}

/* Indices that repeat, jump or were never begun. */
static void test_strange_indices(void **state)
{
    RUN(run, A, START, TEXT(5, "nobody"), BLOCK_END(-1), BLOCK(7, "{'type':'text','text':'a'}"),
        BLOCK(7, "{'type':'text','text':'b'}"), TEXT(7, "c"), BLOCK_END(7), TEXT(7, "late"),
        BLOCK_END(7), BLOCK(-3, "{'type':'text','text':'d'}"), BLOCK(1, "null"), DELTA(-3, "null"),
        DELTA(-3, "{'type':'text_delta','text':7}"), STOP("end_turn"), END);
    assert_int_equal(run_r, 1);
    run_expect(
        &run, "[{'type':'text','text':'a'},{'type':'text','text':'bc'},{'type':'text','text':'d'}]",
        MODEL_END_TURN);
}

static void test_characters_in_pieces(void **state)
{
    static const char *const HALVES[2][2] = {
        {"\\ud83d", "\\ude00!"},   /* surrogates */
        {"\xf0\x9f", "\x98\x80!"}, /* bytes */
    };
    for (size_t i = 0; i < 2; i++) {
        char first[200], second[200];
        snprintf(first, sizeof first, TEXT(0, "%s"), HALVES[i][0]);
        snprintf(second, sizeof second, TEXT(0, "%s"), HALVES[i][1]);
        RUN(run, A, START, BLOCK(0, "{'type':'text','text':''}"), first, second, STOP("end_turn"),
            END);
        assert_int_equal(run_r, 1);
        assert_string_equal(SHOWN(run), "T(😀!)");
        run_expect(&run, "[{'type':'text','text':'😀!'}]", MODEL_END_TURN);
    }
    RUN(lone, A, START, BLOCK(0, "{'type':'text','text':''}"), TEXT(0, "a\\ud83d"),
        TEXT(0, "b\\udc00\xff"), TEXT(0, "c\\u0000\\ud83d"), BLOCK_END(0), STOP("end_turn"), END);
    assert_int_equal(lone_r, 1);
    assert_string_equal(SHOWN(lone), "T(a)T(\xef\xbf\xbd"
                                     "b\xef\xbf\xbd\xef\xbf\xbd)T(c\xef\xbf\xbd)T(\xef\xbf\xbd)");
}

static void test_whole(void **state)
{
    _cleanup_run_ struct run run;
    run_begin(&run, A);
    assert_int_equal(
        run_whole(&run, "{'type':'message','model':'m','content':[{'type':'text','text':'hi'},{'"
                        "type':'tool_use',"
                        "'id':'t','name':'n','input':{'a':1}},{'type':'thinking','thinking':'x','"
                        "signature':'s'}],"
                        "'stop_reason':'tool_use','usage':{'input_tokens':1,'output_tokens':2}}"),
        1);
    assert_string_equal(SHOWN(run), "T(hi)C(n)H(x)");
    run_expect(
        &run,
        "[{'type':'text','text':'hi'},{'type':'tool_use','id':'t','name':'n','input':{'a':1}},"
        "{'type':'thinking','from':'p/"
        "m','text':'x','raw':{'type':'thinking','thinking':'x','signature':'s'}}]",
        MODEL_TOOL_USE);
    _cleanup_run_ struct run bad;
    run_begin(&bad, A);
    assert_int_equal(run_whole(&bad, ERROR("overloaded_error", "Overloaded")), -EIO);
    assert_true(bad.trouble.retry);
    assert_int_equal(run_whole(&bad, "{'type':'message'}"), -EPROTO);
    assert_int_equal(run_whole(&bad, "<html>"), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_type_of_stream),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_citations_and_others),
        cmocka_unit_test(test_stop_reasons),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_early_end),
        cmocka_unit_test(test_strange_indices),
        cmocka_unit_test(test_characters_in_pieces),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
