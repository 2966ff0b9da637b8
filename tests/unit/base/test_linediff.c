/* The line diff: right on random texts, in git's form, and bounded in time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "linediff.h"
#include "text.h"
#include "thread.h"

static int append(void *data, const void *bytes, size_t n)
{
    return buf_append(data, bytes, n);
}

static void make_diff(const char *a, size_t an, const char *b, size_t bn, struct buf *ret)
{
    struct linediff d;
    assert_int_equal(linediff_make(a, an, b, bn, &d), 0);
    assert_int_equal(linediff_print(&d, append, ret), 0);
    linediff_free(&d);
}

static void expect(const char *a, const char *b, const char *diff)
{
    _cleanup_buf_ struct buf got = BUF_INIT(1 << 20);
    make_diff(a, strlen(a), b, strlen(b), &got);
    assert_string_equal(buf_cstr(&got), diff);
}

static void test_forms(void **state)
{
    expect("", "", "");
    expect("a\n", "a\n", "");
    expect("", "a\n", "@@ -0,0 +1 @@\n+a\n");
    expect("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n");
    expect("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
    expect("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    expect("a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
    expect("x\na", "y\na", "@@ -1,2 +1,2 @@\n-x\n+y\n a\n\\ No newline at end of file\n");
    expect("a\r\n", "b\r\n", "@@ -1 +1 @@\n-a\r\n+b\r\n");
}

static void test_hunks_are_joined_when_near(void **state)
{
    const char *a = "1\n2\n3\n4\n5\n6\n7\n8\n9\n", *b = "x\n2\n3\n4\n5\n6\n7\ny\n9\n";
    expect(a, b, "@@ -1,9 +1,9 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n 9\n");
    expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
           "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n");
}

/* A new function ends with its own brace. */
static void test_additions_slide_down(void **state)
{
    expect("f {\n}\n", "f {\n}\ng {\n}\n", "@@ -1,2 +1,4 @@\n f {\n }\n+g {\n+}\n");
    expect("f {\n}\ng {\n}\n", "f {\n}\n", "@@ -1,4 +1,2 @@\n f {\n }\n-g {\n-}\n");
}

/* How many lines a text has, the last one maybe without its end. */
static size_t count_lines(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += text[i] == '\n' || i == n - 1;
    return count;
}

/* A strict patch program: every context and deleted line must be where the hunk says, and no hunk
 * may have less than three lines of context where the text has them. */
struct patcher {
    const char *a, *a_end;
    size_t line, lines;
    struct buf out;
};

static void copy_line(struct patcher *p)
{
    const char *end = memchr(p->a, '\n', (size_t)(p->a_end - p->a));
    end = end ? end + 1 : p->a_end;
    assert_true(p->a < p->a_end);
    buf_append(&p->out, p->a, (size_t)(end - p->a));
    p->a = end;
    p->line++;
}

static void match_line(struct patcher *p, const char *line, size_t n)
{
    assert_true((size_t)(p->a_end - p->a) >= n);
    assert_memory_equal(p->a, line, n);
    p->a += n;
    p->line++;
}

/* One line of a hunk with its newline, or without when a marker follows. */
static size_t line_size(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    assert_non_null(newline);
    return newline + 1 < end && newline[1] == '\\' ? (size_t)(newline - at)
                                                   : (size_t)(newline + 1 - at);
}

static const char *skip_marker(const char *at, const char *end)
{
    static const char MARKER[] = "\n\\ No newline at end of file\n";
    if (at < end && (size_t)(end - at) >= sizeof MARKER - 1 &&
        memcmp(at, MARKER, sizeof MARKER - 1) == 0)
        return at + sizeof MARKER - 1;
    return at;
}

static const char *apply_hunk(struct patcher *p, const char *at, const char *end)
{
    unsigned long a_line = strtoul(at + 4, NULL, 10);
    size_t context = 0;
    int seen_change = 0;
    at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
    while (p->line + 1 < a_line)
        copy_line(p);
    size_t first = p->line;
    while (at < end && *at != '@') {
        size_t n = line_size(at + 1, end);
        if (*at != '+')
            match_line(p, at + 1, n);
        if (*at != '-')
            buf_append(&p->out, at + 1, n);
        if (*at != ' ' && !seen_change) {
            assert_true(context == 3 || first == 0 || context == p->line);
            seen_change = 1;
        }
        context = *at == ' ' ? context + 1 : 0;
        at = skip_marker(at + 1 + n, end);
    }
    assert_true(context == 3 || p->line == p->lines);
    return at;
}

static void check(const char *a, size_t an, const char *b, size_t bn)
{
    _cleanup_buf_ struct buf diff = BUF_INIT(64 << 20);
    struct patcher p = {
        .a = a, .a_end = a + an, .lines = count_lines(a, an), .out = BUF_INIT(64 << 20)};
    make_diff(a, an, b, bn, &diff);
    const char *at = (const char *)diff.data, *end = at + diff.len;
    while (at < end)
        at = apply_hunk(&p, at, end);
    buf_append(&p.out, p.a, (size_t)(p.a_end - p.a));
    assert_int_equal(p.out.len, bn);
    if (bn)
        assert_memory_equal(p.out.data, b, bn);
    buf_free(&p.out);
}

