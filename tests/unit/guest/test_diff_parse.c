/* Reading diffs: names, headers, hunks with right and wrong counts, binary patches, what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "patch/diff.h"
#include "text.h"

static struct diff parse(const char *text)
{
    struct diff d;
    struct error err = {0};
    int r = diff_parse(text, strlen(text), false, &d, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    return d;
}

static void refused(const char *text, int code, const char *said)
{
    struct diff d;
    struct error err = {0};
    assert_int_equal(diff_parse(text, strlen(text), false, &d, &err), -code);
    if (!strstr(err.text, said))
        fail_msg("said \"%s\", not \"%s\"", err.text, said);
}

static struct slice slice(const char *s)
{
    return (struct slice){s, strlen(s)};
}

static void name_is(const char *text, const char *expected)
{
    char *name = NULL;
    int r = name_parse(slice(text), &name);
    if (!expected) {
        assert_int_equal(r, -EINVAL);
        return;
    }
    assert_int_equal(r, 0);
    assert_string_equal(name, expected);
    free(name);
}

static void test_parses_names(void **state)
{
    name_is("a/x.c", "a/x.c");
    name_is("a/two words", "a/two words");
    name_is("a/x\t2024-05-01 10:00:00.1 +0200", "a/x");
    name_is("a/x 2024-05-01 10:00:00", "a/x");
    name_is("a/x  ", "a/x");
    name_is("a/trailing \t", "a/trailing ");
    name_is("\"a/\\303\\274 \\\"q\\\" \\t\\\\\"", "a/\303\274 \"q\" \t\\");
    name_is("\"a/open", NULL);
    name_is("\"a/\\400\"", NULL);
    name_is("\"a/\\000\"", NULL);
    name_is("\"a/\\x\"", NULL);
    name_is("", NULL);
    assert_true(name_is_nothing(slice("/dev/null")));
    assert_true(name_is_nothing(slice("a/x\t1970-01-01 00:00:00.000000000 +0000")));
    assert_false(name_is_nothing(slice("a/x\t1971-01-01 00:00:00")));
}

static void split_is(const char *text, const char *a, const char *b)
{
    char *x = NULL, *y = NULL;
    int r = name_split_git(slice(text), &x, &y);
    if (!a) {
        assert_true(r < 0);
        return;
    }
    assert_int_equal(r, 0);
    assert_string_equal(x, a);
    assert_string_equal(y, b);
    free(x);
    free(y);
}

static void test_splits_the_names_of_a_git_line(void **state)
{
    split_is("a/x b/x", "a/x", "b/x");
    split_is("x x", "x", "x");
    split_is("a/two words b/two words", "a/two words", "b/two words");
    split_is("\"a/\\303\" \"b/\\303\"", "a/\303", "b/\303");
    split_is("\"a/q\\\"\" b/q", "a/q\"", "b/q");
    split_is("a/q \"b/q\\\"\"", "a/q", "b/q\"");
    split_is("a/one b/other", NULL, NULL);
    split_is("\"a/one\"", NULL, NULL);
}

static void test_parses_headers(void **state)
{
    _cleanup_diff_ struct diff d = parse(
        "diff --git a/x b/y\nold mode 100644\nnew mode 100755\nsimilarity index 90%\nrename from "
        "x\nrename to y\n"
        "index 1234567..89abcde\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/n b/n\nnew file mode 100644\nindex 0000000..e69de29\n"
        "diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-t\n"
        "\\ No newline at end of file\n"
        "diff --git a/bin b/bin\nindex 1..2 100644\nBinary files a/bin and b/bin differ\n");
    assert_int_equal(d.n_files, 4);
    assert_int_equal(d.files[0].kind, DIFF_RENAME);
    assert_string_equal(d.files[0].from, "x");
    assert_string_equal(d.files[0].to, "y");
    assert_string_equal(d.files[0].new_id, "89abcde");
    assert_int_equal(d.files[0].new_mode, 0100755);
    assert_int_equal(d.files[1].kind, DIFF_ADD);
    assert_int_equal(d.files[1].hunks, 0);
    assert_int_equal(d.files[2].kind, DIFF_DELETE);
    assert_int_equal(d.files[2].old_mode, 0120000);
    assert_int_equal(d.lines[d.hunks[1].first].size, 1);
    assert_true(d.files[3].only_differs);
}

/* A hunk of one file, with its counts. */
static void hunk_is(const char *body, uint32_t old, uint32_t new, bool recounted, bool numbered)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    buf_printf(&b, "--- a/f\n+++ b/f\n%s", body);
    _cleanup_diff_ struct diff d = parse(buf_cstr(&b));
    assert_int_equal(d.n_hunks, 1);
    assert_int_equal(d.hunks[0].old_count, old);
    assert_int_equal(d.hunks[0].new_count, new);
    assert_int_equal(d.hunks[0].recounted, recounted);
    assert_int_equal(d.hunks[0].numbered, numbered);
}

