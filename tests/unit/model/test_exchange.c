/* Addresses, refusals and retries of model providers: what is pure about them. */
#include <curl/curl.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "http.h"
#include "provider.h"

static struct model_spec spec_of(const struct provider *api, const char *base)
{
    return (struct model_spec){.api = api,
                               .provider = api == &PROVIDER_ANTHROPIC ? "anthropic" : "openai",
                               .name = "m-1",
                               .base_url = base,
                               .key = "sk-secret-key"};
}

static void expect_url(const struct provider *api, const char *base, const char *want)
{
    struct model_spec spec = spec_of(api, base);
    struct endpoint e;
    struct error err = {0};
    assert_int_equal(endpoint_make(&spec, &e, &err), 0);
    assert_string_equal(e.url, want);
    endpoint_free(&e);
}

static void test_urls(void **state)
{
    expect_url(&PROVIDER_ANTHROPIC, NULL, "https://api.anthropic.com/v1/messages");
    expect_url(&PROVIDER_ANTHROPIC, "http://h:1", "http://h:1/v1/messages");
    expect_url(&PROVIDER_ANTHROPIC, "http://h:1/v1/", "http://h:1/v1/messages");
    expect_url(&PROVIDER_ANTHROPIC, "https://h/gate/way", "https://h/gate/way/v1/messages");
    expect_url(&PROVIDER_ANTHROPIC, "https://h/v1/messages", "https://h/v1/messages");
    expect_url(&PROVIDER_OPENAI_CHAT, NULL, "https://api.openai.com/v1/chat/completions");
    expect_url(&PROVIDER_OPENAI_CHAT, "http://[::1]:8080/v1",
               "http://[::1]:8080/v1/chat/completions");
    expect_url(&PROVIDER_OPENAI_CHAT, "http://localhost:11434",
               "http://localhost:11434/v1/chat/completions");
    expect_url(&PROVIDER_OPENAI_CHAT, "https://h/openai?api-version=2",
               "https://h/openai/chat/completions?api-version=2");
    expect_url(&PROVIDER_OPENAI_RESPONSES, "https://h/v1", "https://h/v1/responses");
}

static void expect_no_url(const char *base)
{
    struct model_spec spec = spec_of(&PROVIDER_ANTHROPIC, base);
    struct endpoint e;
    struct error err = {0};
    assert_int_equal(endpoint_make(&spec, &e, &err), -EINVAL);
    assert_non_null(strstr(err.text, "ANTHROPIC_BASE_URL"));
    assert_null(strstr(err.text, "pass"));
}

static void test_bad_urls(void **state)
{
    char giant[6000] = "https://h/";
    memset(giant + 10, 'a', sizeof giant - 11);
    expect_no_url("file:///etc/passwd");
    expect_no_url("ftp://h/");
    expect_no_url("https://");
    expect_no_url("https://h/\r\nX: y");
    expect_no_url(giant);
    struct model_spec spec = spec_of(&PROVIDER_OPENAI_CHAT, "https://me:pass@h/v1");
    struct endpoint e;
    struct error err = {0};
    assert_int_equal(endpoint_make(&spec, &e, &err), -EINVAL);
    assert_non_null(strstr(err.text, "OPENAI_BASE_URL contains a user name or password"));
    assert_null(strstr(err.text, "me:"));
}

static bool has_line(const struct endpoint *e, const char *line)
{
    for (struct curl_slist *at = e->headers; at; at = at->next)
        if (strcmp(at->data, line) == 0)
            return true;
    return false;
}

static void test_headers(void **state)
{
    struct model_spec spec = spec_of(&PROVIDER_ANTHROPIC, NULL);
    struct endpoint e;
    spec.headers = json_pack("{s:s,s:s}", "anthropic-beta", "x-1", "X-Empty", "");
    assert_int_equal(endpoint_make(&spec, &e, NULL), 0);
    assert_true(has_line(&e, "x-api-key: sk-secret-key") &&
                has_line(&e, "anthropic-version: 2023-06-01"));
    assert_true(has_line(&e, "anthropic-beta: x-1") && has_line(&e, "X-Empty;") &&
                has_line(&e, "Expect:"));
    endpoint_free(&e);
    json_decref(spec.headers);

    spec = spec_of(&PROVIDER_OPENAI_CHAT, NULL);
    assert_int_equal(endpoint_make(&spec, &e, NULL), 0);
    assert_true(has_line(&e, "Authorization: Bearer sk-secret-key"));
    endpoint_free(&e);

    spec.headers = json_pack("{s:s}", "authorization", "Basic abc");
    assert_int_equal(endpoint_make(&spec, &e, NULL), 0);
    assert_true(has_line(&e, "authorization: Basic abc") &&
                !has_line(&e, "Authorization: Bearer sk-secret-key"));
    endpoint_free(&e);
    json_decref(spec.headers);
}

