/* Observations: what differs from run to run is not in them, nothing hidden is, and they are
 * bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "observation.h"

static const char *text_of(const json_t *o)
{
    return json_string_value(json_object_get(o, "text"));
}

static void test_scrub(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},
        {"1 failed, 3 passed in 0.02s", "1 failed, 3 passed in ?s"},
        {"took 12.5 ms, 0.1 s and 3.25 seconds", "took ? ms, ? s and ? seconds"},
        {"<calc.Calc object at 0x7f12ab34cd56>", "<calc.Calc object at ?>"},
        {"# duration_ms 4.2", "# duration_ms ?"},
        {"# duration_ms 17", "# duration_ms ?"},
        {"time=\"0.003\" tests=\"4\"", "time=\"?\" tests=\"4\""},
        {"\"duration\": 5, \"n\": 5", "\"duration\": ?, \"n\": 5"},
        /* A longer time makes shorter fillings, and from a minute on pytest adds a clock. */
        {"a\n====== 4 deselected in 0.05s ======\nb", "a\n=== 4 deselected in ?s ===\nb"},
        {"a\n===== 4 deselected in 12.05s ======\nb", "a\n=== 4 deselected in ?s ===\nb"},
        {"==== 1 passed in 75.20s (0:01:15) ====", "=== 1 passed in ?s ==="},
        {"====== FAILURES ======\n__ test_1 __", "====== FAILURES ======\n__ test_1 __"},
        /* What is not a time stays. */
        {"1 passed (0:01:15)", "1 passed (0:01:15)"},
        {"assert 0.1 + 0.2 == 0.3", "assert 0.1 + 0.2 == 0.3"},
        {"3 s is a whole number, 1.5 seats too", "3 s is a whole number, 1.5 seats too"},
        {"0xff is no address", "0xff is no address"},
        {"python3.11s", "python3.11s"},
        {"v1.2.3s", "v1.2.3s"},
        {"1.2.", "1.2."},
        {"runtime 5", "runtime 5"},
        {"12.5s", "?s"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b = BUF_INIT(4096);
        assert_int_equal(observe_scrub(cases[i].from, strlen(cases[i].from), &b), 0);
        assert_string_equal(buf_cstr(&b), cases[i].to);
        buf_free(&b);
    }
}

static json_t *tool(const char *name, const char *text, json_t *data)
{
    struct tool_result r = TOOL_RESULT_INIT;
    r.data = data;
    text_append(&r.text, text, strlen(text));
    json_t *o = observe_tool(name, &r);
    assert_non_null(o);
    tool_result_free(&r);
    return o;
}

static void test_times_are_left_out(void **state)
{
    json_t *o = tool("bash", "x\n", json_pack("{s:i, s:i}", "duration_ms", 12, "exit_code", 3));
    json_t *data = json_object_get(o, "data");
    assert_null(json_object_get(data, "duration_ms"));
    assert_int_equal(json_integer_value(json_object_get(data, "exit_code")), 3);
    assert_string_equal(text_of(o), "x\n");
    json_decref(o);
    o = tool("bash", "out\n[still running after 1.5 s]\n", NULL);
    assert_string_equal(text_of(o), "out\n[still running]\n");
    json_decref(o);
    /* What the agent's own command prints is not touched. */
    o = tool("bash", "1 passed in 0.02s\n", NULL);
    assert_string_equal(text_of(o), "1 passed in 0.02s\n");
    json_decref(o);
    o = tool("run_tests", "pytest: 1 passed, exit code 0 after 0.25 s\n",
             json_pack("{s:f, s:s, s:[{s:s}]}", "duration", 0.25, "output", "in 0.25s", "tests",
                       "message", "at 0x7f0000000000"));
    data = json_object_get(o, "data");
    assert_null(json_object_get(data, "duration"));
    assert_string_equal(json_string_value(json_object_get(data, "output")), "in ?s");
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(data, "tests"), 0), "message")),
                        "at ?");
    assert_string_equal(text_of(o), "pytest: 1 passed, exit code 0 after ? s\n");
    json_decref(o);
}

static void test_bounds(void **state)
{
    size_t n = OBSERVE_TEXT_MAX * 3;
    char *text = malloc(n + 1);
    for (size_t i = 0; i < n; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3); /* cut within a character it would not be valid */
    text[n] = 0;
    json_t *o = observe_text(text, false);
    const char *kept = text_of(o);
    assert_in_range(strlen(kept), OBSERVE_TEXT_MAX / 2, OBSERVE_TEXT_MAX + 64);
    assert_non_null(strstr(kept, "bytes left out"));
    json_decref(o);
    char *much = malloc(OBSERVE_DATA_MAX + 2);
    memset(much, 'x', OBSERVE_DATA_MAX + 1);
    much[OBSERVE_DATA_MAX + 1] = 0;
    o = tool("bash", "", json_pack("{s:s}", "output", much));
    assert_true(json_is_true(json_object_get(json_object_get(o, "data"), "left_out")));
    json_decref(o);
    free(much);
    free(text);
}

