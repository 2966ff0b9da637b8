/* Histories: appended, undone, forked, locked, found, listed. */
#include "history_kit.h"

static void test_append(void **state)
{
    struct history *h = fresh();
    char id[HISTORY_ID_MAX];
    snprintf(id, sizeof id, "%s", history_id(h));
    assert_int_equal(access(history_path(h), F_OK), -1);
    for (int i = 1; i <= 20; i++) {
        begin(h, i, i % 2 ? "odd \"quoted\" \\ \n\t ü 😀" : "even");
        json_t *o = document(id);
        assert_int_equal(json_array_size(json_object_get(o, "messages")), i);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "totals"), "turns")),
                         i);
        json_decref(o);
    }
    struct stat st;
    assert_int_equal(stat(history_path(h), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    history_close(h);
    bool repaired = true;
    h = open_it(id, false, &repaired);
    assert_false(repaired);
    assert_int_equal(history_turns(h), 20);
    assert_string_equal(history_workspace(h), "/ws");
    answer(h, "more");
    json_t *m = NULL;
    assert_int_equal(history_read(h, 0, &m, NULL), 0);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(m, "content"), 0), "text")),
                        "odd \"quoted\" \\ \n\t ü 😀");
    assert_non_null(json_object_get(m, "time"));
    json_decref(m);
    assert_int_equal(history_read(h, 21, &m, NULL), -ENOENT);
    history_close(h);
}

static void test_append_refuses(void **state)
{
    struct error err = {0};
    struct history *h = fresh();
    json_t *m = json_pack("{s:s}", "role", "stranger");
    assert_int_equal(history_append(h, m, &err), -EBADMSG);
    json_decref(m);
    begin(h, 1, "a");
    char *large = malloc(HISTORY_MESSAGE_MAX + 1);
    memset(large, 'x', HISTORY_MESSAGE_MAX);
    large[HISTORY_MESSAGE_MAX] = 0;
    m = json_pack("{s:s, s:s}", "role", "user", "content", large);
    assert_int_equal(history_append(h, m, &err), -EMSGSIZE);
    json_decref(m);
    free(large);
    assert_int_equal(history_count(h), 1);
    begin(h, 2, "b");
    assert_string_equal(counting(h), "a b");
    struct history *reader = open_it(history_id(h), true, NULL);
    m = json_pack("{s:s}", "role", "user");
    assert_int_equal(history_append(reader, m, &err), -EROFS);
    json_decref(m);
    history_close(reader);
    history_close(h);
}

static void test_nothing_said_leaves_nothing(void **state)
{
    struct history *h = fresh();
    history_close(h);
    struct history_info *list = NULL;
    size_t n = 9;
    assert_int_equal(history_list(&list, &n, NULL), 0);
    assert_int_equal(n, 0);
    history_list_free(list, n);
    assert_int_equal(rmdir(folder), 0);
}

static void test_same_second(void **state)
{
    struct history *h[5];
    for (size_t i = 0; i < 5; i++) {
        h[i] = fresh();
        if (i % 2)
            begin(h[i], 1, "x");
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(history_id(h[i]), history_id(h[j]));
    }
    size_t suffixed = 0;
    for (size_t i = 0; i < 5; i++) {
        suffixed += strlen(history_id(h[i])) > strlen("20200101-000000");
        history_close(h[i]);
    }
    assert_true(suffixed >= 3); /* five need at most two seconds */
}