static size_t random_text(char *text, int lines, int kinds)
{
    size_t n = 0;
    for (int i = 0; i < lines; i++)
        n += (size_t)snprintf(text + n, 16, "%d\n", rand() % kinds);
    return n && rand() % 4 == 0 ? n - 1 : n;
}

/* Another text with some lines taken out, put in and moved. */
static size_t edit_text(const char *a, size_t an, char *b)
{
    size_t n = 0;
    for (const char *at = a, *end = a + an; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline ? newline + 1 : end;
        int dice = rand() % 12;
        if (dice == 0)
            n += (size_t)snprintf(b + n, 16, "%d\n", rand() % 9);
        if (dice != 1) {
            memcpy(b + n, at, (size_t)(next - at));
            n += (size_t)(next - at);
        }
        at = next;
    }
    return n;
}

static void test_random_texts(void **state)
{
    srand(1);
    for (int i = 0; i < 20000; i++) {
        char a[4096], b[8192];
        size_t an = random_text(a, rand() % 60, 1 + rand() % 8);
        size_t bn = i % 2 ? edit_text(a, an, b) : random_text(b, rand() % 60, 1 + rand() % 8);
        check(a, an, b, bn);
    }
}

/* Few steps allowed: never wrong, whatever is cut short. */
static void test_myers_is_right_when_cut(void **state)
{
    srand(2);
    for (int i = 0; i < 5000; i++) {
        uint32_t a[64], b[64], left[2][64];
        uint8_t changed[2][64] = {{0}};
        struct linemyers_side x = {a, changed[0], (uint32_t)(rand() % 64)},
                              y = {b, changed[1], (uint32_t)(rand() % 64)};
        size_t n[2] = {0};
        for (uint32_t k = 0; k < 64; k++) {
            a[k] = (uint32_t)(rand() % 6);
            b[k] = (uint32_t)(rand() % 6);
        }
        assert_int_equal(linemyers(&x, &y, rand() % 200), 0);
        for (uint32_t k = 0; k < x.count; k++)
            if (!changed[0][k])
                left[0][n[0]++] = a[k];
        for (uint32_t k = 0; k < y.count; k++)
            if (!changed[1][k])
                left[1][n[1]++] = b[k];
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(left[0], left[1], n[0] * sizeof(uint32_t));
    }
}

/* The shortest edit of small sequences, against the plain table. */
static uint32_t longest_common(const uint32_t *a, uint32_t n, const uint32_t *b, uint32_t m)
{
    static uint32_t table[41][41];
    for (uint32_t i = 0; i <= n; i++)
        for (uint32_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0)
                table[i][j] = 0;
            else if (a[i - 1] == b[j - 1])
                table[i][j] = table[i - 1][j - 1] + 1;
            else
                table[i][j] = table[i - 1][j] > table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
        }
    return table[n][m];
}

static void test_myers_is_shortest(void **state)
{
    srand(3);
    for (int i = 0; i < 5000; i++) {
        uint32_t a[40], b[40], kept = 0;
        uint8_t changed[2][40] = {{0}};
        struct linemyers_side x = {a, changed[0], (uint32_t)(rand() % 41)},
                              y = {b, changed[1], (uint32_t)(rand() % 41)};
        for (uint32_t k = 0; k < 40; k++) {
            a[k] = (uint32_t)(rand() % 4);
            b[k] = (uint32_t)(rand() % 4);
        }
        assert_int_equal(linemyers(&x, &y, INT64_MAX), 0);
        for (uint32_t k = 0; k < x.count; k++)
            kept += !changed[0][k];
        assert_int_equal(kept, longest_common(a, x.count, b, y.count));
    }
}

static void test_large_texts(void **state)
{
    enum { LINES = 300000 };
    char *a = malloc(LINES * 16), *b = malloc(LINES * 16);
    srand(4);
    size_t an = random_text(a, LINES, 30), bn = random_text(b, LINES, 30);
    int64_t began = clock_now();
    check(a, an, b, bn);
    assert_true(clock_now() - began < 20 * NS_PER_S);
    free(a);
    free(b);
}

static void test_limits(void **state)
{
    struct linediff d;
    size_t n = (size_t)LINEDIFF_SIZE_MAX + 1;
    char *text = calloc(n, 1);
    assert_int_equal(linediff_make(text, n, "", 0, &d), -E2BIG);
    memset(text, '\n', n);
    assert_int_equal(linediff_make(text, (size_t)LINESET_LINES_MAX + 1, "", 0, &d), -E2BIG);
    free(text);
}

static void test_totals(void **state)
{
    struct linediff d;
    uint64_t added, deleted;
    assert_int_equal(linediff_make("a\nb\nc\n", 6, "a\nx\ny\n", 6, &d), 0);
    linediff_totals(&d, &added, &deleted);
    assert_int_equal(added, 2);
    assert_int_equal(deleted, 2);
    linediff_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_hunks_are_joined_when_near),
        cmocka_unit_test(test_additions_slide_down),
        cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_myers_is_right_when_cut),
        cmocka_unit_test(test_myers_is_shortest),
        cmocka_unit_test(test_large_texts),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
