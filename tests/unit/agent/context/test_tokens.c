/* Estimates of tokens: within reach of what tokenizers say, and better with every report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "context.h"

static uint64_t of(const char *text)
{
    return tokens_of_text(text, strlen(text));
}

/* What byte-pair tokenizers make of these lies between the two. */
static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        uint64_t least, most;
    } samples[] = {
        {"", 0, 0},
        {"The quick brown fox jumps over the lazy dog.", 8, 13},
        {"for (size_t i = 0; i < n; i++)\n        sum += values[i] * weights[i];\n", 22, 38},
        {"{\"type\": \"object\", \"properties\": {\"path\": {\"type\": \"string\"}}}", 16, 40},
        {"internationalization", 2, 5},
        {"1234567890", 3, 5},
        {"你好,世界。今天天气很好", 8, 16},
        {"Привет, как дела?", 5, 12},
        {"🎉🎉🎉", 3, 9},
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        uint64_t n = of(samples[i].text);
        if (n < samples[i].least || n > samples[i].most)
            fail_msg("%s: %llu", samples[i].text, (unsigned long long)n);
    }
}

static void test_blocks(void **state)
{
    char big[4000];
    memset(big, 'A', sizeof big);
    json_t *image = json_pack("{s:s, s:s, s:s#}", "type", "image", "mime", "image/png", "data", big,
                              (int)sizeof big);
    json_t *odd = json_pack("{s:i}", "type", 3);
    json_t *call =
        json_pack("{s:s, s:s, s:s}", "type", "tool_use", "id", "x", "name", "bash"); /* no input */
    assert_int_equal(tokens_of_block(image), TOKENS_IMAGE);
    assert_true(tokens_of_block(odd) < 10);
    assert_true(tokens_of_block(call) > 10);
    json_t *message = json_pack("{s:s, s:[O, O]}", "role", "user", "content", image, call);
    assert_int_equal(tokens_of_message(message),
                     TOKENS_MESSAGE + TOKENS_IMAGE + tokens_of_block(call));
    json_decref(message);
    json_decref(image);
    json_decref(odd);
    json_decref(call);
}

static void test_ratio(void **state)
{
    struct tokens_ratio r = TOKENS_RATIO_INIT;
    assert_int_equal(tokens_corrected(&r, 1000), 1000);
    tokens_learn(&r, 1000, 1300);
    assert_int_equal(tokens_corrected(&r, 1000), 1300);
    for (int i = 0; i < 20; i++)
        tokens_learn(&r, 1000, 900);
    assert_in_range(tokens_corrected(&r, 1000), 900, 905);
    tokens_learn(&r, 1000, 1000000); /* nonsense moves it a little, within bounds */
    assert_true(r.value <= TOKENS_RATIO_MAX && r.value < 2.5);
    struct tokens_ratio kept = r;
    tokens_learn(&r, 1000, 0);
    tokens_learn(&r, 10, 500); /* too little to learn from */
    assert_true(r.value == kept.value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
