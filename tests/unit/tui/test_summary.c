/* Calls and results in a few words: each tool, hostile bytes, widths. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tui.h"

static void expect_call(const char *name, const char *input, size_t width, const char *wanted)
{
    struct buf out = BUF_INIT(4096);
    json_t *j = json_loads(input, 0, NULL);
    assert_non_null(j);
    assert_int_equal(summary_of_call(name, j, width, &out), 0);
    assert_string_equal(buf_cstr(&out), wanted);
    json_decref(j);
    buf_free(&out);
}

static void test_calls_in_one_line(void **state)
{
    expect_call("bash", "{\"command\": \"make test\"}", 80, "make test");
    expect_call("bash", "{\"command\": \"cd x\\n  make\\n\"}", 80, "cd x make");
    expect_call("bash", "{\"command\": \"serve\", \"background\": true}", 80, "serve &");
    expect_call("bash", "{\"handle\": 3, \"kill\": true}", 80, "end background command 3");
    expect_call("bash", "{\"command\": \"0123456789\"}", 5, "0123…");
    expect_call("bash", "{\"command\": \"\\u4e2d\\u4e2d\\u4e2d\"}", 5, "\xe4\xb8\xad\xe4\xb8\xad…");
    expect_call("bash", "{\"command\": \"a\\u001b[2Jb\\u202ec\"}", 80,
                "a\\x1b[2Jb\\xe2\\x80\\xaec");
    expect_call("read_file", "{\"path\": \"a.c\", \"offset\": 10, \"limit\": 5}", 80, "a.c 10-14");
    expect_call("read_file", "{\"path\": \"a.c\", \"offset\": -10}", 80, "a.c from -10");
    expect_call("search_files", "{\"pattern\": \"x+\", \"glob\": \"*.c\", \"path\": \"src\"}", 80,
                "/x+/ *.c in src");
    expect_call("list_files", "{}", 80, ".");
    expect_call("apply_diff", "{\"diff\": \"--- a/x\\n+++ b/x\\n@@\\n--- a/y\\n+++ b/y\\t2\\n\"}",
                80, "x and 1 more");
    expect_call("plan",
                "{\"items\": [{\"text\": \"a\", \"state\": \"done\"}, {\"text\": \"b\", \"state\": "
                "\"active\"}]}",
                80, "b");
    expect_call("own", "{\"n\": 1, \"what\": \"some\"}", 80, "some");
    expect_call("own", "{}", 80, "");
    expect_call("bash", "{}", 0, "");
}

static void expect_result(const char *name, const char *data, bool failed, const char *text,
                          const char *wanted)
{
    struct buf out = BUF_INIT(4096);
    struct tool_result r = TOOL_RESULT_INIT;
    r.data = data ? json_loads(data, 0, NULL) : NULL;
    r.failed = failed;
    buf_append_str(&r.text, text);
    assert_int_equal(summary_of_result(name, &r, 40, &out), 0);
    assert_string_equal(buf_cstr(&out), wanted);
    tool_result_free(&r);
    buf_free(&out);
}

static void test_results_in_one_line(void **state)
{
    expect_result("bash", "{\"exit_code\": 0, \"signal\": null}", false, "", "");
    expect_result("bash", "{\"exit_code\": 2}", false, "", "exit 2");
    expect_result("bash", "{\"exit_code\": 124, \"killed_by\": \"timeout\"}", false, "",
                  "ended by the limit on timeout");
    expect_result("bash", "{\"running\": true, \"handle\": 4}", false, "",
                  "runs in the background as 4");
    expect_result("edit_file", "{\"diff\": \"@@ -1 +1 @@\\n-a\\n+b\\n+c\\n\"}", false, "", "+2 -1");
    expect_result("write_file", "{\"action\": \"created\", \"lines\": 1}", false, "",
                  "created, 1 line");
    expect_result("run_tests", "{\"passed\": 3, \"failed\": 1, \"errors\": 0}", false, "",
                  "3 passed, 1 failed");
    expect_result("search_files", "{\"matches\": 0}", false, "", "no match");
    expect_result("read_file", NULL, true, "x: no such file\nmore", "x: no such file");
    expect_result("own", NULL, false, "anything", "");
}

static void test_times(void **state)
{
    char out[SUMMARY_TIME_MAX];
    assert_string_equal(summary_time(0.04, out), "0.0s");
    assert_string_equal(summary_time(9.94, out), "9.9s");
    assert_string_equal(summary_time(12.7, out), "12s");
    assert_string_equal(summary_time(185, out), "3m05s");
    assert_string_equal(summary_time(3720, out), "1h02m");
    assert_string_equal(summary_time(-1, out), "0.0s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_in_one_line),
        cmocka_unit_test(test_results_in_one_line),
        cmocka_unit_test(test_times),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
