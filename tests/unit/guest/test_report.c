/*
 * The parsers of test reports. Each file in reports/ is what a real runner wrote (or, where it
 * cannot be had here, what its documentation shows); beside it lies what must come out, one line
 * per test:
 *
 *     outcome | name | file:line | the message's first line
 *
 * HUTCH_WRITE_EXPECTED=1 writes those files anew, for a person to read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "report/report.h"
#include "text.h"

static const char *const OUTCOMES[] = {"?", "passed", "failed", "error", "skipped"};

static int print_test(void *data, const struct report_test *t)
{
    struct buf *out = data;
    assert_true(utf8_valid((const uint8_t *)t->name, strlen(t->name)));
    assert_true(utf8_valid((const uint8_t *)t->message, strlen(t->message)));
    assert_true(strlen(t->name) <= REPORT_NAME_MAX);
    buf_printf(out, "%s | %s | %s:%lu | %.*s\n", OUTCOMES[t->outcome], t->name, t->file,
               (unsigned long)t->line, (int)strcspn(t->message, "\n"), t->message);
    return 0;
}

/* Recognises and parses; the text is the list of tests, and behind it the error if there was
 * one. */
static void parse(const void *data, size_t n, struct report *r, struct buf *out)
{
    _cleanup_free_ char *text = calloc(1, n + 1);
    struct error err = {0};
    memcpy(text, data, n);
    *r = (struct report){.emit = print_test, .data = out};
    const struct report_format *format = report_format_of(report_sniff(text, n));
    if (!format) {
        buf_append_str(out, "not recognised\n");
        return;
    }
    int result = format->parse(r, text, n, &err);
    if (result < 0)
        buf_printf(out, "! %d %s\n", result, err.text);
}

static void parse_text(const char *text, struct report *r, struct buf *out)
{
    parse(text, strlen(text), r, out);
    assert_non_null(buf_cstr(out));
}

static bool is_sample(const char *name)
{
    size_t n = strlen(name);
    return name[0] != '.' && !(n > 9 && strcmp(name + n - 9, ".expected") == 0);
}

static void check_sample(const char *name)
{
    char path[512];
    _cleanup_buf_ struct buf in = BUF_INIT(1 << 20), expected = BUF_INIT(1 << 20),
                             out = BUF_INIT(1 << 20);
    struct report r;
    snprintf(path, sizeof path, "%s/%s", SAMPLES, name);
    assert_int_equal(io_read_file(AT_FDCWD, path, &in), 0);
    parse(in.data, in.len, &r, &out);
    snprintf(path, sizeof path, "%s/%s.expected", SAMPLES, name);
    if (getenv("HUTCH_WRITE_EXPECTED")) {
        _cleanup_fclose_ FILE *f = fopen(path, "w");
        fwrite(out.data, 1, out.len, f);
        return;
    }
    if (io_read_file(AT_FDCWD, path, &expected) != 0)
        fail_msg("%s: there is no .expected beside it", name);
    if (strcmp(buf_cstr(&out), buf_cstr(&expected)) != 0)
        fail_msg("%s gives\n%sand not\n%s", name, buf_cstr(&out), buf_cstr(&expected));
}

static void samples(void **state)
{
    DIR *dir = opendir(SAMPLES);
    struct dirent *e;
    int n = 0;
    assert_non_null(dir);
    while ((e = readdir(dir))) {
        if (!is_sample(e->d_name))
            continue;
        check_sample(e->d_name);
        n++;
    }
    closedir(dir);
    assert_true(n > 30);
}

static void broken_bytes(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
    struct report r;
    parse_text("1..1\nnot ok 1 - a\xff\x1b[31mb\xe2\x98\n# m\xc0\r\n", &r, &out);
    assert_string_equal((char *)out.data, "failed | a\xef\xbf\xbd"
                                          "b\xef\xbf\xbd\xef\xbf\xbd | :0 | m\xef\xbf\xbd\n");
}

static int count_only(void *data, const struct report_test *t)
{
    size_t *n = data;
    (*n)++;
    return 0;
}

static void tests_over_the_limit_are_counted(void **state)
{
    _cleanup_buf_ struct buf in = BUF_INIT(64 << 20);
    size_t told = 0;
    const unsigned total = REPORT_TESTS_MAX + 5;
    buf_printf(&in, "1..%u\n", total);
    for (unsigned i = 1; i <= total; i++)
        buf_printf(&in, "ok %u\n", i);
    struct report r = {.emit = count_only, .data = &told};
    assert_int_equal(REPORT_TAP.parse(&r, buf_cstr(&in), in.len, NULL), 0);
    assert_int_equal(told, REPORT_TESTS_MAX);
    assert_int_equal(r.left_out, 5);
    assert_int_equal(r.counts[WIRE_OUTCOME_PASSED], total);
}

static void deep_nesting_ends(void **state)
{
    _cleanup_buf_ struct buf xml = BUF_INIT(1 << 20), tap = BUF_INIT(1 << 20),
                             out = BUF_INIT(1 << 20);
    struct report r;
    for (int i = 0; i < 1000; i++)
        buf_append_str(&xml, "<testsuite name=\"s\">");
    parse_text(buf_cstr(&xml), &r, &out);
    assert_non_null(strstr((char *)out.data, "! "));
    out.len = 0;
    buf_append_str(&tap, "1..1\nok 1 - top\n");
    for (int i = 0; i < 100; i++)
        buf_printf(&tap, "%*sok 1 - deep\n", i * 4, "");
    parse_text(buf_cstr(&tap), &r, &out);
    assert_true(r.total > REPORT_NEST_MAX && r.total < 100);
}

