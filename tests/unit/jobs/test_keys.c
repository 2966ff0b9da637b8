/* API keys, their cache, users' limits, and the audit log. */
#include "jobs_fixture.h"

static void test_a_key_is_checked_with_its_user_and_limits(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *text = NULL;
    struct api_key key;
    _cleanup_json_ json_t *limits = json_of("{'running': 3, 'per_second': 7}");
    OK(keys_new(f->jobs, "laptop", "ann", ROLE_READ, &text, &err));
    OK(users_set(f->jobs, "ann", limits, &err));
    for (int i = 0; i < 2; i++) { /* by Argon2, from memory */
        OK(keys_check(f->jobs, text, &key, &err));
        assert_string_equal(key.name, "laptop");
        assert_string_equal(key.user, "ann");
        assert_int_equal(key.role, ROLE_READ);
        assert_int_equal(key.limits.running, 3);
        assert_int_equal(key.limits.per_second, 7);
        assert_int_equal(key.limits.stored, 0);
        assert_non_null(strstr(text, key.id));
        api_key_free(&key);
    }
}

static void test_other_texts_are_no_keys(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    struct api_key key;
    OK(keys_new(f->jobs, "laptop", "ann", ROLE_USER, &text, &err));
    char *last = &text[strlen(text) - 1], original = *last;
    *last = original == 'A' ? 'B' : 'A';
    for (int i = 0; i < 2; i++)
        FAILS(keys_check(f->jobs, text, &key, &err), ENOENT);
    *last = 0;
    FAILS(keys_check(f->jobs, text, &key, &err), ENOENT);
    *last = original;
    text[8] = text[8] == '0' ? '1' : '0'; /* another ID */
    FAILS(keys_check(f->jobs, text, &key, &err), ENOENT);
    const char *const bad[] = {"", "hutch_", "hutch__", "x", "hutch_0123456789abcdefghjk_"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        FAILS(keys_check(f->jobs, bad[i], &key, &err), ENOENT);
    free(text);
}

static void test_the_text_of_a_key_is_not_stored(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *text = NULL;
    OK(keys_new(f->jobs, "laptop", "ann", ROLE_USER, &text, &err));
    f->jobs = jobs_close(f->jobs);
    static const char *const files[] = {"hutch.db", "hutch.db-wal"};
    bool hashed = false;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(64 << 20);
        _cleanup_free_ char *path = str_printf("%s/%s", f->folder, files[i]);
        if (io_read_file(AT_FDCWD, path, &b) < 0)
            continue;
        assert_null(memmem(b.data, b.len, text + 27, strlen(text + 27)));
        hashed |= memmem(b.data, b.len, "$argon2id$", 10) != NULL;
    }
    assert_true(hashed);
}

static void test_a_removed_key_ends_at_once(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *text = NULL, *second = NULL;
    struct api_key key;
    _cleanup_json_ json_t *list = NULL;
    assert_false(keys_any(f->jobs));
    OK(keys_new(f->jobs, "laptop", "ann", ROLE_USER, &text, &err));
    FAILS(keys_new(f->jobs, "laptop", "bob", ROLE_USER, &second, &err), EEXIST);
    OK(keys_check(f->jobs, text, &key, &err));
    api_key_free(&key);
    OK(keys_remove(f->jobs, "laptop", &err));
    FAILS(keys_check(f->jobs, text, &key, &err), ENOENT);
    FAILS(keys_remove(f->jobs, "laptop", &err), ENOENT);
    OK(keys_new(f->jobs, "laptop", "bob", ROLE_USER, &second, &err));
    OK(keys_list(f->jobs, &list, &err));
    assert_int_equal(json_array_size(list), 1);
    OK(keys_remove(f->jobs, json_get_string(json_array_get(list, 0), "id"), &err));
    assert_true(keys_any(f->jobs));
}

static void test_a_key_that_another_process_makes_and_removes(void **state)
{
    struct fixture *f = *state;
    struct jobs *other = NULL;
    struct jobs_options o = {.data = f->folder, .keys_only = true};
    _cleanup_free_ char *text = NULL;
    struct api_key key;
    OK(jobs_open(&o, &other, &err));
    OK(keys_new(other, "laptop", "ann", ROLE_ADMIN, &text, &err));
    OK(keys_check(f->jobs, text, &key, &err));
    api_key_free(&key);
    OK(keys_remove(other, "laptop", &err));
    int64_t from = clock_now();
    while (keys_check(f->jobs, text, &key, NULL) == 0) {
        api_key_free(&key);
        assert_true(clock_now() - from < 20 * NS_PER_S);
        usleep(20000);
    }
    jobs_close(other);
}

static void test_a_checked_key_is_cheap(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *text = NULL;
    struct api_key key;
    OK(keys_new(f->jobs, "laptop", "ann", ROLE_USER, &text, &err));
    int64_t from = clock_now();
    OK(keys_check(f->jobs, text, &key, &err));
    api_key_free(&key);
    int64_t first = clock_now() - from;
    from = clock_now();
    for (int i = 0; i < 100; i++) {
        OK(keys_check(f->jobs, text, &key, &err));
        api_key_free(&key);
    }
    assert_true(clock_now() - from < first);
}

static void test_keys_have_names_users_and_roles(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    FAILS(keys_new(f->jobs, "", "ann", ROLE_USER, &text, &err), EINVAL);
    FAILS(keys_new(f->jobs, "a\nb", "ann", ROLE_USER, &text, &err), EINVAL);
    FAILS(keys_new(f->jobs, "a", "", ROLE_USER, &text, &err), EINVAL);
    FAILS(keys_new(f->jobs, "a", "ann", ROLE_NONE, &text, &err), EINVAL);
    for (enum role r = ROLE_READ; r <= ROLE_WORKER; r++)
        assert_int_equal(role_of(role_name(r)), r);
    assert_int_equal(role_of("none"), ROLE_NONE);
    assert_int_equal(role_of("root"), ROLE_NONE);
}

static void test_the_audit_log_is_listed_newest_first(void **state)
{
    struct fixture *f = *state;
    json_t *list = NULL;
    for (int i = 0; i < 3; i++)
        audit_add(f->jobs, "ann", NULL, "127.0.0.1", "job_submit", i == 0 ? NULL : "x", 200 + i);
    fixture_reopen(f); /* which waits for what is not written yet */
    OK(audit_list(f->jobs, NULL, 2, &list, &err));
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_get_integer(json_array_get(list, 0), "status"), 202);
    _cleanup_free_ char *last = strdup(json_get_string(json_array_get(list, 1), "id"));
    json_decref(list);
    OK(audit_list(f->jobs, last, 10, &list, &err));
    assert_int_equal(json_array_size(list), 1);
    assert_true(json_is_null(json_object_get(json_array_get(list, 0), "object")));
    json_decref(list);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

int main(void)
{
    alarm(220);
    const struct CMUnitTest tests[] = {
        TEST(test_a_key_is_checked_with_its_user_and_limits),
        TEST(test_other_texts_are_no_keys),
        TEST(test_the_text_of_a_key_is_not_stored),
        TEST(test_a_removed_key_ends_at_once),
        TEST(test_a_key_that_another_process_makes_and_removes),
        TEST(test_a_checked_key_is_cheap),
        TEST(test_keys_have_names_users_and_roles),
        TEST(test_the_audit_log_is_listed_newest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