static void test_undo(void **state)
{
    struct history *h = fresh();
    hutch(h, "box", "box", 1);
    begin(h, 1, "a");
    answer(h, "A");
    begin(h, 2, "b");
    answer(h, "B");
    hutch(h, "plan", "n", 2);
    hutch(h, "box", "box", 2);
    begin(h, 3, "c");
    hutch(h, "undo", "to", 1);
    assert_string_equal(counting(h), "a A");
    assert_int_equal(history_turns(h), 1);
    assert_null(history_last(h, "plan"));
    json_t *box = history_last(h, "box");
    assert_int_equal(json_integer_value(json_object_get(box, "box")), 2);
    json_decref(box);
    begin(h, 2, "d");
    answer(h, "D");
    assert_string_equal(counting(h), "a A d D");
    hutch(h, "undo", "to", 7);
    assert_string_equal(counting(h), "a A d D");
    begin(h, 3, "e");
    hutch(h, "undo", "to", 2);
    hutch(h, "strange", "n", 5);
    for (int again = 0; again < 2; again++) {
        assert_string_equal(counting(h), "a A d D");
        assert_int_equal(history_turns(h), 2);
        json_t *m = history_last(h, "strange");
        assert_int_equal(json_integer_value(json_object_get(m, "n")), 5);
        json_decref(m);
        struct history_totals t;
        history_totals(h, &t);
        assert_int_equal(t.turns, 2);
        assert_int_equal(t.input, 30);
        assert_int_equal(t.output, 9);
        assert_true(t.cost > 0.74 && t.cost < 0.76);
        assert_string_equal(t.model, "m/1");
        char id[HISTORY_ID_MAX];
        snprintf(id, sizeof id, "%s", history_id(h));
        history_close(h);
        h = open_it(id, false, NULL);
    }
    append(h, json_pack("{s:s, s:s}", "role", "hutch", "kind", "cleared"));
    assert_string_equal(counting(h), "");
    assert_int_equal(history_turns(h), 0);
    begin(h, 1, "anew");
    assert_string_equal(counting(h), "anew");
    hutch(h, "undo", "to", 0);
    assert_string_equal(counting(h), "");
    history_close(h);
}

static void test_fork(void **state)
{
    struct error err = {0};
    struct history *h = fresh(), *fork = NULL;
    hutch(h, "box", "box", 1);
    begin(h, 1, "a");
    answer(h, "A");
    begin(h, 2, "gone");
    hutch(h, "undo", "to", 1);
    begin(h, 2, "b");
    hutch(h, "summary", "until", 3);
    answer(h, "B");
    begin(h, 3, "c");
    assert_int_equal(history_new(NULL, "/ws", history_id(h), 2, &fork, &err), 0);
    assert_int_equal(history_copy_until(h, 2, fork, &err), 0);
    assert_string_equal(counting(fork), "a A b B");
    assert_int_equal(history_turns(fork), 2);
    json_t *m = history_last(fork, "summary");
    assert_int_equal(json_integer_value(json_object_get(m, "until")),
                     2); /* "box" and "gone" are not there */
    json_decref(m);
    assert_null(history_last(fork, "box"));
    begin(fork, 3, "other");
    json_t *o = document(history_id(fork));
    const json_t *parent = json_object_get(o, "forked_from");
    assert_string_equal(json_string_value(json_object_get(parent, "session")), history_id(h));
    assert_int_equal(json_integer_value(json_object_get(parent, "turn")), 2);
    assert_int_equal(json_array_size(json_object_get(o, "messages")), 6);
    json_decref(o);
    assert_string_equal(counting(h), "a A b B c");
    struct history *all = fresh();
    begin(all, 1, "before");
    assert_int_equal(history_copy_until(h, 0, all, &err), 0);
    assert_string_equal(counting(all), "before a A b B c");
    history_close(all);
    history_close(fork);
    history_close(h);
}

/* More than one piece is copied, each of them a valid file. */
static void test_fork_is_large(void **state)
{
    struct error err = {0};
    struct history *h = fresh(), *fork = fresh();
    char words[100001];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = 0;
    for (int i = 1; i <= 35; i++)
        begin(h, i, words);
    assert_int_equal(history_copy_until(h, 0, fork, &err), 0);
    assert_int_equal(history_count(fork), 35);
    json_t *o = document(history_id(fork)), *from = document(history_id(h));
    assert_true(json_equal(json_object_get(o, "messages"), json_object_get(from, "messages")));
    json_decref(from);
    json_decref(o);
    history_close(fork);
    history_close(h);
}