/* A test whose name and message are never freed. */
static struct grade_test test_of(const char *name, enum grade_outcome outcome, char *message)
{
    return (struct grade_test){.name = (char *)name, .outcome = outcome, .message = message};
}

static char HIDDEN_PATH[] = "tests/test_hidden.py";
static struct task_file HIDDEN_FILE = {.path = HIDDEN_PATH};
static char MESSAGE[] = "assert 1 == 2", SECRET[] = "secret", DISCARDED[] = "M tests/test_seen.py";

static void test_hidden_tests_are_counted_only(void **state)
{
    char *discarded[] = {DISCARDED};
    struct task t = {.hidden = {&HIDDEN_FILE, 1}, .tests = {.runner = TASK_PYTEST}};
    struct grade_test tests[] = {
        test_of("tests/test_hidden.py::test_a", GRADE_FAILED, SECRET),
        test_of("tests/test_hidden.py::test_b", GRADE_PASSED, NULL),
        test_of("tests/test_seen.py::test_c", GRADE_PASSED, NULL),
        test_of("tests/test_seen.py::test_d", GRADE_FAILED, MESSAGE),
        test_of("tests/test_seen.py::test_e", GRADE_MISSING, NULL),
    };
    struct grade g = {
        .tests = tests, .count = 5, .passed = 2, .pass_rate = 0.4, .discarded = {discarded, 1}};
    json_t *verdict = observe_verdict(&t, &g);
    json_t *o = observe_grade(&t, &g, verdict);
    assert_non_null(o);
    char *dump = json_dumps(o, 0), *info = json_dumps(verdict, 0);
    assert_null(strstr(dump, "secret"));
    assert_null(strstr(dump, "hidden.py"));
    assert_null(strstr(info, "secret"));
    assert_null(strstr(info, "hidden.py"));
    assert_non_null(
        strstr(text_of(o), "2 of 5 tests passed.\nOf these, 2 are hidden; 1 of them passed.\n"));
    assert_non_null(strstr(text_of(o), "FAILED tests/test_seen.py::test_d\n    assert 1 == 2\n"));
    assert_non_null(strstr(text_of(o), "MISSING tests/test_seen.py::test_e\n"));
    assert_non_null(strstr(text_of(o), "M tests/test_seen.py"));
    assert_int_equal(json_array_size(json_object_get(verdict, "tests")), 3);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(verdict, "hidden"), "count")), 2);
    free(dump), free(info);
    json_decref(o), json_decref(verdict);

    /* Without pytest's names it cannot be told which are hidden: all are. */
    t.tests.runner = TASK_COMMAND;
    verdict = observe_verdict(&t, &g);
    assert_int_equal(json_array_size(json_object_get(verdict, "tests")), 0);
    json_decref(verdict);
}

static void test_look(void **state)
{
    char command[] = "python3 -m pytest";
    struct task t = {.tests = {.runner = TASK_PYTEST, .command = command}};
    struct grade_test tests[] = {
        test_of("t.py::test_a", GRADE_PASSED, NULL),
        test_of("t.py::test_b", GRADE_FAILED, MESSAGE),
        test_of("t.py::test_c", GRADE_SKIPPED, NULL),
    };
    struct grade g = {.tests = tests, .count = 3, .passed = 1, .pass_rate = 1.0 / 3};
    json_t *o = observe_test_run(&t, &g);
    json_t *data = json_object_get(o, "data");
    assert_string_equal(
        text_of(o),
        "pytest: 1 failed, 1 passed, 1 skipped\n\nFAILED t.py::test_b\n    assert 1 == 2\n");
    assert_int_equal(json_integer_value(json_object_get(data, "passed")), 1);
    assert_int_equal(json_integer_value(json_object_get(data, "failed")), 1);
    assert_false(json_is_true(json_object_get(o, "failed")));
    json_decref(o);

    char trouble[] = "the run was stopped: cpu-time", output[] = "spinning";
    struct grade none = {.trouble = trouble, .output = output};
    o = observe_test_run(&t, &none);
    assert_string_equal(text_of(o), "pytest: no tests were run\nthe run was stopped: "
                                    "cpu-time\n\nThe end of the output:\nspinning\n");
    assert_true(json_is_true(json_object_get(o, "failed")));
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scrub),  cmocka_unit_test(test_times_are_left_out),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_hidden_tests_are_counted_only),
        cmocka_unit_test(test_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
