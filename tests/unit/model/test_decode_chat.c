/* The decoder of Chat Completions: the protocol, and what compatible servers make of it. */
#include "decode_run.h"

#define C &PROVIDER_OPENAI_CHAT
#define DELTA(delta)                                                                               \
    "{'id':'c1','model':'gpt-x','choices':[{'index':0,'delta':" delta ",'finish_reason':null}]}"
#define STOP(why)            "{'choices':[{'index':0,'delta':{},'finish_reason':'" why "'}]}"
#define CALLS(list)          DELTA("{'tool_calls':[" list "]}")
#define DONE                 "[DONE]"
#define USE(id, name, input) "{'type':'tool_use','id':'" id "','name':'" name "','input':" input "}"

static void test_text(void **state)
{
    RUN(run, C, DELTA("{'role':'assistant','content':''}"), DELTA("{'content':'Hel'}"),
        DELTA("null"), DELTA("{'content':null}"), DELTA("{'content':'lo'}"), STOP("stop"),
        "{'choices':[],'usage':{'prompt_tokens':12,'completion_tokens':5,'prompt_tokens_details':"
        "{'cached_tokens':8},'completion_tokens_details':{'reasoning_tokens':2}}}",
        DONE);
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "T(Hel)T(lo)");
    run_expect(&run, "[{'type':'text','text':'Hello'}]", MODEL_END_TURN);
    assert_string_equal(run.reply.model, "gpt-x");
    assert_int_equal(run.reply.usage.input, 12);
    assert_int_equal(run.reply.usage.output, 5);
    assert_int_equal(run.reply.usage.cache_read, 8);
    assert_int_equal(run.reply.usage.thinking, 2);
}

static void test_calls(void **state)
{
    RUN(run, C, DELTA("{'content':'ok'}"),
        CALLS("{'index':0,'id':'a','type':'function','function':{'name':'bash','arguments':''}}"),
        CALLS("{'index':0,'function':{'arguments':'{\\'c\\':'}}"),
        CALLS("{'index':1,'id':'b','function':{'name':'read','arguments':''}}"),
        CALLS("{'index':0,'function':{'arguments':'1}'}},{'index':1,'function':{'arguments':''}}"),
        STOP("tool_calls"), DONE);
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "T(ok)C(bash)C(read)");
    run_expect(
        &run,
        "[{'type':'text','text':'ok'}," USE("a", "bash", "{'c':1}") "," USE("b", "read", "{}") "]",
        MODEL_TOOL_USE);
}

/* What came of the calls, as a list; ids that were made up are shown as ?. */
static void expect_calls(const char *const *events, const char *want)
{
    _cleanup_run_ struct run run;
    run_begin(&run, C);
    assert_int_equal(run_all(&run, events), 1);
    assert_int_equal(run_finish(&run, false), 0);
    assert_int_equal(run.reply.stop, MODEL_TOOL_USE);
    _cleanup_buf_ struct buf got = BUF_INIT(4096);
    json_t *block;
    size_t i;
    json_array_foreach(run.reply.content, i, block)
    {
        const char *id = json_string_value(json_object_get(block, "id"));
        const char *bad = json_string_value(json_object_get(block, "bad_input"));
        _cleanup_free_ char *input = json_dumps(json_object_get(block, "input"), JSON_COMPACT);
        bool made_up = strlen(id) == 21 && strncmp(id, "call_", 5) == 0;
        buf_printf(&got, "%s:%s%s%s;", made_up ? "?" : id,
                   json_string_value(json_object_get(block, "name")), input, bad ? bad : "");
    }
    _cleanup_free_ char *expected = quoted(want, '\'', '"');
    assert_string_equal(got.len ? buf_cstr(&got) : "", expected);
}

#define EXPECT_CALLS(want, ...)                                                                    \
    expect_calls((const char *const[]){__VA_ARGS__, STOP("stop"), DONE, NULL}, want)