static void test_lock(void **state)
{
    struct error err = {0};
    struct history *h = fresh(), *second = NULL;
    char id[HISTORY_ID_MAX], gone[HISTORY_ID_MAX];
    snprintf(id, sizeof id, "%s", history_id(h));
    begin(h, 1, "mine");
    assert_int_equal(history_open(NULL, id, false, &second, NULL, &err), -EBUSY);
    assert_non_null(strstr(err.text, "this program"));
    assert_int_equal(history_remove(id, gone, &err), -EBUSY);
    pid_t child = fork();
    if (child == 0) {
        char pid[32];
        snprintf(pid, sizeof pid, "process %d (test_history)", getppid());
        int r = history_open(NULL, id, false, &second, NULL, &err);
        _exit(r == -EBUSY && strstr(err.text, pid) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    second = open_it(id, true, NULL);
    assert_string_equal(counting(second), "mine");
    history_close(second);
    history_close(h);
    history_close(open_it(id, false, NULL));
}

static void test_find(void **state)
{
    static const char text[] =
        "{\"messages\": [{\"role\": \"user\", \"turn\": 1, \"content\": []}]}";
    struct error err = {0};
    struct history *h = NULL;
    int fd;
    assert_int_equal(history_open(NULL, "last", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_folder(NULL, &fd, &err), 0);
    close(fd);
    spill_text("20200101-000000", text);
    spill_text("20200101-000000-2", text);
    spill_text("20200202-000000", text);
    assert_int_equal(utimensat(AT_FDCWD, file_of("20200202-000000", ".json"),
                               (struct timespec[2]){{1, 0}, {1, 0}}, 0),
                     0);
    assert_int_equal(utimensat(AT_FDCWD, file_of("20200101-000000-2", ".json"),
                               (struct timespec[2]){{2, 0}, {2, 0}}, 0),
                     0);
    assert_int_equal(utimensat(AT_FDCWD, file_of("20200101-000000", ".json"),
                               (struct timespec[2]){{1, 0}, {1, 5}}, 0),
                     0);
    static const char *const words[][2] = {{"20200101-000000", "20200101-000000"},
                                           {"20200101-000000.json", "20200101-000000"},
                                           {"20200101-000000-", "20200101-000000-2"},
                                           {"202002", "20200202-000000"},
                                           {"last", "20200101-000000-2"}};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        h = open_it(words[i][0], true, NULL);
        assert_string_equal(history_id(h), words[i][1]);
        history_close(h);
    }
    h = open_it(file_of("20200202-000000", ".json"), true, NULL);
    assert_string_equal(history_id(h), "20200202-000000");
    history_close(h);
    assert_int_equal(history_open(NULL, "2020", true, &h, NULL, &err), -EINVAL);
    assert_int_equal(history_open(NULL, "2021", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_open(NULL, "", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_open(NULL, "../x", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_open(NULL, "/", true, &h, NULL, &err), -EINVAL);
}

static void test_list_and_remove(void **state)
{
    struct history *h = fresh();
    char id[HISTORY_ID_MAX], gone[HISTORY_ID_MAX];
    snprintf(id, sizeof id, "%s", history_id(h));
    hutch(h, "box", "box", 1);
    begin(h, 1, "  fix\n the\tparser \x1b[31m please");
    answer(h, "done");
    history_close(h);
    spill(file_of(id, ".patch"), "x", 1);
    spill(file_of(id, "x.json.kept"), "x", 1);
    spill_text("20200101-000000",
               "{\"created\": \"c\", \"messages\": [\n {\"role\": \"user\", \"turn\": 1,"
               " \"content\": \"by hand\"}, {\"role\": \"assistant\", \"cost\": 1e-1}]}");
    spill_text("broken", "{\"messages\": ");
    spill_text("empty", "");
    struct history_info *list = NULL;
    size_t n;
    assert_int_equal(utimensat(AT_FDCWD, file_of("20200101-000000", ".json"),
                               (struct timespec[2]){{1, 0}, {1, 0}}, 0),
                     0);
    assert_int_equal(history_list(&list, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].id, id);
    assert_string_equal(list[0].title, "fix the parser [31m please");
    assert_string_equal(list[0].workspace, "/ws");
    assert_string_equal(list[0].totals.model, "m/1");
    assert_int_equal(list[0].totals.turns, 1);
    assert_int_equal(list[0].totals.messages, 3);
    assert_true(list[0].totals.cost == 0.25);
    assert_string_equal(list[1].title, "by hand");
    assert_true(list[1].totals.cost == 0.1);
    history_list_free(list, n);
    assert_int_equal(history_remove(id, gone, NULL), 0);
    assert_string_equal(gone, id);
    assert_int_equal(access(file_of(id, ".json"), F_OK), -1);
    assert_int_equal(access(file_of(id, ".patch"), F_OK), -1);
    assert_int_equal(access(file_of(id, "x.json.kept"), F_OK), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_append),          T(test_append_refuses), T(test_nothing_said_leaves_nothing),
        T(test_same_second),     T(test_undo),           T(test_fork),
        T(test_fork_is_large),   T(test_lock),           T(test_find),
        T(test_list_and_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
