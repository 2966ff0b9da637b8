/* Output on its way to a model: what is shown of it, and how the cut is made. There is no box:
 * nothing is spilled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "keeper.h"
#include "session.h"
#include "text.h"
#include "tool_text.h"

/* A box that nobody holds: every request fails. */
static struct box *nowhere;

struct output {
    struct tool_call call;
    struct kept_output kept;
    struct buf text;
};

static void begin(struct output *o)
{
    *o = (struct output){.call = {.cancel = -1}, .text = BUF_INIT(1u << 20)};
    assert_int_equal(tool_session_new(nowhere, &o->call.session, NULL), 0);
    kept_output_init(&o->kept, &o->call);
}

static const char *finish(struct output *o)
{
    kept_output_finish(&o->kept);
    assert_int_equal(kept_output_text(&o->kept, NULL, &o->text), 0);
    assert_true(utf8_valid(o->text.data, o->text.len));
    return buf_cstr(&o->text);
}

static void end(struct output *o)
{
    kept_output_free(&o->kept);
    buf_free(&o->text);
    tool_session_free(o->call.session);
}

static void add(struct output *o, const char *piece, size_t times)
{
    for (size_t i = 0; i < times; i++)
        kept_output_add(&o->kept, piece, strlen(piece));
}

static void short_output_is_whole(void **state)
{
    struct output o;
    begin(&o);
    add(&o, "one\n", 1);
    add(&o, "two", 1);
    assert_string_equal(finish(&o), "one\ntwo");
    assert_false(kept_output_is_cut(&o.kept));
    end(&o);
}

static void as_much_as_is_shown(void **state)
{
    struct output o;
    begin(&o);
    add(&o, "0123456789", KEPT_OUTPUT_MAX / 10);
    assert_int_equal(strlen(finish(&o)), KEPT_OUTPUT_MAX);
    assert_false(kept_output_is_cut(&o.kept));
    end(&o);
}

/* 7 bytes a line: no half of the limit ends with one. */
static void cut_between_lines(void **state)
{
    struct output o;
    unsigned bytes, lines;
    begin(&o);
    add(&o, "123456\n", 10000);
    const char *text = finish(&o), *gap = strstr(text, "[... ");
    assert_non_null(gap);
    assert_int_equal((gap - text) % 7, 0);
    assert_int_equal(sscanf(gap, "[... %u bytes (%u lines)", &bytes, &lines), 2);
    assert_int_equal(bytes, 7 * lines);
    const char *tail = strstr(gap, " ...]\n") + strlen(" ...]\n");
    assert_int_equal(strlen(tail) % 7, 0);
    assert_int_equal((size_t)(gap - text) + bytes + strlen(tail), 70000);
    assert_non_null(strstr(gap, "could not be kept"));
    end(&o);
}

static void cut_between_characters(void **state)
{
    struct output o;
    begin(&o);
    add(&o, "x", 1);
    add(&o, "\xe2\x86\x92", 20000);
    const char *text = finish(&o);
    assert_null(strstr(text, "\xef\xbf\xbd")); /* no character was cut in two */
    assert_non_null(strstr(text, "(0 lines)"));
    end(&o);
}

static void bytes_that_are_no_text(void **state)
{
    struct output o;
    begin(&o);
    for (int i = 0; i < 300; i++)
        kept_output_add(&o.kept, "\xff\0\x80\xc3", 4);
    finish(&o);
    end(&o);
}

static void one_piece_of_everything(void **state)
{
    static char much[200000];
    struct output o;
    begin(&o);
    memset(much, 'a', sizeof much);
    kept_output_add(&o.kept, much, sizeof much);
    finish(&o);
    assert_int_equal(o.kept.kept.total, sizeof much);
    assert_true(o.text.len < KEPT_OUTPUT_MAX + 300);
    end(&o);
}

static void keep(void *data, double seconds, const char *message)
{
    assert_true(seconds >= 0);
    snprintf(data, 256, "%s", message);
}

/* What is told now of the output so far; nothing before its time has come. */
static const char *tick(struct output *o, char *line)
{
    struct tool_progress progress = {.say = keep, .data = line};
    struct ticker ticker;
    o->call.progress = &progress;
    ticker_start(&ticker, &o->call);
    strcpy(line, "nothing");
    ticker_tick(&ticker, &o->kept.kept);
    assert_string_equal(line, "nothing");
    ticker.next = 0;
    ticker_tick(&ticker, &o->kept.kept);
    return line;
}

static void test_progress(void **state)
{
    char line[256];
    struct output o;
    begin(&o);
    assert_string_equal(tick(&o, line), "");
    add(&o, "first\nlast one\n\n  ", 1);
    assert_string_equal(tick(&o, line), "last one");
    add(&o, "\n10%\r20%\r", 1);
    assert_string_equal(tick(&o, line), "20%");
    end(&o);
}

int main(void)
{
    assert_int_equal(keeper_attach(&(struct registry_id){"nowhere0"}, &nowhere, NULL), 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_output_is_whole),  cmocka_unit_test(as_much_as_is_shown),
        cmocka_unit_test(cut_between_lines),      cmocka_unit_test(cut_between_characters),
        cmocka_unit_test(bytes_that_are_no_text), cmocka_unit_test(one_piece_of_everything),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
