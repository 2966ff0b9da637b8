/* The decoder of the Responses API. */
#include "decode_run.h"

#define R              &PROVIDER_OPENAI_RESPONSES
#define CREATED        "{'type':'response.created','response':{'id':'r1','model':'gpt-x'}}"
#define ADDED(i, item) "{'type':'response.output_item.added','output_index':" #i ",'item':" item "}"
#define DONE(i, item)  "{'type':'response.output_item.done','output_index':" #i ",'item':" item "}"
#define TEXT(i, c, text)                                                                           \
    "{'type':'response.output_text.delta','output_index':" #i ",'content_index':" #c               \
    ",'delta':'" text "'}"
#define ARGS(i, text)                                                                              \
    "{'type':'response.function_call_arguments.delta','output_index':" #i ",'delta':'" text "'}"
#define END "{'type':'response.completed','response':{'status':'completed','output':[]}}"
#define MESSAGE(text)                                                                              \
    "{'type':'message','id':'msg','content':[{'type':'output_text','text':'" text                  \
    "','annotations':[]}]}"
#define CALL(args)                                                                                 \
    "{'type':'function_call','id':'fc','call_id':'c1','name':'bash','arguments':'" args "'}"

static void test_text_and_call(void **state)
{
    RUN(run, R, CREATED, "{'type':'response.in_progress','response':{}}",
        ADDED(0, "{'type':'message','content':[]}"),
        "{'type':'response.content_part.added','output_index':0,'content_index':0}",
        TEXT(0, 0, "Hel"), TEXT(0, 0, "lo"), DONE(0, MESSAGE("Hello")), ADDED(1, CALL("")),
        ARGS(1, "{\\'a\\':"), ARGS(1, "1}"),
        "{'type':'response.function_call_arguments.done','output_index':1,'arguments':'{\\'a\\':1}'"
        "}",
        DONE(1, CALL("{\\'a\\':1}")),
        "{'type':'response.completed','response':{'status':'completed','usage':{'input_tokens':20,'"
        "output_"
        "tokens':7,"
        "'input_tokens_details':{'cached_tokens':16},'output_tokens_details':{'reasoning_tokens':3}"
        "}}}");
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "T(Hel)T(lo)C(bash)");
    run_expect(&run,
               "[{'type':'text','text':'Hello'},{'type':'tool_use','id':'c1','name':'bash','input':"
               "{'a':1}}]",
               MODEL_TOOL_USE);
    assert_string_equal(run.reply.model, "gpt-x");
    assert_int_equal(run.reply.usage.input, 20);
    assert_int_equal(run.reply.usage.output, 7);
    assert_int_equal(run.reply.usage.cache_read, 16);
    assert_int_equal(run.reply.usage.thinking, 3);
}

/* The item that ends is trusted; what of it had not been shown is. */
static void test_item_is_trusted(void **state)
{
    RUN(more, R, CREATED, TEXT(0, 0, "Hel"), DONE(0, MESSAGE("Hello")), END);
    assert_int_equal(more_r, 1);
    assert_string_equal(SHOWN(more), "T(Hel)T(lo)");
    run_expect(&more, "[{'type':'text','text':'Hello'}]", MODEL_END_TURN);
    RUN(other, R, CREATED, TEXT(0, 0, "Hallo"), TEXT(0, 1, "gone"), DONE(0, MESSAGE("Hello")),
        ADDED(1, CALL("")), ARGS(1, "{\\'a\\':9"), DONE(1, CALL("{}")), END);
    assert_int_equal(other_r, 1);
    assert_string_equal(SHOWN(other), "T(Hallo)T(gone)C(bash)");
    run_expect(
        &other,
        "[{'type':'text','text':'Hello'},{'type':'tool_use','id':'c1','name':'bash','input':{}}]",
        MODEL_TOOL_USE);
    RUN(late, R, CREATED,
        "{'type':'response.completed','response':{'output':[" MESSAGE("all") "," CALL("") "]}}");
    assert_int_equal(late_r, 1);
    assert_string_equal(SHOWN(late), "T(all)C(bash)");
    run_expect(
        &late,
        "[{'type':'text','text':'all'},{'type':'tool_use','id':'c1','name':'bash','input':{}}]",
        MODEL_TOOL_USE);
    RUN(pieces, R, CREATED, ADDED(0, CALL("")), ARGS(0, "{\\'a\\':1}"), END);
    assert_int_equal(pieces_r, 1);
    run_expect(&pieces, "[{'type':'tool_use','id':'c1','name':'bash','input':{'a':1}}]",
               MODEL_TOOL_USE);
}

static void test_order(void **state)
{
    RUN(run, R, CREATED, ADDED(2, CALL("")), DONE(2, CALL("{}")), TEXT(1, 1, "b"), TEXT(1, 0, "a"),
        TEXT(0, 0, "first"), END);
    assert_int_equal(run_r, 1);
    run_expect(
        &run,
        "[{'type':'text','text':'first'},{'type':'text','text':'a'},{'type':'text','text':'b'},"
        "{'type':'tool_use','id':'c1','name':'bash','input':{}}]",
        MODEL_TOOL_USE);
}