static void test_quirks(void **state)
{
    /* Index 0 for each, with ids. */
    EXPECT_CALLS("a:x{};b:x{'k':1};",
                 CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':'{}'}}"),
                 CALLS("{'index':0,'id':'b','function':{'name':'x','arguments':'{\\'k\\':1}'}}"));
    /* The same without ids, and with the name again in every piece. */
    EXPECT_CALLS("?:x{'k':1};?:x{'k':2};",
                 CALLS("{'index':0,'function':{'name':'x','arguments':'{\\'k\\':'}}"),
                 CALLS("{'index':0,'function':{'name':'x','arguments':'1}'}}"),
                 CALLS("{'index':0,'function':{'name':'x','arguments':'{\\'k\\':2}'}}"));
    EXPECT_CALLS("?:x{};?:y{};", CALLS("{'index':0,'function':{'name':'x','arguments':''}}"),
                 CALLS("{'index':0,'function':{'name':'y','arguments':''}}"));
    /* Id and name in every piece. */
    EXPECT_CALLS("a:x{'k':1};",
                 CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':'{\\'k\\':'}}"),
                 CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':'1}'}}"));
    /* No index: two whole calls in one delta; one in pieces. */
    EXPECT_CALLS("a:x{};b:y{};", CALLS("{'id':'a','function':{'name':'x','arguments':'{}'}},"
                                       "{'id':'b','function':{'name':'y','arguments':'{}'}}"));
    EXPECT_CALLS("?:x{'k':1};", CALLS("{'function':{'name':'x','arguments':'{\\'k\\''}}"),
                 CALLS("{'function':{'arguments':':1}'}}"));
    /* Arguments that are no text, or a text in a text, or nothing. */
    EXPECT_CALLS("a:x{'k':1};",
                 CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':{'k':1}}}"));
    EXPECT_CALLS("a:x{'k':1};", CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':'\\'{"
                                      "\\\\\\'k\\\\\\':1}\\''}}"));
    EXPECT_CALLS("a:x{};", CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':null}}"));
    EXPECT_CALLS("a:x{};",
                 CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':'null'}}"));
    EXPECT_CALLS("a:x{}[1];",
                 CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':'[1]'}}"));
    /* The same id for two calls. */
    EXPECT_CALLS("a:x{};?:y{};", CALLS("{'index':0,'id':'a','function':{'name':'x'}},{'index':1,'"
                                       "id':'a','function':{'name':'y'}}"));
    /* From before there were several. */
    EXPECT_CALLS("?:x{'k':1};", DELTA("{'function_call':{'name':'x','arguments':'{\\'k\\''}}"),
                 DELTA("{'function_call':{'arguments':':1}'}}"));
    /* Calls are in the order of their indices, whichever came first. */
    EXPECT_CALLS("a:x{};b:y{};", CALLS("{'index':1,'id':'b','function':{'name':'y'}}"),
                 CALLS("{'index':0,'id':'a','function':{'name':'x'}}"));
    /* Nonsense among the list is passed over. */
    EXPECT_CALLS("a:x{};", CALLS("null,7,{'index':-9,'id':'a','function':{'name':'x'}},{'index':"
                                 "99999999999,'function':null}"));
}

static void test_made_up_ids_differ(void **state)
{
    RUN(one, C, CALLS("{'index':0,'function':{'name':'x'}},{'index':1,'function':{'name':'x'}}"),
        STOP("stop"), DONE);
    RUN(two, C, "{'id':'other','choices':[]}", CALLS("{'index':0,'function':{'name':'x'}}"),
        STOP("stop"), DONE);
    assert_int_equal(one_r + two_r, 2);
    assert_int_equal(run_finish(&one, false), 0);
    assert_int_equal(run_finish(&two, false), 0);
    const char *a = json_string_value(json_object_get(json_array_get(one.reply.content, 0), "id"));
    const char *b = json_string_value(json_object_get(json_array_get(one.reply.content, 1), "id"));
    const char *c = json_string_value(json_object_get(json_array_get(two.reply.content, 0), "id"));
    assert_string_not_equal(a, b);
    assert_string_not_equal(a, c);
}

static void test_thinking(void **state)
{
    RUN(run, C, DELTA("{'reasoning_content':'I ','reasoning':'I '}"),
        DELTA("{'reasoning_content':'see'}"), DELTA("{'content':'ok'}"), STOP("stop"), DONE);
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "H(I )H(see)T(ok)");
    run_expect(
        &run,
        "[{'type':'thinking','from':'p/m','text':'I see','raw':{'reasoning_content':'I see'}},"
        "{'type':'text','text':'ok'}]",
        MODEL_END_TURN);
    RUN(parts, C,
        DELTA("{'content':[{'type':'thinking','thinking':[{'type':'text','text':'hm'}]},{'type':'"
              "text','text'"
              ":'a'},7]}"),
        DELTA("{'content':[{'type':'text','text':'b'}]}"), STOP("stop"), DONE);
    assert_int_equal(parts_r, 1);
    assert_string_equal(SHOWN(parts), "H(hm)T(a)T(b)");
    RUN(details, C,
        DELTA(
            "{'reasoning':'a','reasoning_details':[{'type':'reasoning.text','text':'a','index':0,'"
            "signature':null}]}"),
        DELTA(
            "{'reasoning':'b','reasoning_details':[{'type':'reasoning.text','text':'b','index':0,'"
            "signature':'s'}]}"),
        DELTA("{'reasoning_details':[{'type':'reasoning.encrypted','data':'x','index':1}]}"),
        STOP("stop"), DONE);
    assert_int_equal(details_r, 1);
    run_expect(&details,
               "[{'type':'thinking','from':'p/"
               "m','text':'ab','raw':{'reasoning_details':[{'type':'reasoning.text',"
               "'text':'ab','index':0,'signature':'s'},{'type':'reasoning.encrypted','data':'x','"
               "index':1}]}}]",
               MODEL_END_TURN);
}

static void test_extra_of_calls(void **state)
{
    RUN(run, C,
        CALLS("{'index':0,'id':'a','function':{'name':'x'},'extra_content':{'g':{'sig':'s'}}}"),
        STOP("stop"), DONE);
    assert_int_equal(run_r, 1);
    run_expect(&run,
               "[{'type':'tool_use','id':'a','name':'x','input':{},'from':'p/"
               "m','raw':{'extra_content':{'g':{'sig':'s'}}}}]",
               MODEL_TOOL_USE);
}

static void test_ends(void **state)
{
    static const struct {
        const char *event;
        enum model_stop stop;
    } REASONS[] = {
        {STOP("stop"), MODEL_END_TURN},          {STOP("length"), MODEL_MAX_TOKENS},
        {STOP("content_filter"), MODEL_REFUSAL}, {STOP("tool_calls"), MODEL_END_TURN},
        {STOP("eos"), MODEL_END_TURN},           {STOP("model_length"), MODEL_WINDOW_EXCEEDED},
    };
    for (size_t i = 0; i < ARRAY_SIZE(REASONS); i++) {
        RUN(run, C, DELTA("{'content':'a'}"), REASONS[i].event);
        assert_int_equal(run_r, 0); /* [DONE] never comes */
        run_expect(&run, "[{'type':'text','text':'a'}]", REASONS[i].stop);
    }
    RUN(refusal, C, DELTA("{'refusal':'I will not'}"), STOP("stop"), DONE);
    assert_int_equal(refusal_r, 1);
    run_expect(&refusal, "[{'type':'text','text':'I will not'}]", MODEL_REFUSAL);
    RUN(half, C, CALLS("{'index':0,'id':'a','function':{'name':'x','arguments':'{\\'k'}}"),
        STOP("length"), DONE);
    assert_int_equal(half_r, 1);
    run_expect(&half, "[{'type':'tool_use','id':'a','name':'x','input':{},'bad_input':'{\\'k'}]",
               MODEL_MAX_TOKENS);
    RUN(no_reason, C, DELTA("{'content':'a'}"), DONE);
    assert_int_equal(no_reason_r, 1);
    run_expect(&no_reason, "[{'type':'text','text':'a'}]", MODEL_END_TURN);
    RUN(nothing, C, DONE);
    assert_int_equal(nothing_r, 0);
    assert_int_equal(run_finish(&nothing, false), -EPIPE);
    RUN(torn, C, DELTA("{'content':'a'}"), CALLS("{'index':0,'id':'a','function':{'name':'x'}}"));
    assert_int_equal(torn_r, 0);
    assert_int_equal(run_finish(&torn, false), -EPIPE);
    assert_int_equal(run_finish(&torn, true), 0);
    assert_string_equal(torn.content, "[{'type':'text','text':'a'}]");
}

static void expect_error(const char *event, int code, bool retry, int64_t ms)
{
    RUN(run, C, DELTA("{'content':'a'}"), event);
    assert_int_equal(run_r, -code);
    assert_int_equal(run.trouble.retry, retry);
    assert_int_equal(run.trouble.after_ms, ms);
}

static void test_errors(void **state)
{
    expect_error("{'error':{'message':'boom','type':'server_error','code':null}}", EIO, true, -1);
    expect_error("{'error':{'message':'Rate limit reached. Please try again in "
                 "28ms.','type':'tokens','code':"
                 "'rate_limit_exceeded'}}",
                 EBUSY, true, 28);
    expect_error(
        "{'error':{'message':'x','type':'invalid_request_error','code':'context_length_exceeded'}}",
        EMSGSIZE, false, -1);
    expect_error(
        "{'error':{'message':'You exceeded your current quota','code':'insufficient_quota'}}",
        EDQUOT, false, -1);
    expect_error("{'error':{'message':'Provider returned error','code':502}}", EIO, true, -1);
    expect_error("{'error':{'message':'no','code':'401'}}", EACCES, false, -1);
    expect_error("{'error':'the request exceeds the available context size'}", EMSGSIZE, false, -1);
    expect_error("{'error':'strange'}", EIO, true, -1);
    expect_error(
        "{'object':'error','message':'This model\\u0027s maximum context length is 4096','type':"
        "'BadRequestError','code':400}",
        EMSGSIZE, false, -1);
    expect_error(STOP("insufficient_system_resource"), EIO, true, -1);
    expect_error("{", EPROTO, true, -1);
}

static void test_usage_in_every_chunk(void **state)
{
    RUN(run, C,
        "{'choices':[{'index':0,'delta':{'content':'a'}}],'usage':{'prompt_tokens':5,'completion_"
        "tokens':1}}",
        "{'choices':[{'index':0,'delta':{},'finish_reason':'stop'}],'usage':{'prompt_tokens':5,'"
        "completion_"
        "tokens':2,"
        "'prompt_cache_hit_tokens':4}}",
        "{'choices':[],'usage':null}", DONE);
    assert_int_equal(run_r, 1);
    run_expect(&run, "[{'type':'text','text':'a'}]", MODEL_END_TURN);
    assert_int_equal(run.reply.usage.output, 2);
    assert_int_equal(run.reply.usage.cache_read, 4);
}

static void test_whole(void **state)
{
    _cleanup_run_ struct run run;
    run_begin(&run, C);
    assert_int_equal(
        run_whole(
            &run,
            "{'id':'i','model':'m','choices':[{'index':0,'message':{'role':'assistant','content':'"
            "hi',"
            "'tool_calls':[{'id':'a','type':'function','function':{'name':'x','arguments':'{}'}},"
            "{'id':'b','type':'function','function':{'name':'x','arguments':'{}'}}]},"
            "'finish_reason':'tool_calls'}],'usage':{'prompt_tokens':1,'completion_tokens':2}}"),
        1);
    assert_string_equal(SHOWN(run), "T(hi)C(x)C(x)");
    run_expect(&run,
               "[{'type':'text','text':'hi'}," USE("a", "x", "{}") "," USE("b", "x", "{}") "]",
               MODEL_TOOL_USE);
    _cleanup_run_ struct run bad;
    run_begin(&bad, C);
    assert_int_equal(run_whole(&bad, "{'detail':'Not Found'}"), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_quirks),
        cmocka_unit_test(test_made_up_ids_differ),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_extra_of_calls),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_usage_in_every_chunk),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