static void test_recounts_wrong_counts(void **state)
{
    hunk_is("@@ -1,3 +1,3 @@ f()\n a\n-b\n+c\n d\n", 3, 3, false, true);
    hunk_is("@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n\nText behind it.\n", 3, 3, false, true);
    hunk_is("@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n-- \n2.39.5\n", 3, 3, false, true);
    hunk_is("@@ -1,9 +1,9 @@\n a\n-b\n+c\n d\n", 3, 3, true, true);
    hunk_is("@@ -1,2 +1,2 @@\n a\n-b\n+c\n d\n", 3, 3, true, true);
    hunk_is("@@ -1 +1 @@\n a\n-b\n+c\n\n", 2, 2, true, true);
    hunk_is("@@ -1,3 +1,3 @@\n a\n-b\n+c\n\n", 3, 3, false, true);
    hunk_is("@@ -1,3 +1,3\n a\n-b\n+c\n d\n", 3, 3, false, true);
    hunk_is("@@ -1 @@\n a\n-b\n+c\n", 2, 2, true, true);
    hunk_is("@@\n a\n-b\n+c\n", 2, 2, false, false);
    hunk_is("@@ ... @@\n a\n-b\n+c\n```\n", 2, 2, false, false);
    hunk_is("@@ -1,3 +1,3 @@\n a\n-b\n+c\n d", 3, 3, false, true);
}

static void test_parses_anchors(void **state)
{
    _cleanup_diff_ struct diff d =
        parse("--- f\n+++ f\n@@ int main(void) @@\n-a\n+b\n\n@@ ... @@ def g():\n-c\n+d\n");
    assert_int_equal(d.n_hunks, 2);
    assert_memory_equal(d.hunks[0].anchor.at, "int main(void)", d.hunks[0].anchor.size);
    assert_memory_equal(d.hunks[1].anchor.at, "def g():", d.hunks[1].anchor.size);
}

static void test_strips_carriage_returns(void **state)
{
    static const char TEXT[] = "--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n";
    _cleanup_diff_ struct diff d = parse(TEXT);
    assert_true(d.crlf);
    assert_string_equal(d.files[0].new_name, "b/f");
    assert_int_equal(d.lines[0].size, 3);
    struct diff stripped;
    assert_int_equal(diff_parse(TEXT, strlen(TEXT), true, &stripped, NULL), 0);
    assert_int_equal(stripped.lines[0].size, 2);
    diff_free(&stripped);
}

static void test_parses_begin_patch(void **state)
{
    _cleanup_diff_ struct diff d = parse(
        "*** Begin Patch\n*** Update File: a b.c\n*** Move to: c.c\n@@ one\n@@ two\n x\n-y\n"
        "*** End of File\n\n*** Add File: n\n+1\n+2\n*** Delete File: o\n*** End Patch\nText\n");
    assert_int_equal(d.n_files, 3);
    assert_int_equal(d.files[0].kind, DIFF_RENAME);
    assert_string_equal(d.files[0].from, "a b.c");
    assert_memory_equal(d.hunks[0].anchor.at, "two", 3);
    assert_true(d.hunks[0].at_end);
    assert_int_equal(d.files[1].kind, DIFF_ADD);
    assert_int_equal(d.hunks[1].new_count, 2);
    assert_int_equal(d.files[2].kind, DIFF_DELETE);
}

static void test_reverses(void **state)
{
    _cleanup_diff_ struct diff d = parse("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n--- a/f\n+++ "
                                         "b/f\n@@ -2,2 +2,3 @@\n-a\n+b\n+c\n d\n");
    assert_int_equal(diff_reverse(&d, NULL), 0);
    assert_int_equal(d.files[1].kind, DIFF_DELETE);
    assert_int_equal(d.hunks[1].old_count, 3);
    assert_int_equal(d.lines[d.hunks[1].first].kind, '-');
    assert_memory_equal(d.lines[d.hunks[1].first].text, "b\n", 2);
    assert_int_equal(d.lines[d.hunks[1].first + 2].kind, '+');
    _cleanup_diff_ struct diff copy = parse("diff --git a/f b/g\ncopy from f\ncopy to g\n");
    assert_int_equal(diff_reverse(&copy, NULL), -EINVAL);
}

static void test_refuses_what_is_no_diff(void **state)
{
    refused("", EINVAL, "no diff found");
    refused("@@ -1 +1 @@\n-a\n+b\n", EINVAL, "line 1 of the diff: a hunk without");
    refused("--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n a\n-b\n+c\nlost its blank\n", EINVAL,
            "line 7 of the diff begins");
    refused("--- a/f\n+++ b/f\n@@ -1 +1 @@\n\\ No newline\n", EINVAL, "follows this @@ line");
    refused("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", EINVAL, "both sides");
    refused("diff --git a/f b/g\nrename from f\n", EINVAL, "two lines");
    refused("diff --git a/f b/f\nnew file mode 100123\n", EINVAL, "the mode must be");
    refused("diff --git a/f b/f\nGIT binary patch\nnonsense\n", EINVAL, "literal");
    refused("Binary files a and b differ\n", EINVAL, "--binary");
    refused("--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n", EINVAL, "merge");
}

