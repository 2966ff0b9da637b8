/* Curves and labels: what is drawn, escaped, thinned and cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "policy.h"
#include "text.h"
#include "banned.h"

/* Returns that rise from 0 to 1. */
static struct train_point *rising(size_t n)
{
    struct train_point *p = calloc(n + 1, sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = (struct train_point){.episode = i + 1, .ret = (double)i / (double)n, .pass_rate = 1};
    return p;
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static char *svg_of(const struct curve *c)
{
    struct buf out = BUF_INIT(1u << 20);
    assert_int_equal(curve_svg(c, &out), 0);
    assert_true(utf8_valid(out.data, out.len));
    char *text = strdup(buf_cstr(&out));
    buf_free(&out);
    return text;
}

static void test_the_average_is_that_of_the_last(void **state)
{
    struct train_point p[] = {{.ret = 1}, {.ret = 3}, {.ret = 5}, {.ret = 7}};
    double *mean = curve_average(p, 4, 2);
    assert_true(mean[0] == 1 && mean[1] == 2 && mean[2] == 4 && mean[3] == 6);
    free(mean);
    assert_true(curve_window(1) == 1 && curve_window(2000) > curve_window(100));
}

static void test_ticks_are_round(void **state)
{
    assert_true(fabs(curve_tick(1, 5) - 0.2) < 1e-12);
    assert_true(fabs(curve_tick(1.2, 5) - 0.5) < 1e-12);
    assert_true(fabs(curve_tick(2000, 8) - 500) < 1e-9);
    assert_true(curve_tick(0, 5) == 1 && curve_tick(NAN, 5) == 1);
}

static void test_svg_is_thinned(void **state)
{
    struct train_point *p = rising(100000);
    struct curve c = {.title = "t", .points = p, .n = 100000, .best = 0.9};
    char *text = svg_of(&c);
    assert_in_range(count(text, "<circle"), 500, 1500);
    assert_in_range(count(text, ","), 300, 4000);
    assert_true(strlen(text) < 120000);
    assert_non_null(strstr(text, "best: 0.9000"));
    assert_int_equal(count(text, "<svg"), 1);
    assert_int_equal(count(text, "</svg>"), 1);
    free(text);
    free(p);
}

static void test_svg_escapes_the_title(void **state)
{
    struct train_point *p = rising(3);
    struct curve c = {.title = "<b>\"a\" & \x1b[31m\xff é</b>", .points = p, .n = 3, .best = NAN};
    char *text = svg_of(&c);
    assert_int_equal(count(text, "&#60;b&#62;&#34;a&#34; &#38; [31m é&#60;/b&#62;"), 2);
    assert_null(strstr(text, "class=\"best\""));
    assert_null(strchr(text, '\x1b'));
    free(text);
    free(p);
}

static void test_svg_of_little(void **state)
{
    struct train_point *p = rising(1);
    for (size_t n = 0; n < 2; n++) {
        struct curve c = {.title = "t", .points = p, .n = n, .best = -0.5};
        char *text = svg_of(&c);
        assert_null(strstr(text, "nan"));
        assert_null(strstr(text, "inf"));
        free(text);
    }
    free(p);
}

static void test_svg_does_not_fit(void **state)
{
    struct buf out = BUF_INIT(1000);
    struct curve c = {.title = "t", .best = NAN};
    assert_true(curve_svg(&c, &out) < 0);
    buf_free(&out);
}

/* The line goes from the lower left to the upper right. */
static void test_text_shows_the_line(void **state)
{
    struct train_point *p = rising(400);
    struct curve c = {.title = "", .points = p, .n = 400, .best = NAN};
    struct buf out = BUF_INIT(1u << 16);
    assert_int_equal(curve_text(&c, 60, 10, false, &out), 0);
    char *rest = buf_cstr(&out), *line;
    unsigned rows = 0;
    size_t first_end = 0, last_end = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        if (rows == 0)
            first_end = strlen(line);
        if (rows == 7)
            last_end = strlen(line);
        rows++;
    }
    assert_int_equal(rows, 10);
    assert_true(first_end > last_end);
    assert_null(memchr(out.data, '\x1b', out.len));
    buf_free(&out);
    free(p);
}

static void test_text_has_colours_when_asked(void **state)
{
    struct train_point *p = rising(10);
    struct curve c = {.title = "", .points = p, .n = 10, .best = 0.95};
    struct buf out = BUF_INIT(1u << 16);
    assert_int_equal(curve_text(&c, 1, 1, true, &out), 0);
    assert_non_null(strstr(buf_cstr(&out), "\x1b[36m"));
    assert_non_null(strstr(buf_cstr(&out), "\x1b[32m"));
    assert_true(utf8_valid(out.data, out.len));
    buf_free(&out);
    free(p);
}

static void expect_label(const struct task *t, const char *action, const char *wanted)
{
    char text[64];
    json_t *o = json_loads(action, 0, NULL);
    assert_non_null(o);
    action_label(t, o, text, sizeof text);
    assert_string_equal(text, wanted);
    assert_true(utf8_valid((const uint8_t *)text, strlen(text)));
    json_decref(o);
}

static void test_labels(void **state)
{
    struct task_patch patches[] = {{.name = (char *)"fix-sign", .diff = (char *)"--- a\n+++ b\n"}};
    struct task t = {.patches = patches, .n_patches = 1};
    expect_label(&t, "{\"tool\": \"apply_diff\", \"diff\": \"--- a\\n+++ b\\n\"}",
                 "apply fix-sign");
    expect_label(&t,
                 "{\"tool\": \"apply_diff\", \"diff\": \"--- a\\n+++ b\\n\", \"reverse\": true}",
                 "revert fix-sign");
    expect_label(&t, "{\"tool\": \"apply_diff\", \"diff\": \"x\"}", "apply a diff");
    expect_label(&t, "{\"tool\": \"run_tests\"}", "run tests");
    expect_label(&t, "{\"tool\": \"submit\"}", "submit");
    expect_label(&t, "{\"tool\": \"read_file\", \"path\": \"src/a.py\"}", "read src/a.py");
    expect_label(&t, "{\"tool\": \"bash\", \"command\": \"echo \\u001b[31m\\nrm\"}",
                 "bash echo ?[31m…");
    expect_label(
        &t, "{\"tool\": \"bash\", \"command\": \"ääääääääääääääääääääääääääääääääääääääääää\"}",
        "bash äääääääääääääääääääääääääääää");
    expect_label(&t, "{}", "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_average_is_that_of_the_last),
        cmocka_unit_test(test_ticks_are_round),
        cmocka_unit_test(test_svg_is_thinned),
        cmocka_unit_test(test_svg_escapes_the_title),
        cmocka_unit_test(test_svg_of_little),
        cmocka_unit_test(test_svg_does_not_fit),
        cmocka_unit_test(test_text_shows_the_line),
        cmocka_unit_test(test_text_has_colours_when_asked),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
