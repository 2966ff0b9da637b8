/* Base64, there and back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "encoding.h"
#include "text.h"

static void expect(const char *text, const char *bytes)
{
    _cleanup_buf_ struct buf b = BUF_INIT(100);
    assert_int_equal(base64_decode(&b, text, strlen(text)), 0);
    assert_int_equal(b.len, strlen(bytes));
    assert_memory_equal(b.len ? (const char *)b.data : "", bytes, b.len);
}

static void test_decode(void **state)
{
    expect("", "");
    expect("Zg==", "f");
    expect("Zm8=", "fo");
    expect("Zm9v", "foo");
    expect("Zm9vYg", "foob");
    expect("Zm 9v\r\nYmE=\n", "fooba");
}

static void test_refuse(void **state)
{
    static const char *const bad[] = {
        "Z", "Zm9vY", "Zg=", "Zg===", "Z===", "Zm=v", "Zm9v=", "Z!==", "=", "Zm9vYg==="};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(100);
        assert_int_equal(base64_decode(&b, bad[i], strlen(bad[i])), -EINVAL);
    }
    _cleanup_buf_ struct buf small = BUF_INIT(2);
    assert_int_equal(base64_decode(&small, "Zm9v", 4), -ENOBUFS);
}

static void test_there_and_back(void **state)
{
    uint8_t bytes[257];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + 1);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        _cleanup_buf_ struct buf text = BUF_INIT(1000), back = BUF_INIT(1000);
        assert_int_equal(base64_append(&text, bytes, n), 0);
        assert_int_equal(base64_decode(&back, (const char *)text.data, text.len), 0);
        assert_int_equal(back.len, n);
        if (n)
            assert_memory_equal(back.data, bytes, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
