/* .env files: what is read of them, what is told as broken, and the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "dotenv.h"

/* What the parser made of a text: "NAME=value|" for each, "!line|" for what is broken. */
static char seen[4096];

static void see(void *data, const char *name, const char *value)
{
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s=%s|", name, value);
}

static void see_broken(void *data, unsigned line, const char *why)
{
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "!%u|", line);
}

static const char *parsed(const char *text)
{
    struct dotenv_sink sink = {see, see_broken, NULL};
    seen[0] = 0;
    assert_int_equal(dotenv_parse(text, strlen(text), &sink), 0);
    return seen;
}

static void test_dotenv(void **state)
{
    assert_string_equal(parsed(""), "");
    assert_string_equal(
        parsed("\xef\xbb\xbf# hello\n\n  A=1\nexport B = two words  # said\r\nC=x#y\nD=\n"),
        "A=1|B=two words|C=x#y|D=|");
    assert_string_equal(parsed("A='it is $(rm -rf /) \\n'\nB=\"a\\tb\\\"c\\\\ ${A} `id`\" # c\n"),
                        "A=it is $(rm -rf /) \\n|B=a\tb\"c\\ ${A} `id`|");
    assert_string_equal(parsed("A=\"1\n2\"\nB\nC=3"), "A=1\n2|!3|C=3|");
    assert_string_equal(parsed("A='open\nB=2\n"), "!1|B=2|");
    assert_string_equal(parsed("A='x' y\n=1\n1A=2\nB=3\n"), "!1|!2|!3|B=3|");
    assert_string_equal(parsed("exportA=1\nexport\nA.b=2"), "exportA=1|!2|A.b=2|");
}

static void test_dotenv_limits(void **state)
{
    struct dotenv_sink sink = {see, see_broken, NULL};
    static char text[DOTENV_VALUE_MAX + 100];
    memset(text, 'x', sizeof text);
    memcpy(text, "A=", 2);
    for (size_t extra = 0; extra < 2; extra++) {
        seen[0] = 0;
        assert_int_equal(dotenv_parse(text, 2 + DOTENV_VALUE_MAX + extra, &sink), 0);
        assert_int_equal(strcmp(seen, "!1|") == 0, extra == 1);
    }
    memset(text, 'N', 200);
    text[200] = '=';
    seen[0] = 0;
    assert_int_equal(dotenv_parse(text, 210, &sink), 0);
    assert_string_equal(seen, "!1|");
    seen[0] = 0;
    assert_int_equal(dotenv_parse("A=b\0c\nB=1", 9, &sink), 0);
    assert_string_equal(seen, "!1|B=1|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dotenv),
                                       cmocka_unit_test(test_dotenv_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