static void test_reasoning(void **state)
{
    RUN(run, R, CREATED, ADDED(0, "{'type':'reasoning','id':'rs','summary':[]}"),
        "{'type':'response.reasoning_summary_part.added','output_index':0,'summary_index':0}",
        "{'type':'response.reasoning_summary_text.delta','output_index':0,'summary_index':0,'delta'"
        ":'one'}",
        "{'type':'response.reasoning_summary_part.added','output_index':0,'summary_index':1}",
        "{'type':'response.reasoning_summary_text.delta','output_index':0,'summary_index':1,'delta'"
        ":'two'}",
        DONE(0, "{'type':'reasoning','id':'rs','summary':[{'type':'summary_text','text':'one'},{'"
                "type':'"
                "summary_text',"
                "'text':'two'}],'encrypted_content':'xyz'}"),
        DONE(1, "{'type':'web_search_call','id':'ws','status':'completed'}"), END);
    assert_int_equal(run_r, 1);
    assert_string_equal(SHOWN(run), "H(one)H(\n\n)H(two)");
    run_expect(&run,
               "[{'type':'thinking','from':'p/"
               "m','text':'one\\n\\ntwo','raw':{'type':'reasoning','id':'rs','summary':["
               "{'type':'summary_text','text':'one'},{'type':'summary_text','text':'two'}],'"
               "encrypted_content':'xyz'"
               "}},"
               "{'type':'other','from':'p/"
               "m','raw':{'type':'web_search_call','id':'ws','status':'completed'}}]",
               MODEL_END_TURN);
    RUN(phase, R, CREATED,
        DONE(0, "{'type':'message','phase':'commentary','content':[{'type':'output_text','text':'a'"
                "}]}"),
        END);
    assert_int_equal(phase_r, 1);
    run_expect(&phase, "[{'type':'text','text':'a','from':'p/m','phase':'commentary'}]",
               MODEL_END_TURN);
}

#define INCOMPLETE(why)                                                                            \
    "{'type':'response.incomplete','response':{'status':'incomplete','incomplete_details':{'"      \
    "reason':'" why "'}}}"

static void test_ends(void **state)
{
    RUN(length, R, CREATED, TEXT(0, 0, "a"), INCOMPLETE("max_output_tokens"));
    assert_int_equal(length_r, 1);
    run_expect(&length, "[{'type':'text','text':'a'}]", MODEL_MAX_TOKENS);
    RUN(filter, R, CREATED, INCOMPLETE("content_filter"));
    assert_int_equal(filter_r, 1);
    run_expect(&filter, "[]", MODEL_REFUSAL);
    RUN(refusal, R, CREATED,
        "{'type':'response.refusal.delta','output_index':0,'content_index':0,'delta':'no'}",
        DONE(0, "{'type':'message','content':[{'type':'refusal','refusal':'no'}]}"), END);
    assert_int_equal(refusal_r, 1);
    run_expect(&refusal, "[{'type':'text','text':'no'}]", MODEL_REFUSAL);
    RUN(torn, R, CREATED, TEXT(0, 0, "a"), ADDED(1, CALL("")));
    assert_int_equal(torn_r, 0);
    assert_int_equal(run_finish(&torn, false), -EPIPE);
    assert_int_equal(run_finish(&torn, true), 0);
    assert_string_equal(torn.content, "[{'type':'text','text':'a'}]");
}

static void expect_error(const char *event, int code, bool retry, int64_t ms)
{
    RUN(run, R, CREATED, event);
    assert_int_equal(run_r, -code);
    assert_int_equal(run.trouble.retry, retry);
    assert_int_equal(run.trouble.after_ms, ms);
}

static void test_errors(void **state)
{
    expect_error(
        "{'type':'response.failed','response':{'status':'failed','error':{'code':'server_error','"
        "message':'x'}}}",
        EIO, true, -1);
    expect_error(
        "{'type':'response.failed','response':{'error':{'code':'rate_limit_exceeded','message':"
        "'Please try again in 1m2.5s. Visit'}}}",
        EBUSY, true, 62500);
    expect_error("{'type':'response.failed','response':{'error':{'code':'context_length_exceeded','"
                 "message':'x'}}}",
                 EMSGSIZE, false, -1);
    expect_error("{'type':'error','code':'invalid_prompt','message':'x'}", EINVAL, false, -1);
    expect_error("{'type':'error','error':{'type':'insufficient_quota','code':'insufficient_quota',"
                 "'message':'x'}}",
                 EDQUOT, false, -1);
    expect_error("{'error':{'message':'x'}}", EIO, true, -1);
    expect_error("{'type':'response.completed','response':{'status':'failed','error':{'code':'"
                 "server_error'}}}",
                 EIO, true, -1);
}

static void test_whole(void **state)
{
    _cleanup_run_ struct run run;
    run_begin(&run, R);
    assert_int_equal(run_whole(&run, "{'object':'response','model':'m','status':'incomplete','"
                                     "error':null,'incomplete_details':"
                                     "{'reason':'max_output_tokens'},'output':[" MESSAGE(
                                         "hi") "],'usage':{'input_tokens':1,"
                                               "'output_tokens':2}}"),
                     1);
    run_expect(&run, "[{'type':'text','text':'hi'}]", MODEL_MAX_TOKENS);
    _cleanup_run_ struct run bad;
    run_begin(&bad, R);
    assert_int_equal(run_whole(&bad, "{'error':{'message':'x','code':'model_not_found'}}"),
                     -ENOENT);
}

static void test_strange_indices(void **state)
{
    RUN(run, R, CREATED, TEXT(-5, 99, "a"), TEXT(9223372036854775807, 0, "b"), DONE(0, "null"),
        DONE(0, "{}"), ADDED(0, CALL("")), TEXT(0, 0, "c"),
        "{'type':'response.output_text.delta','delta':'d'}",
        "{'type':'response.function_call_arguments.delta','output_index':0,'delta':7}", END);
    assert_int_equal(run_r, 1);
    assert_int_equal(run_finish(&run, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_and_call), cmocka_unit_test(test_item_is_trusted),
        cmocka_unit_test(test_order),         cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_ends),          cmocka_unit_test(test_errors),
        cmocka_unit_test(test_whole),         cmocka_unit_test(test_strange_indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