static void expect_bad_header(const char *name, const char *value)
{
    struct model_spec spec = spec_of(&PROVIDER_OPENAI_CHAT, NULL);
    struct endpoint e;
    struct error err = {0};
    spec.headers = json_object();
    json_object_set_new(spec.headers, name, json_string(value));
    assert_int_equal(endpoint_make(&spec, &e, &err), -EINVAL);
    assert_null(strchr(err.text, '\n'));
    json_decref(spec.headers);
}

static void test_bad_headers(void **state)
{
    expect_bad_header("X-A", "b\r\nHost: evil");
    expect_bad_header("X-A\r\nHost", "evil");
    expect_bad_header("", "b");
    expect_bad_header("X A", "b");
    expect_bad_header("Host", "evil");
    expect_bad_header("transfer-encoding", "chunked");
    struct model_spec spec = spec_of(&PROVIDER_ANTHROPIC, NULL);
    struct endpoint e;
    struct error err = {0};
    spec.key = "sk-a\r\nX: y";
    assert_int_equal(endpoint_make(&spec, &e, &err), -EINVAL);
    assert_null(strstr(err.text, "sk-a"));
}

static void test_same_place(void **state)
{
    struct model_spec spec = spec_of(&PROVIDER_OPENAI_CHAT, "https://host/v1");
    struct endpoint e;
    assert_int_equal(endpoint_make(&spec, &e, NULL), 0);
    assert_true(endpoint_contains(&e, "https://HOST/other"));
    assert_true(endpoint_contains(&e, "https://host:443/other"));
    assert_false(endpoint_contains(&e, "http://host/v1"));
    assert_false(endpoint_contains(&e, "https://host:444/v1"));
    assert_false(endpoint_contains(&e, "https://host.evil/v1"));
    assert_false(endpoint_contains(&e, "https://host@evil/v1"));
    endpoint_free(&e);
}

static int64_t told;

static void expect_refusal(int status, const char *body, int code, const char *says)
{
    struct model_spec spec = spec_of(&PROVIDER_ANTHROPIC, NULL);
    struct error err = {0};
    assert_int_equal(
        provider_error_of_status(&spec, "m-1", status, body, strlen(body), &told, &err), -code);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_null(strstr(err.text, "sk-secret-key"));
    assert_null(strchr(err.text, '\n'));
    assert_null(strchr(err.text, 0x1b));
}

static void test_refusals(void **state)
{
    expect_refusal(
        401,
        "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid "
        "x-api-key\"}}",
        EACCES, "check ANTHROPIC_API_KEY (invalid x-api-key)");
    expect_refusal(401, "{\"error\":{\"message\":\"Incorrect API key provided: sk-secret-key.\"}}",
                   EACCES, "provided: …");
    expect_refusal(
        404,
        "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"model: m-1\"}}",
        ENOENT, "no model \"m-1\"");
    expect_refusal(404, "404 page not found\n", ENOENT, "check the base URL (404 page not found)");
    expect_refusal(404, "<!doctype html><html>", ENOENT, "a web page");
    expect_refusal(404, "{\"error\":\"model 'x' not found\"}", ENOENT, "no model");
    expect_refusal(403, "", EACCES, "permission denied");
    expect_refusal(500, "", EIO, "anthropic: server error 500 (no details)");
    expect_refusal(529, "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
                   EIO, "overloaded");
    expect_refusal(418, "\x1b[31m\xff\xfe teapot\r\n\r\nx", EINVAL, "teapot x");
    expect_refusal(400, "[{\"error\":{\"message\":\"in a list\"}}]", EINVAL, "in a list");
    expect_refusal(422, "{\"detail\":[{\"msg\":\"field required\"}]}", EINVAL, "field required");
    expect_refusal(400, "{\"object\":\"error\",\"message\":\"flat\"}", EINVAL, "flat");
    expect_refusal(400, "{\"error\":{\"message\":7}}", EINVAL, "request refused, status 400");
}

