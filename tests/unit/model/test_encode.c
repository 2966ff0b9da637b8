/* The encoders: what goes out for a conversation, that it is the same bytes every time, and what is
 * refused. */
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "encode.h"
#include "decode.h"
#include "provider.h"

#define MARK ",'cache_control':{'type':'ephemeral'}"

static const char *const APIS[] = {"anthropic", "chat", "responses"};

static char *swapped(const char *text, char from, char to)
{
    char *copy = strdup(text);
    for (char *c = copy; *c; c++)
        if (*c == from)
            *c = to;
    return copy;
}

static json_t *parse(const char *text)
{
    _cleanup_free_ char *json = swapped(text, '\'', '"');
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    return value;
}

static struct model_spec spec_of(const struct provider *api)
{
    return (struct model_spec){.api = api, .provider = "p", .name = "m"};
}

/* The body, with ' for ". */
static char *encoded(const struct model_spec *spec, const char *system, const char *tools,
                     const char *messages)
{
    _cleanup_json_ json_t *list = parse(messages), *offered = tools ? parse(tools) : NULL;
    struct model_request q = {
        .system = system, .tools = offered, .messages = list, .max_tokens = 100};
    _cleanup_buf_ struct buf out = BUF_INIT(ENCODER_BYTES_MAX);
    struct error err = {0};
    int r = encode_request(spec, &q, &out, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(r, 0);
    _cleanup_json_ json_t *body =
        json_loadb((char *)out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(body));
    return swapped(buf_cstr(&out), '"', '\'');
}

#define USER(blocks)      "{'role':'user','content':[" blocks "]}"
#define ASSISTANT(blocks) "{'role':'assistant','content':[" blocks "]}"
#define TEXT(text)        "{'type':'text','text':'" text "'}"
#define IMAGE             "{'type':'image','mime':'image/png','data':'QUJD'}"
#define CALL(id)          "{'type':'tool_use','id':'" id "','name':'bash','input':{'c':1}}"
#define RESULT(id, inner)                                                                          \
    "{'type':'tool_result','tool_use_id':'" id "','content':[" inner "],'is_error':false}"
#define LONG_ID "functions.x:0123456789012345678901234567890123456789"
#define THOUGHT(from)                                                                              \
    "{'type':'thinking','from':'" from                                                             \
    "','text':'t','raw':{'type':'thinking','thinking':'t','signature':'s'}}"

/* What a sample (a file of requests/) wants of one protocol. */
static void expect_sample(const json_t *sample, const char *api, const char *name)
{
    struct model_spec spec = spec_of(provider_find("", api, NULL));
    struct model_request q = {.messages = json_object_get(sample, "messages")};
    _cleanup_buf_ struct buf out = BUF_INIT(ENCODER_BYTES_MAX);
    struct error err = {0};
    spec.base_url = "http://localhost";
    assert_int_equal(encode_request(&spec, &q, &out, &err), 0);
    _cleanup_json_ json_t *body =
        json_loadb((char *)out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *got = json_object_get(body, strcmp(api, "responses") == 0 ? "input" : "messages");
    const json_t *wanted = json_object_get(sample, api);
    _cleanup_free_ char *text = json_dumps(got, JSON_COMPACT),
                        *want = json_dumps(wanted, JSON_COMPACT);
    if (!json_equal(got, wanted))
        print_error("%s, %s: got %s\nbut want %s\n", name, api, text, want);
    assert_true(json_equal(got, wanted));
}

static void test_samples(void **state)
{
    _cleanup_(globfree) glob_t files;
    assert_int_equal(glob(SAMPLES "/*.json", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        _cleanup_json_ json_t *sample =
            json_load_file(files.gl_pathv[i], JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(sample);
        for (size_t k = 0; k < ARRAY_SIZE(APIS); k++)
            expect_sample(sample, APIS[k], files.gl_pathv[i]);
    }
}

static void test_bodies(void **state)
{
    static const char TOOLS[] =
        "[{'name':'a','description':'d','input_schema':{'type':'object'}},{'name':'b'}]";
    struct model_spec spec = spec_of(&PROVIDER_ANTHROPIC);
    _cleanup_free_ char *anthropic = encoded(&spec, "be good", TOOLS, "[" USER(TEXT("hi")) "]");
    assert_string_equal(anthropic,
                        "{'model':'m','max_tokens':100,'stream':true,'tools':[{'name':'a','"
                        "description':'d','input_schema':"
                        "{'type':'object'}},{'name':'b','input_schema':{'type':'object'}" MARK
                        "}],'system':[{'type':'text',"
                        "'text':'be good'" MARK
                        "}],'messages':[" USER("{'type':'text','text':'hi'" MARK "}") "]}");
    spec.api = &PROVIDER_OPENAI_CHAT;
    _cleanup_free_ char *chat = encoded(&spec, "be good", TOOLS, "[" USER(TEXT("hi")) "]");
    assert_string_equal(
        chat, "{'model':'m','stream':true,'stream_options':{'include_usage':true},'max_completion_"
              "tokens':100,"
              "'tools':[{'type':'function','function':{'name':'a','description':'d','parameters':{'"
              "type':'object'}}"
              "},"
              "{'type':'function','function':{'name':'b','parameters':{'type':'object','properties'"
              ":{}}}}],"
              "'messages':[{'role':'system','content':'be good'},{'role':'user','content':'hi'}]}");
    spec.api = &PROVIDER_OPENAI_RESPONSES;
    _cleanup_free_ char *responses = encoded(&spec, "be good", TOOLS, "[" USER(TEXT("hi")) "]");
    assert_string_equal(
        responses,
        "{'model':'m','stream':true,'store':false,'include':['reasoning.encrypted_content'],"
        "'max_output_tokens':100,'tools':[{'type':'function','name':'a','description':'d','"
        "parameters':"
        "{'type':'object'},'strict':false},{'type':'function','name':'b','parameters':{'type':'"
        "object',"
        "'properties':{}},'strict':false}],'instructions':'be "
        "good','input':[{'type':'message','role':'user',"
        "'content':[{'type':'input_text','text':'hi'}]}]}");
}

static void expect_limit(const char *url, const char *want)
{
    struct model_spec spec = spec_of(&PROVIDER_OPENAI_CHAT);
    spec.base_url = url;
    _cleanup_free_ char *body = encoded(&spec, NULL, NULL, "[" USER(TEXT("hi")) "]");
    assert_non_null(strstr(body, want));
}

static void test_limit_of_answers(void **state)
{
    expect_limit(NULL, "'max_completion_tokens':100");
    expect_limit("https://api.openai.com/v1", "'max_completion_tokens':100");
    expect_limit("https://eu.api.OpenAI.com:443/v1", "'max_completion_tokens':100");
    expect_limit("https://x.openai.azure.com", "'max_completion_tokens':100");
    expect_limit("http://localhost:8080/v1", "'max_tokens':100");
    expect_limit("https://notopenai.com/v1", "'max_tokens':100");
    expect_limit("https://proxy.example/openai.com", "'max_tokens':100");
}

static void test_extra(void **state)
{
    struct model_spec spec = spec_of(&PROVIDER_ANTHROPIC);
    _cleanup_json_ json_t *extra =
        parse("{'temperature':0.5,'tools':[{'type':'web_search','name':'w'}],'max_"
              "tokens':7,'messages':[],'stream':false}");
    spec.extra = extra;
    _cleanup_free_ char *body = encoded(&spec, NULL, "[{'name':'a'}]", "[" USER(TEXT("hi")) "]");
    assert_string_equal(body,
                        "{'model':'m','max_tokens':7,'stream':true,'tools':[{'name':'a','input_"
                        "schema':{'type':'object'}" MARK
                        "},{'type':'web_search','name':'w'}],'temperature':0.5,'messages':[" USER(
                            "{'type':'text','text':'hi'" MARK "}") "]}");
    _cleanup_json_ json_t *less = parse("{'stream_options':null,'max_tokens':9}");
    spec = spec_of(&PROVIDER_OPENAI_CHAT);
    spec.extra = less;
    _cleanup_free_ char *chat = encoded(&spec, NULL, NULL, "[" USER(TEXT("hi")) "]");
    assert_string_equal(
        chat,
        "{'model':'m','stream':true,'max_tokens':9,'messages':[{'role':'user','content':'hi'}]}");
}

/* OpenAI counts an id's bytes, others want it as they gave it. */
static void test_long_ids(void **state)
{
    static const char LONG[] =
        "[" USER("") "," ASSISTANT(CALL(LONG_ID)) "," USER(RESULT(LONG_ID, "")) "]";
    struct model_spec spec = spec_of(&PROVIDER_OPENAI_CHAT);
    _cleanup_free_ char *openai = encoded(&spec, NULL, NULL, LONG);
    assert_null(strstr(openai, LONG_ID));
    spec.base_url = "http://localhost";
    _cleanup_free_ char *other = encoded(&spec, NULL, NULL, LONG);
    assert_non_null(strstr(other, "'id':'" LONG_ID "'"));
}

static void test_system_of_any_bytes(void **state)
{
    for (size_t i_api = 0; i_api < ARRAY_SIZE(APIS); i_api++) {
        const struct provider *api = provider_find("", APIS[i_api], NULL);
        struct model_spec spec = spec_of(api);
        _cleanup_free_ char *body = encoded(&spec, "bad \377byte", NULL, "[" USER("") "]");
        assert_non_null(strstr(body, "'bad \357\277\275byte'"));
    }
}

/* Without its marks a request is the beginning of every later one. */
static void without_marks(char *body)
{
    size_t n = strlen(MARK);
    for (char *at = body; (at = strstr(at, MARK));)
        memmove(at, at + n, strlen(at + n) + 1);
}

static void test_same_bytes(void **state)
{
    /* clang-format off */
    static const char *const TURNS[] = {
        USER(TEXT("a")), ASSISTANT(THOUGHT("p/m") "," TEXT("x ") "," CALL("1")),
        USER(RESULT("1", TEXT("o") "," IMAGE)), ASSISTANT(THOUGHT("p/m") "," TEXT("done\\n")),
        USER(TEXT("b") "," IMAGE), ASSISTANT(THOUGHT("q/r")),
        USER(TEXT("c")), ASSISTANT(CALL("1")),
        USER(RESULT("1", "")), ASSISTANT(""),
        USER(TEXT("")),
    };
    /* clang-format on */
    for (size_t i_api = 0; i_api < ARRAY_SIZE(APIS); i_api++) {
        const struct provider *api = provider_find("", APIS[i_api], NULL);
        struct model_spec spec = spec_of(api);
        _cleanup_free_ char *before = NULL;
        for (size_t n = 1; n <= ARRAY_SIZE(TURNS); n += 2) {
            _cleanup_buf_ struct buf list = BUF_INIT(8192);
            for (size_t i = 0; i < n; i++)
                buf_printf(&list, "%s%s", i ? "," : "[", TURNS[i]);
            buf_append_str(&list, "]");
            char *body = encoded(&spec, "s", "[{'name':'a'}]", buf_cstr(&list));
            _cleanup_free_ char *again = encoded(&spec, "s", "[{'name':'a'}]", buf_cstr(&list));
            assert_string_equal(body, again);
            without_marks(body);
            if (before)
                assert_memory_equal(before, body, strlen(before) - 2);
            free(before);
            before = body;
        }
    }
}

static void test_marks(void **state)
{
    struct model_spec spec = spec_of(&PROVIDER_ANTHROPIC);
    _cleanup_free_ char *body = encoded(
        &spec, "s", "[{'name':'a'},{'name':'b'}]",
        "[" USER(TEXT("a")) "," ASSISTANT(TEXT("x")) "," USER(TEXT("b")) "," ASSISTANT(TEXT(
            "y")) "," USER(TEXT("c") "," TEXT("d")) "," ASSISTANT(TEXT("to be continued")) "]");
    int marks = 0;
    for (const char *at = body; (at = strstr(at, MARK)); at++)
        marks++;
    assert_int_equal(marks, 4);
    assert_non_null(strstr(body, "'text':'b'" MARK));
    assert_non_null(strstr(body, "'text':'d'" MARK));
}

static void refused(const char *messages, const char *why)
{
    _cleanup_json_ json_t *list = parse(messages);
    struct error err = {0};
    assert_int_equal(conversation_check(list, &err), -EINVAL);
    if (!strstr(err.text, why))
        assert_string_equal(err.text, why);
}

static void test_refused(void **state)
{
    refused("[]", "has no message");
    refused("{}", "has no message");
    refused("[7]", "message 1, block 1: it is the user's turn");
    refused("[" ASSISTANT("") "]", "it is the user's turn");
    refused("[" USER("") "," USER("") "]", "message 2, block 1: it is the assistant's turn");
    refused("[{'role':'user','content':'x'}]", "no list 'content'");
    refused("[" USER("7") "]", "type is not known");
    refused("[" USER("{'type':'x'}") "]", "type is not known");
    refused("[" USER("{'type':'text'}") "]", "a text needs 'text'");
    refused("[" USER("{'type':'image','mime':'m'}") "]", "an image needs");
    refused("[" USER(CALL("1")) "]", "not a user's");
    refused("[" USER("") "," ASSISTANT(IMAGE) "]", "not an assistant's");
    refused("[" USER("") "," ASSISTANT("{'type':'tool_use','id':'a','name':'b'}") "]",
            "a tool_use needs");
    refused("[" USER("") "," ASSISTANT("{'type':'thinking'}") "]", "needs 'from'");
    refused("[" USER("") "," ASSISTANT(CALL("1")) "]", "message 2, block 2: a call has no result");
    refused("[" USER("") "," ASSISTANT(CALL("1")) "," USER(TEXT("x")) "]",
            "a call of the message before has no result");
    refused("[" USER("") "," ASSISTANT(CALL("1") "," CALL("1")) "]", "id is that of another call");
    refused("[" USER(RESULT("1", "")) "]", "has no such call");
    refused("[" USER("") "," ASSISTANT(CALL("1")) "," USER(RESULT("1", "") "," RESULT("1", "")) "]",
            "answered already");
    refused("[" USER("") "," ASSISTANT(CALL("1")) "," USER(RESULT("1", "{'type':'thinking'}")) "]",
            "texts and images");
    refused("[" USER("") "," ASSISTANT(CALL("1")) "," USER(
                "{'type':'tool_result','tool_use_id':'1'}") "]",
            "a tool_result needs");
}

static void test_too_long(void **state)
{
    _cleanup_json_ json_t *list =
        parse("[" USER(TEXT("0123456789012345678901234567890123456789")) "]");
    struct model_spec spec = spec_of(&PROVIDER_OPENAI_CHAT);
    struct model_request q = {.messages = list};
    _cleanup_buf_ struct buf out = BUF_INIT(100);
    struct error err = {0};
    assert_int_equal(encode_request(&spec, &q, &out, &err), -EMSGSIZE);
    assert_int_equal(out.len, 0);
    spec.api = &PROVIDER_REPLAY;
    _cleanup_buf_ struct buf none = BUF_INIT(1000);
    assert_int_equal(encode_request(&spec, &q, &none, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),    cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_extra),      cmocka_unit_test(test_limit_of_answers),
        cmocka_unit_test(test_long_ids),   cmocka_unit_test(test_system_of_any_bytes),
        cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_marks),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
