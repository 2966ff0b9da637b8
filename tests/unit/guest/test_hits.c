/* The collection of matches: the first files in order are told whatever the order they come in, and
 * all are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "search/search.h"
#include "wire.h"

static void paths_are_ordered(void **state)
{
    static const char *const ordered[] = {"a", "a/b", "a/b/c", "a/c", "a-b", "a.b", "ab", "b"};
    for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++)
        for (size_t j = 0; j < sizeof ordered / sizeof *ordered; j++) {
            int c = hits_compare_paths(ordered[i], ordered[j]);
            assert_true(i < j ? c < 0 : i > j ? c > 0 : c == 0);
        }
}

/* A file with so many matches, of which as many are kept as there is room for. */
static void add(struct hits *h, const char *path, unsigned count)
{
    struct scan_result r = {
        .count = count, .keep_max = hits_room(h, path), .frames = BUF_INIT(1u << 20)};
    for (unsigned i = 0; i < count && i < r.keep_max; i++) {
        size_t at = wire_begin(&r.frames, WIRE_ENTRY);
        wire_put_u64(&r.frames, WIRE_K_LINE, i + 1);
        wire_end(&r.frames, at);
        r.kept++;
    }
    assert_int_equal(hits_add(h, path, &r), 0);
    buf_free(&r.frames);
}

/* A file as its path and count, a match as a dot. */
static int put_frame(void *data, const uint8_t *bytes, size_t n)
{
    struct wire_frame frame;
    assert_int_equal(wire_parse(bytes, n, &frame), n);
    _cleanup_free_ char *path = wire_find_str(&frame, WIRE_K_PATH);
    if (!path)
        return buf_append_str(data, ".");
    return buf_printf(data, " %s(%u)", path, (unsigned)wire_find_u64(&frame, WIRE_K_COUNT, 0));
}

static void tell(struct hits *h, struct buf *out, bool *all)
{
    assert_int_equal(hits_send(h, put_frame, out, all), 0);
}

static void order_does_not_matter(void **state)
{
    enum { FILES = 3000 };
    static unsigned order[FILES];
    _cleanup_buf_ struct buf first = BUF_INIT(1u << 20);
    srandom(3);
    for (unsigned i = 0; i < FILES; i++)
        order[i] = i;
    for (int round = 0; round < 20; round++) {
        _cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
        struct hits h;
        bool all = true;
        hits_init(&h, &(struct hits_limits){.matches = 25, .files = 12, .bytes = 1u << 20});
        for (unsigned i = FILES - 1; i > 0; i--) {
            unsigned j = (unsigned)random() % (i + 1), kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        for (unsigned i = 0; i < FILES; i++) {
            char path[40];
            snprintf(path, sizeof path, "d%02u/f%04u", order[i] % 7, order[i]);
            add(&h, path, 1 + order[i] % 5);
        }
        tell(&h, &out, &all);
        assert_false(all);
        assert_int_equal(h.files, FILES);
        assert_int_equal(h.matches, FILES * 3);
        assert_true(h.count <= 2 * 12 + 300 && h.kept <= 2 * 25 + 600);
        if (round == 0)
            buf_append(&first, out.data, out.len);
        assert_string_equal(buf_cstr(&out), buf_cstr(&first));
        hits_free(&h);
    }
    assert_int_equal(
        strncmp(buf_cstr(&first), " d00/f0000(1). d00/f0007(3)... d00/f0014(5).....", 46), 0);
}

static void bytes_are_limited(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
    struct hits h;
    bool all = true;
    hits_init(&h, &(struct hits_limits){.matches = 100, .files = 100, .bytes = 60});
    add(&h, "b", 5);
    add(&h, "a", 1);
    add(&h, "c", 1);
    tell(&h, &out, &all);
    assert_false(all);
    assert_string_equal(buf_cstr(&out), " a(1). b(5). c(1)"); /* 24 bytes each */
    hits_free(&h);
}

static void all_is_told(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
    struct hits h;
    bool all = false;
    hits_init(&h, &(struct hits_limits){.matches = 2, .files = 2, .bytes = 1000});
    add(&h, "b", 1);
    add(&h, "a", 1);
    tell(&h, &out, &all);
    assert_true(all);
    assert_string_equal(buf_cstr(&out), " a(1). b(1).");
    hits_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_ordered),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(bytes_are_limited),
        cmocka_unit_test(all_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
