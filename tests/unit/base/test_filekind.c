/* What files seem to be; UTF-16 and base64, which come with it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "filekind.h"
#include "text.h"

static void expect(const char *head, size_t n, enum filekind kind, const char *name)
{
    const char *got = NULL;
    assert_int_equal(filekind_of((const uint8_t *)head, n, &got), kind);
    assert_string_equal(got, name);
}

static void test_kinds(void **state)
{
    expect("\x89PNG\r\n\x1a\n....", 12, FILEKIND_IMAGE, "image/png");
    expect("\xff\xd8\xff\xe0", 4, FILEKIND_IMAGE, "image/jpeg");
    expect("GIF89a", 6, FILEKIND_IMAGE, "image/gif");
    expect("RIFF....WEBP", 12, FILEKIND_IMAGE, "image/webp");
    expect("RIFF....WAVE\0", 13, FILEKIND_BINARY, "RIFF audio or video");
    expect("\xff\xfe"
           "a\0",
           4, FILEKIND_UTF16LE, "UTF-16 text");
    expect("\x7f"
           "ELF\2\1",
           6, FILEKIND_BINARY, "an ELF program, library or object");
    expect("a\0b", 3, FILEKIND_BINARY, "binary data");
    expect("GIF8", 4, FILEKIND_TEXT, "text");
    expect("plain", 5, FILEKIND_TEXT, "text");
    expect("", 0, FILEKIND_TEXT, "text");
}

static void test_tar_is_told_behind_its_first_name(void **state)
{
    char head[512];
    memset(head, 'x', sizeof head);
    memcpy(head + 257, "ustar", 5);
    expect(head, sizeof head, FILEKIND_BINARY, "a tar archive");
}

static void expect_utf16(const char *in, size_t n, bool big, const char *want)
{
    _cleanup_buf_ struct buf out = BUF_INIT(1000);
    assert_int_equal(utf16_append(&out, (const uint8_t *)in, n, big), 0);
    assert_string_equal(buf_cstr(&out), want);
}

static void test_utf16(void **state)
{
    expect_utf16("\xff\xfe"
                 "a\0\xe4\0\n\0",
                 8, false, "aä\n");
    expect_utf16("\xfe\xff\0a\x20\xac", 6, true, "a€");
    expect_utf16("\x3d\xd8\x07\xdc", 4, false, "\xf0\x9f\x90\x87");
    expect_utf16("\x3d\xd8"
                 "a\0",
                 4, false,
                 "\xef\xbf\xbd"
                 "a");
    expect_utf16("\x07\xdc", 2, false, "\xef\xbf\xbd");
    expect_utf16("a\0b", 3, false, "a\xef\xbf\xbd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_tar_is_told_behind_its_first_name),
        cmocka_unit_test(test_utf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
