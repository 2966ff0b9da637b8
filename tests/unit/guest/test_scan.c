/* Searching one file: windows of every size say the same as looking at all lines at once. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "search/search.h"
#include "wire.h"

static void scan_start(struct scan *s, const char *pattern, unsigned context, struct pattern **p)
{
    struct error err = {0};
    struct matcher *m;
    assert_int_equal(
        pattern_compile(pattern, strlen(pattern), &(struct pattern_options){0}, p, &err), 0);
    assert_int_equal(matcher_new(*p, &m), 0);
    assert_int_equal(scan_init(s, m, context, SCAN_FILE_MAX), 0);
}

static int scan_bytes(struct scan *s, const void *data, size_t n, struct scan_result *r)
{
    int fd = memfd_create("text", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    int got = scan_file(s, fd, r);
    close(fd);
    return got;
}

static struct scan_result keep_all(void)
{
    return (struct scan_result){
        .keep_max = 1000000, .bytes_max = 64u << 20, .frames = BUF_INIT(65u << 20)};
}

/* All that was told, a line of text each. */
static void describe(const struct scan_result *r, struct buf *out)
{
    for (size_t at = 0; at < r->frames.len;) {
        struct wire_frame f;
        struct wire_field field;
        ssize_t n = wire_parse(r->frames.data + at, r->frames.len - at, &f);
        assert_true(n > 0);
        buf_printf(out, "%llu:%llu", (unsigned long long)wire_find_u64(&f, WIRE_K_LINE, 0),
                   (unsigned long long)wire_find_u64(&f, WIRE_K_COLUMN, 0));
        for (size_t i = 0; wire_next(&f, &i, &field);)
            if (field.key == WIRE_K_TEXT || field.key == WIRE_K_BEFORE || field.key == WIRE_K_AFTER)
                buf_printf(out, " %c[%.*s]",
                           field.key == WIRE_K_TEXT     ? '='
                           : field.key == WIRE_K_BEFORE ? '<'
                                                        : '>',
                           (int)field.size, (const char *)field.data);
        buf_append_str(out, "\n");
        at += (size_t)n;
    }
}

struct line {
    const char *s;
    size_t n;
};

static size_t split(const char *text, size_t n, struct line *lines)
{
    size_t count = 0;
    for (const char *at = text; at < text + n;) {
        const char *end = memchr(at, '\n', (size_t)(text + n - at));
        size_t size = end ? (size_t)(end - at) : (size_t)(text + n - at);
        lines[count++] = (struct line){at, size};
        at += size + 1;
    }
    return count;
}

/* The same from all lines at once, for the pattern "b". */
static void expect(const char *text, size_t n, size_t context, struct buf *out)
{
    struct line lines[4096];
    size_t count = split(text, n, lines);
    for (size_t i = 0; i < count; i++) {
        const char *b = memchr(lines[i].s, 'b', lines[i].n);
        if (!b)
            continue;
        buf_printf(out, "%zu:%td =[%.*s]", i + 1, b - lines[i].s + 1, (int)lines[i].n, lines[i].s);
        for (size_t j = i > context ? i - context : 0; j < i; j++)
            buf_printf(out, " <[%.*s]", (int)lines[j].n, lines[j].s);
        for (size_t j = i + 1; j < count && j <= i + context; j++)
            buf_printf(out, " >[%.*s]", (int)lines[j].n, lines[j].s);
        buf_append_str(out, "\n");
    }
}

static void windows_agree(void **state)
{
    char text[3000];
    srandom(5);
    for (int round = 0; round < 2000; round++) {
        size_t n = (size_t)random() % sizeof text;
        int every = 2 + (int)(random() % 28);
        for (size_t i = 0; i < n; i++)
            text[i] = random() % every == 0 ? '\n' : random() % 40 == 0 ? 'b' : 'a';
        unsigned context = (unsigned)random() % 4;
        _cleanup_buf_ struct buf got = BUF_INIT(1u << 24), want = BUF_INIT(1u << 24);
        struct pattern *p;
        struct scan s;
        struct scan_result r = keep_all();
        scan_start(&s, "b", context, &p);
        s.room = 16u << (random() % 6);
        assert_int_equal(scan_bytes(&s, text, n, &r), 0);
        describe(&r, &got);
        expect(text, n, context, &want);
        assert_int_equal(r.count, r.kept);
        assert_string_equal(buf_cstr(&got), buf_cstr(&want));
        buf_free(&r.frames);
        scan_free(&s);
        pattern_free(p);
    }
}