static void test_has_limits(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(DIFF_SIZE_MAX + 1);
    struct diff d;
    buf_append_str(&b, "--- a/f\n+++ b/f\n@@ -0,0 +1,9 @@\n");
    for (size_t i = 0; i <= DIFF_LINES_MAX; i++)
        buf_append(&b, "+\n", 2);
    assert_int_equal(diff_parse(b.data, b.len, false, &d, NULL), -E2BIG);
    b.len = 0;
    buf_append_str(&b, "--- a/f\n+++ b/f\n");
    for (size_t i = 0; i <= DIFF_HUNKS_MAX; i++)
        buf_append_str(&b, "@@ -1 +1 @@\n+\n-\n");
    assert_int_equal(diff_parse(b.data, b.len, false, &d, NULL), -E2BIG);
    assert_non_null(buf_reserve(&b, DIFF_SIZE_MAX + 1 - b.len));
    assert_int_equal(diff_parse(b.data, DIFF_SIZE_MAX + 1, false, &d, NULL), -E2BIG);
}

static void test_decodes_binary_patches(void **state)
{
    uint8_t *data;
    size_t size;
    struct diff_binary b = {DIFF_BINARY_LITERAL, 2, slice("JcmeZc0001<08an_\n")};
    assert_int_equal(diff_binary_decode(&b, &data, &size), 0);
    assert_int_equal(size, 2);
    assert_memory_equal(data, "N\0", 2);
    free(data);
    b.size = 1;
    assert_int_equal(diff_binary_decode(&b, &data, &size), -EBADMSG);
    b.size = 3;
    assert_int_equal(diff_binary_decode(&b, &data, &size), -EBADMSG);
    b.size = (uint64_t)DIFF_BINARY_MAX + 1;
    assert_int_equal(diff_binary_decode(&b, &data, &size), -EFBIG);
    b = (struct diff_binary){DIFF_BINARY_LITERAL, 2, slice("JcmeZc0001<08an\"\n")};
    assert_int_equal(diff_binary_decode(&b, &data, &size), -EBADMSG);
    b.text = slice("JcmeZ\n");
    assert_int_equal(diff_binary_decode(&b, &data, &size), -EBADMSG);
    b.text = slice("");
    assert_int_equal(diff_binary_decode(&b, &data, &size), -EBADMSG);
}

static void delta_is(const char *delta, size_t n, int code, const char *expected)
{
    uint8_t *data;
    size_t size;
    int r = diff_binary_apply_delta((const uint8_t *)"abcdefgh", 8, (const uint8_t *)delta, n,
                                    &data, &size);
    assert_int_equal(r, code);
    if (r < 0)
        return;
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(data, expected, size);
    free(data);
}

static void test_applies_deltas(void **state)
{
    delta_is("\x08\x05\x91\x02\x03\x02XY", 8, 0, "cdeXY");
    delta_is("\x08\x03\x90\x03", 4, 0, "abc");
    delta_is("\x07\x03\x90\x03", 4, -EBADMSG, NULL);     /* for another size */
    delta_is("\x08\x04\x90\x03", 4, -EBADMSG, NULL);     /* makes too little */
    delta_is("\x08\x02\x90\x03", 4, -EBADMSG, NULL);     /* makes too much */
    delta_is("\x08\x03\x91\x07\x03", 5, -EBADMSG, NULL); /* from behind the end */
    delta_is("\x08\x03\x00", 3, -EBADMSG, NULL);         /* no such piece */
    delta_is("\x08\x03\x05XY", 5, -EBADMSG, NULL);       /* ends too soon */
    delta_is("\x08", 1, -EBADMSG, NULL);
    delta_is("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, -EBADMSG, NULL);
    delta_is("\x08\x80\x80\x80\x40", 5, -EFBIG, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parses_names),
        cmocka_unit_test(test_splits_the_names_of_a_git_line),
        cmocka_unit_test(test_parses_headers),
        cmocka_unit_test(test_recounts_wrong_counts),
        cmocka_unit_test(test_parses_anchors),
        cmocka_unit_test(test_strips_carriage_returns),
        cmocka_unit_test(test_parses_begin_patch),
        cmocka_unit_test(test_reverses),
        cmocka_unit_test(test_refuses_what_is_no_diff),
        cmocka_unit_test(test_has_limits),
        cmocka_unit_test(test_decodes_binary_patches),
        cmocka_unit_test(test_applies_deltas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
