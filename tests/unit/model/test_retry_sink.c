/* Nothing shown twice: what a second attempt repeats is held back, and what differs is taken back
 * once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "http.h"
#include "text.h"

/* A log of events, and the person's view: what a screen would hold after them. */
struct screen {
    struct buf log, text, thinking;
};

static void show(void *data, const struct model_event *e)
{
    struct screen *s = data;
    switch (e->kind) {
    case MODEL_TEXT:
        assert_int_equal(e->text[e->n], 0);
        assert_true(utf8_valid((const uint8_t *)e->text, e->n));
        buf_append(&s->text, e->text, e->n);
        buf_printf(&s->log, "+%s ", e->text);
        break;
    case MODEL_THINKING:
        buf_append(&s->thinking, e->text, e->n);
        buf_printf(&s->log, "~%s ", e->text);
        break;
    case MODEL_CALL:
        buf_printf(&s->log, "!%s ", e->text);
        break;
    case MODEL_BACK:
        assert_true(e->keep <= s->text.len && e->keep_thinking <= s->thinking.len);
        s->text.len = e->keep;
        s->thinking.len = e->keep_thinking;
        buf_printf(&s->log, "<%zu,%zu ", e->keep, e->keep_thinking);
        break;
    default:
        buf_printf(&s->log, "?");
    }
}

struct fixture {
    struct screen screen;
    struct model_sink outer, inner;
    struct retry_sink shown;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->screen = (struct screen){BUF_INIT(1 << 20), BUF_INIT(1 << 20), BUF_INIT(1 << 20)};
    f->outer = (struct model_sink){.event = show, .data = &f->screen};
    retry_sink_init(&f->shown, &f->outer);
    f->inner = retry_sink_input(&f->shown);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    buf_free(&f->screen.log);
    buf_free(&f->screen.text);
    buf_free(&f->screen.thinking);
    retry_sink_free(&f->shown);
    free(f);
    return 0;
}

static void tell(struct fixture *f, enum model_event_kind kind, const char *text)
{
    const struct model_event e = {.kind = kind, .text = text, .n = strlen(text)};
    f->inner.event(f->inner.data, &e);
}

static void say(struct fixture *f, const char *text)
{
    tell(f, MODEL_TEXT, text);
}

static void expect(struct fixture *f, const char *log)
{
    assert_string_equal(buf_cstr(&f->screen.log), log);
}

static void test_first_attempt_passes(void **state)
{
    struct fixture *f = *state;
    tell(f, MODEL_THINKING, "hm");
    say(f, "Hel");
    say(f, "lo");
    tell(f, MODEL_CALL, "bash");
    retry_sink_end(&f->shown);
    expect(f, "~hm +Hel +lo !bash ");
}

static void test_repeat_is_held_back(void **state)
{
    struct fixture *f = *state;
    tell(f, MODEL_THINKING, "hmm");
    say(f, "Hello");
    retry_sink_restart(&f->shown);
    assert_true(retry_sink_is_behind(&f->shown));
    tell(f, MODEL_THINKING, "h");
    tell(f, MODEL_THINKING, "mm");
    say(f, "He");
    say(f, "llo, world");
    assert_false(retry_sink_is_behind(&f->shown));
    retry_sink_end(&f->shown);
    expect(f, "~hmm +Hello +, world ");
}

static void test_difference_goes_back_once(void **state)
{
    struct fixture *f = *state;
    tell(f, MODEL_THINKING, "abc");
    say(f, "Hello world");
    retry_sink_restart(&f->shown);
    tell(f, MODEL_THINKING, "abc");
    say(f, "Hello there");
    say(f, " you");
    retry_sink_end(&f->shown);
    expect(f, "~abc +Hello world <6,3 +there + you ");
}

static void test_thinking_that_differs_takes_the_text_back(void **state)
{
    struct fixture *f = *state;
    tell(f, MODEL_THINKING, "abc");
    say(f, "Hi");
    retry_sink_restart(&f->shown);
    tell(f, MODEL_THINKING, "axy");
    say(f, "Hi");
    expect(f, "~abc +Hi <0,1 ~xy +Hi ");
}

static void test_difference_within_a_character(void **state)
{
    struct fixture *f = *state;
    say(f, "aä"); /* c3 a4 and c3 b6 share their first byte */
    retry_sink_restart(&f->shown);
    say(f, "aö");
    expect(f, "+aä <1,0 +ö ");
}

static void test_shorter_answer_takes_back(void **state)
{
    struct fixture *f = *state;
    say(f, "Hello world");
    retry_sink_restart(&f->shown);
    say(f, "Hello");
    retry_sink_end(&f->shown);
    expect(f, "+Hello world <5,0 ");
}

static void test_three_attempts(void **state)
{
    struct fixture *f = *state;
    say(f, "one two three");
    retry_sink_restart(&f->shown);
    say(f, "one"); /* breaks off before it has caught up */
    retry_sink_restart(&f->shown);
    say(f, "one two");
    say(f, " three four");
    retry_sink_end(&f->shown);
    expect(f, "+one two three + four ");
}

static void test_calls_are_told_once(void **state)
{
    struct fixture *f = *state;
    tell(f, MODEL_CALL, "bash");
    tell(f, MODEL_CALL, "read_file");
    retry_sink_restart(&f->shown);
    tell(f, MODEL_CALL, "bash");
    tell(f, MODEL_CALL, "edit_file");
    tell(f, MODEL_CALL, "bash");
    expect(f, "!bash !read_file !edit_file !bash ");
}

/* Whatever the attempts say, in whatever pieces, the screen ends with the last one's words. */
static void test_screen_ends_right(void **state)
{
    static const char *const WORDS[] = {"a", "ä", "ö", "ab", "日", "本", " ", "𝄞"};
    uint32_t dice = 12345;
    for (int round = 0; round < 2000; round++) {
        void *one;
        set_up(&one);
        struct fixture *f = one;
        _cleanup_buf_ struct buf want = BUF_INIT(4096);
        for (int attempt = 0; attempt < 3; attempt++) {
            want.len = 0;
            if (attempt)
                retry_sink_restart(&f->shown);
            for (int i = 0, n = (dice >> 8) % 6; i < n; i++) {
                dice = dice * 1664525 + 1013904223;
                const char *word = WORDS[(dice >> 16) % (i == 0 ? 2 : 8)];
                say(f, word);
                buf_append_str(&want, word);
            }
            dice = dice * 1664525 + 1013904223;
        }
        retry_sink_end(&f->shown);
        assert_string_equal(buf_cstr(&f->screen.text), buf_cstr(&want));
        tear_down(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_attempt_passes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_repeat_is_held_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_difference_goes_back_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_thinking_that_differs_takes_the_text_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_difference_within_a_character, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shorter_answer_takes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_three_attempts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_calls_are_told_once, set_up, tear_down),
        cmocka_unit_test(test_screen_ends_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