static void binary_is_left(void **state)
{
    struct pattern *p;
    struct scan s;
    struct scan_result r = keep_all();
    scan_start(&s, "a", 0, &p);
    assert_int_equal(scan_bytes(&s, "a\n\0a\n", 5, &r), 0);
    assert_true(r.binary);
    assert_int_equal(r.count, 0);
    scan_free(&s);
    pattern_free(p);
}

static void long_lines_are_cut(void **state)
{
    struct pattern *p;
    struct scan s;
    struct scan_result r = keep_all();
    char *text = malloc(100000);
    for (size_t i = 0; i < 50000; i++)
        memcpy(text + 2 * i, "\xc3\xa9", 2);
    memcpy(text + 50001, "needle", 6); /* in the midst of a character */
    scan_start(&s, "needle", 0, &p);
    assert_int_equal(scan_bytes(&s, text, 100000, &r), 0);
    assert_int_equal(r.count, 1);
    struct wire_frame f;
    struct wire_field shown;
    assert_true(wire_parse(r.frames.data, r.frames.len, &f) > 0);
    assert_true(wire_find(&f, WIRE_K_TEXT, &shown));
    assert_true(shown.size <= SCAN_LINE_SHOWN && shown.size > SCAN_LINE_SHOWN - 8);
    assert_non_null(memmem(shown.data, shown.size, "needle", 6));
    assert_int_equal(wire_find_u64(&f, WIRE_K_COLUMN, 0), 50002);
    assert_int_equal(wire_find_u64(&f, WIRE_K_SIZE, 0), 100000);
    uint64_t from = wire_find_u64(&f, WIRE_K_OFFSET, 0);
    assert_true(from > 49800 && from % 2 == 0);
    assert_memory_equal(text + from, shown.data, shown.size);
    buf_free(&r.frames);
    scan_free(&s);
    pattern_free(p);
    free(text);
}

static void huge_lines_are_searched_in_pieces(void **state)
{
    struct pattern *p;
    struct scan s;
    struct scan_result r = keep_all();
    size_t n = 2 * SCAN_WINDOW_MAX + 100;
    char *text = malloc(n);
    memset(text, 'a', n);
    memcpy(text + n - 10, "\nneedle\nb", 9);
    scan_start(&s, "needle", 2, &p);
    assert_int_equal(scan_bytes(&s, text, n, &r), 0);
    assert_true(r.partly);
    assert_int_equal(r.count, 1);
    struct wire_frame f;
    assert_true(wire_parse(r.frames.data, r.frames.len, &f) > 0);
    assert_int_equal(wire_find_u64(&f, WIRE_K_LINE, 0), 2);
    assert_true(s.room <= SCAN_WINDOW_MAX);
    buf_free(&r.frames);
    scan_free(&s);
    pattern_free(p);
    free(text);
}

static void limits_hold(void **state)
{
    struct pattern *p;
    struct scan s;
    struct scan_result r = {.keep_max = 3, .bytes_max = 1u << 20, .frames = BUF_INIT(2u << 20)};
    static char text[600000];
    for (size_t i = 0; i < sizeof text; i += 2)
        memcpy(text + i, "b\n", 2);
    scan_start(&s, "b", 0, &p);
    assert_int_equal(scan_bytes(&s, text, sizeof text, &r), 0);
    assert_int_equal(r.count, 300000);
    assert_int_equal(r.kept, 3);
    buf_free(&r.frames);

    r = (struct scan_result){.keep_max = 1000, .bytes_max = 300, .frames = BUF_INIT(2u << 20)};
    assert_int_equal(scan_bytes(&s, text, sizeof text, &r), 0);
    assert_true(r.kept < 10 && r.count == 300000);
    buf_free(&r.frames);

    s.file_max = 300000;
    r = keep_all();
    assert_int_equal(scan_bytes(&s, text, sizeof text, &r), 0);
    assert_true(r.partly && r.count < 300000 && r.count >= 150000);
    buf_free(&r.frames);
    scan_free(&s);
    pattern_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_agree),      cmocka_unit_test(binary_is_left),
        cmocka_unit_test(long_lines_are_cut), cmocka_unit_test(huge_lines_are_searched_in_pieces),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