static void long_messages_keep_both_ends(void **state)
{
    struct clip c = CLIP_INIT;
    clip_add_str(&c, "begin ");
    for (int i = 0; i < 100000; i++)
        clip_add_str(&c, "middle ");
    clip_add_str(&c, "end");
    const char *text = clip_text(&c);
    assert_int_equal(strncmp(text, "begin middle", 12), 0);
    assert_non_null(strstr(text, "bytes left out"));
    assert_string_equal(text + strlen(text) - 10, "middle end");
    assert_true(strlen(text) <= REPORT_TEXT_MAX);
    clip_free(&c);
}

static void clips_of_any_length(void **state)
{
    static char bytes[4 * REPORT_TEXT_MAX];
    memset(bytes, 'x', sizeof bytes);
    for (size_t n = CLIP_HEAD - 2; n < sizeof bytes; n += 97) {
        struct clip c = CLIP_INIT;
        clip_add(&c, bytes, n / 2);
        clip_add(&c, bytes, n - n / 2);
        const char *text = clip_text(&c);
        bool whole = n <= CLIP_HEAD + CLIP_TAIL;
        assert_true(whole ? strlen(text) == n : strstr(text, "left out") != NULL);
        clip_free(&c);
    }
}

static int see_line(void *data, char *line, size_t n)
{
    assert_int_equal(strlen(line), n);
    buf_printf(data, "[%s]", line);
    return 0;
}

static void lines_end_in_every_way(void **state)
{
    char text[] = "first\nwith CR\r\n\nwith\0NUL\nlast";
    _cleanup_buf_ struct buf seen = BUF_INIT(4096);
    for (int i = 0; i < 2; i++) { /* the text stays as it is */
        seen.len = 0;
        assert_int_equal(report_each_line(text, sizeof text - 1, see_line, &seen), 0);
        assert_string_equal(buf_cstr(&seen), "[first][with CR][][with NUL][last]");
    }
}

static void check_place(const char *text, const char *like, const char *path, uint64_t line)
{
    char found[REPORT_PATH_MAX + 1];
    uint64_t at = 0;
    bool there = report_locate(text, like, found, &at);
    assert_int_equal(there, path != NULL);
    if (!path)
        return;
    assert_string_equal(found, path);
    assert_int_equal(at, line);
}

static void places(void **state)
{
    check_place("x\nsrc/a.py:12: AssertionError", NULL, "src/a.py", 12);
    check_place("  File \"/workspace/t.py\", line 3, in f", NULL, "/workspace/t.py", 3);
    check_place("#   at t/a.t line 15.", NULL, "t/a.t", 15);
    check_place("at Object.toBe (/w/a.test.js:8:17)", NULL, "/w/a.test.js", 8);
    check_place("panicked at src/lib.rs:7:38:", NULL, "src/lib.rs", 7);
    check_place("at x (node:internal/a.js:1:2)\nat b (b.js:3:4)", NULL, "b.js", 3);
    check_place("/w/node_modules/j/a.js:1:1 then a.js:5", NULL, "a.js", 5);
    check_place("lib/x.py:1 then tests/y.py:2", "/workspace/tests/y.py", "tests/y.py", 2);
    check_place("lib/x.py:1", "y.py", NULL, 0);
    check_place("at 12:30:15 on 127.0.0.1:80 v1.2:3 ...:4 .:5", NULL, NULL, 0);
    check_place("a.py:99999999999999999999", NULL, NULL, 0);
    check_place("", NULL, NULL, 0);
}

static void durations(void **state)
{
    assert_int_equal(report_seconds("1.5"), 1500000000);
    assert_int_equal(report_seconds("nan"), 0);
    assert_int_equal(report_seconds("1e400"), 0);
    assert_int_equal(report_seconds("-3"), 0);
    assert_int_equal(report_seconds("x"), 0);
}

static void nothing_is_recognised_in_prose(void **state)
{
    static const char *const TEXTS[] = {"",
                                        "\n",
                                        "5 passed in 0.1s\n",
                                        "ok, that works\nnot ok either\n",
                                        "{\"a\": 1}\n",
                                        "running late\n"};
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
        _cleanup_buf_ struct buf out = BUF_INIT(4096);
        struct report r;
        parse_text(TEXTS[i], &r, &out);
        assert_string_equal((char *)out.data, "not recognised\n");
    }
}

static void reports_that_are_nothing(void **state)
{
    size_t n = 0;
    char nothing[] = "";
    for (int format = WIRE_REPORT_JUNIT; format <= WIRE_REPORT_AUTOMAKE; format++) {
        struct report r = {.emit = count_only, .data = &n};
        struct error err = {0};
        report_format_of((enum wire_report_format)format)->parse(&r, nothing, 0, &err);
        assert_int_equal(r.total, 0);
    }
    assert_null(report_format_of((enum wire_report_format)8));
    assert_null(report_format_of((enum wire_report_format) - 1));
    assert_null(report_format_of(WIRE_REPORT_AUTO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples),
        cmocka_unit_test(broken_bytes),
        cmocka_unit_test(tests_over_the_limit_are_counted),
        cmocka_unit_test(deep_nesting_ends),
        cmocka_unit_test(long_messages_keep_both_ends),
        cmocka_unit_test(clips_of_any_length),
        cmocka_unit_test(lines_end_in_every_way),
        cmocka_unit_test(places),
        cmocka_unit_test(durations),
        cmocka_unit_test(nothing_is_recognised_in_prose),
        cmocka_unit_test(reports_that_are_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