static void test_too_long(void **state)
{
    expect_refusal(400,
                   "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too "
                   "long: 9 tokens > 8\"}}",
                   EMSGSIZE, "too long for m-1");
    expect_refusal(400, "{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"no\"}}",
                   EMSGSIZE, "too long");
    expect_refusal(400, "{\"error\":{\"type\":\"exceed_context_size_error\",\"message\":\"x\"}}",
                   EMSGSIZE, "too long");
    expect_refusal(413, "", EMSGSIZE, "too long");
    expect_refusal(401, "{\"error\":{\"message\":\"context window\"}}", EACCES, "key");
}

static void test_quota_and_rate(void **state)
{
    expect_refusal(
        429,
        "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"You exceeded your quota\"}}",
        EDQUOT, "billing");
    expect_refusal(429, "{\"error\":{\"message\":\"Rate limit. Please try again in 1.5s.\"}}",
                   EBUSY, "too many requests");
    assert_int_equal(told, 1500);
    expect_refusal(429, "{\"error\":{\"message\":\"try again in 28ms\"}}", EBUSY, "");
    assert_int_equal(told, 28);
    expect_refusal(429, "{\"error\":{\"message\":\"try again in 6m0s\"}}", EBUSY, "");
    assert_int_equal(told, 360000);
    expect_refusal(429, "{\"error\":{\"message\":\"try again in a while\"}}", EBUSY, "");
    assert_int_equal(told, -1);
}

static void test_one_line_is_bounded(void **state)
{
    char long_text[5000], line[100];
    memset(long_text, 'x', sizeof long_text);
    for (size_t i = 0; i + 1 < sizeof long_text; i += 2)
        memcpy(long_text + i, "ä", 2);
    provider_error_line(NULL, long_text, sizeof long_text - 1, line, sizeof line);
    assert_true(strlen(line) < sizeof line && strlen(line) % 2 == 0);
}

static void test_what_is_retried(void **state)
{
    static const int YES[] = {408, 409, 429, 500, 502, 503, 504, 529},
                     NO[] = {400, 401, 403, 404, 413, 422};
    for (size_t i = 0; i < ARRAY_SIZE(YES); i++)
        assert_true(retry_wanted(&(struct transport_answer){.status = YES[i]}));
    for (size_t i = 0; i < ARRAY_SIZE(NO); i++)
        assert_false(retry_wanted(&(struct transport_answer){.status = NO[i]}));
    assert_true(retry_wanted(&(struct transport_answer){.status = 400, .should_retry = "true"}));
    assert_false(retry_wanted(&(struct transport_answer){.status = 529, .should_retry = "false"}));
}

static void test_told(void **state)
{
    const time_t now = 1445412480; /* Wed, 21 Oct 2015 07:28:00 GMT */
    const struct {
        struct transport_answer a;
        int64_t ms;
    } cases[] = {
        {{.retry_ms = "250", .retry_after = "9"}, 250},
        {{.retry_after = "2"}, 2000},
        {{.retry_after = "0.25"}, 250},
        {{.retry_after = "Wed, 21 Oct 2015 07:28:30 GMT"}, 30000},
        {{.retry_after = "Wed, 21 Oct 2015 07:00:00 GMT"}, 0},
        {{.retry_after = "soon"}, -1},
        {{.retry_after = "-5"}, -1},
        {{.retry_after = "1.2.3"}, -1},
        {{.retry_after = "99999999999999999999"}, -1},
        {{.status = 429}, -1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(retry_after_ms(&cases[i].a, now), cases[i].ms);
}

static void test_delay(void **state)
{
    static const int WANT[] = {500, 1000, 2000, 4000, 8000, 8000, 8000};
    for (unsigned i = 0; i < ARRAY_SIZE(WANT); i++) {
        assert_int_equal(retry_delay_ms(i + 1, 500, -1, 0), WANT[i]);
        int jittered = retry_delay_ms(i + 1, 500, -1, 1023);
        assert_true(jittered < WANT[i] && jittered >= WANT[i] * 3 / 4);
    }
    assert_int_equal(retry_delay_ms(1, 500, 60000, 7), 60000);
    assert_int_equal(retry_delay_ms(1, 500, 60001, 0), 500);
    assert_int_equal(retry_delay_ms(3, 500, 0, 0), 0);
}

static void test_wait_is_cancelled(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(retry_wait(1, fds[0]), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(retry_wait(600000, fds[0]), -ECANCELED);
    assert_int_equal(retry_wait(0, fds[0]), -ECANCELED);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_same_place),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_quota_and_rate),
        cmocka_unit_test(test_one_line_is_bounded),
        cmocka_unit_test(test_what_is_retried),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_wait_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
