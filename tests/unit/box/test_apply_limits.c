/* The limits of what a box records about the folder and about its applies: each is run into. */
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

#include "apply.h"

static void test_seen_keeps_64_mb_of_bases(void **state)
{
    (void)state;
    struct seen *s = seen_new();
    char *content = calloc(1, SEEN_CONTENT_MAX);
    char path[32];
    for (unsigned i = 0; i < 66; i++) {
        snprintf(path, sizeof path, "f%u", i);
        assert_int_equal(
            seen_set(s, path, SEEN_KNOWN, NULL, seen_base_new(content, SEEN_CONTENT_MAX), false),
            0);
        assert_int_equal(seen_find(s, path)->state, SEEN_KNOWN);
        assert_int_equal(seen_find(s, path)->base != NULL, i < 64);
    }
    /* Room that one file gives back another can have. */
    assert_int_equal(seen_set(s, "f0", SEEN_KNOWN, NULL, NULL, false), 0);
    assert_true(seen_has_room(s, SEEN_CONTENT_MAX));
    assert_false(seen_has_room(s, SEEN_CONTENT_MAX + 1));
    free(content);
    seen_unref(s);
}

static void test_seen_refuses_the_path_after_the_last(void **state)
{
    (void)state;
    struct seen *s = seen_new();
    char path[32];
    for (unsigned i = 0; i < SEEN_PATHS_MAX; i++) {
        snprintf(path, sizeof path, "%u", i);
        assert_int_equal(seen_set(s, path, SEEN_ABSENT, NULL, NULL, false), 0);
    }
    assert_int_equal(seen_set(s, "more", SEEN_ABSENT, NULL, NULL, false), -ENOSPC);
    assert_int_equal(seen_set(s, "7", SEEN_KNOWN, NULL, NULL, false), 0);
    assert_int_equal(seen_state_of(s, "more"), SEEN_UNKNOWN);
    seen_unref(s);
}

static int count_kept(void *data, const struct applied_entry *e)
{
    *(unsigned *)data += e->kept;
    return 0;
}

static void test_applied_log_keeps_256_mb(void **state)
{
    (void)state;
    struct applied_log *l = applied_log_new();
    int content = memfd_create("content", MFD_CLOEXEC);
    struct applied_entry e = {.path = "a", .kind = APPLIED_FILE, .mode = 0644, .size = 100u << 20};
    assert_int_equal(ftruncate(content, 300 << 20), 0);
    static const char *const PATHS[] = {"a", "b", "too much"};
    for (unsigned i = 0; i < 3; i++) {
        e.path = PATHS[i];
        assert_int_equal(applied_log_add(l, &e, content), 0);
    }
    e = (struct applied_entry){.path = "fits", .kind = APPLIED_FILE, .size = 1u << 20};
    assert_int_equal(applied_log_add(l, &e, content), 0);
    unsigned kept = 0;
    assert_int_equal(applied_log_position(l), 4);
    assert_int_equal(applied_log_each(l, 0, count_kept, &kept), 0);
    assert_int_equal(kept, 3);
    close(content);
    applied_log_free(l);
}

static void test_applied_log_refuses_the_entry_after_the_last(void **state)
{
    (void)state;
    struct applied_log *l = applied_log_new();
    const struct applied_entry e = {.path = "a", .kind = APPLIED_ABSENT};
    for (unsigned i = 0; i < 1000000; i++)
        assert_int_equal(applied_log_add(l, &e, -1), 0);
    assert_int_equal(applied_log_add(l, &e, -1), -ENOSPC);
    applied_log_drop_last(l);
    assert_int_equal(applied_log_add(l, &e, -1), 0);
    applied_log_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seen_keeps_64_mb_of_bases),
        cmocka_unit_test(test_seen_refuses_the_path_after_the_last),
        cmocka_unit_test(test_applied_log_keeps_256_mb),
        cmocka_unit_test(test_applied_log_refuses_the_entry_after_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
