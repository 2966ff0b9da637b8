/* Histories that were torn at every byte, damaged, changed by others, or laid out by others. */
#include "history_kit.h"

/* Every state that a torn last write can leave: n bytes of the new end over the old one. */
static void test_torn(void **state)
{
    struct history *h = fresh();
    char id[HISTORY_ID_MAX];
    snprintf(id, sizeof id, "%s", history_id(h));
    begin(h, 1, "first");
    answer(h, "second");
    _cleanup_buf_ struct buf before = slurp(history_path(h));
    begin(h, 2, "third with {\"time\": \"x\", \"role\": \"user\"} in it");
    _cleanup_buf_ struct buf after = slurp(history_path(h));
    history_close(h);
    size_t same = 0;
    while (before.data[same] == after.data[same])
        same++;
    for (size_t n = same; n <= after.len; n++)
        for (int hole = 0; hole < 2; hole++) {
            _cleanup_buf_ struct buf torn = BUF_INIT(1 << 20);
            buf_append(&torn, after.data, n);
            if (hole) /* the size was written, the bytes were not */
                while (torn.len < after.len)
                    buf_append(&torn, "\0", 1);
            else if (n < before.len)
                buf_append(&torn, before.data + n, before.len - n);
            spill(file_of(id, ".json"), torn.data, torn.len);
            bool repaired = false;
            h = open_it(id, true, &repaired);
            assert_true(strncmp(counting(h), "first second", 12) == 0);
            bool third = history_count(h) == 3;
            history_close(h);
            _cleanup_buf_ struct buf untouched = slurp(file_of(id, ".json"));
            assert_int_equal(untouched.len, torn.len);
            assert_memory_equal(untouched.data, torn.data, torn.len);
            bool again = false;
            h = open_it(id, false, &again);
            assert_int_equal(repaired, again);
            assert_int_equal(history_trouble(h) != NULL, again);
            /* only the last line end is no loss */
            assert_int_equal(again, hole ? n < after.len : n > same && n < after.len - 1);
            json_decref(document(id));
            begin(h, 9, "more");
            assert_string_equal(
                counting(h),
                third ? "first second third with {\"time\": \"x\", \"role\": \"user\"} in it more"
                      : "first second more");
            json_t *o = document(id);
            assert_int_equal(json_array_size(json_object_get(o, "messages")), third ? 4 : 3);
            json_decref(o);
            history_close(h);
        }
}

/* A write that stops in its middle, as on a full disk. */
static void test_no_space(void **state)
{
    struct error err = {0};
    struct stat st;
    struct rlimit limit;
    struct history *h = fresh();
    begin(h, 1, "a");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(stat(history_path(h), &st), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int room = 0; room < 40; room++) {
        assert_int_equal(
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)(st.st_size + room), limit.rlim_max}),
            0);
        json_t *m = json_pack("{s:s, s:i, s:s}", "role", "user", "turn", 2, "content",
                              "long enough to need more room than there is");
        assert_int_equal(history_append(h, m, &err), -EFBIG);
        json_decref(m);
        assert_int_equal(history_turns(h), 1);
        json_t *o = document(history_id(h));
        assert_int_equal(json_array_size(json_object_get(o, "messages")), 1);
        json_decref(o);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    begin(h, 2, "b");
    assert_string_equal(counting(h), "a b");
    json_decref(document(history_id(h)));
    history_close(h);
}

static void test_changed_by_another(void **state)
{
    struct error err = {0};
    struct history *h = fresh();
    begin(h, 1, "a");
    FILE *f = fopen(history_path(h), "a");
    fputs("   ", f);
    fclose(f);
    json_t *m = json_pack("{s:s, s:i}", "role", "user", "turn", 2);
    assert_int_equal(history_append(h, m, &err), -ESTALE);
    assert_int_equal(history_count(h), 1);
    assert_int_equal(unlink(history_path(h)), 0);
    assert_int_equal(history_append(h, m, &err), -ESTALE);
    assert_non_null(strstr(err.text, "removed"));
    json_decref(m);
    history_close(h);
}

/* Layouts of other programs: sorted names, messages not last, indented, everything on one line. */
static void test_other_layouts(void **state)
{
    static const char *const texts[] = {
        "{\"messages\":[{\"content\":[{\"text\":\"a\",\"type\":\"text\"}],\"role\":\"user\","
        "\"turn\":1},"
        "{\"content\":[{\"text\":\"A\",\"type\":\"text\"}],\"role\":\"assistant\"}],\"workspace\":"
        "\"/"
        "w\\u0073\"}",
        "{\n  \"workspace\": \"/ws\",\r\n\t\"messages\": [\n    {\n      \"role\": "
        "\"us\\u0065r\",\n      "
        "\"turn\": 1,\n"
        "      \"content\": [\n        {\"type\": \"text\", \"text\": \"a\"}\n      ]\n    },\n    "
        "{\n"
        "      \"r\\u006fle\": \"assistant\", \"n\": 1e400e, \"content\": [{\"type\": \"text\", "
        "\"text\": "
        "\"A\"}]\n    }\n  ]\n}\n",
        "{\"workspace\": \"/ws\", \"messages\": [{\"role\": \"user\", \"turn\": 1, \"n\": "
        "12345678901234567, "
        "\"content\":"
        " [{\"type\": \"text\", \"text\": \"a\", \"x\": \"\\ud83d\\ude00\"}]}\n\n,\n{\"role\": "
        "\"hutch\", "
        "\"role\":"
        " \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"A\"}]}\n]   }  \n\n",
    };
    int fd;
    assert_int_equal(history_folder(NULL, &fd, NULL), 0);
    close(fd);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        _cleanup_free_ char *text = strdup(texts[i]);
        char *wrong = strstr(text, "1e400e");
        if (wrong)
            memcpy(wrong, "1e4   ", 6);
        spill_text("x", text);
        for (int pass = 0; pass < 3; pass++) {
            bool repaired = true;
            struct history *h = open_it("x", pass == 0, &repaired);
            assert_int_equal(repaired, pass == 1 && i == 0);
            assert_string_equal(counting(h), pass == 2 ? "a A b" : "a A");
            assert_string_equal(history_workspace(h), "/ws");
            assert_int_equal(history_turns(h), pass == 2 ? 2 : 1);
            if (pass == 1)
                begin(h, 2, "b");
            history_close(h);
            json_decref(document("x"));
        }
    }
    _cleanup_buf_ struct buf kept = slurp(file_of("x", ".json.kept"));
    assert_memory_equal(kept.data, texts[0], kept.len);
}

static void test_damaged_in_the_middle(void **state)
{
    struct history *h = fresh();
    char id[HISTORY_ID_MAX];
    snprintf(id, sizeof id, "%s", history_id(h));
    for (int i = 1; i <= 9; i++)
        begin(h, i, (char[]){(char)('0' + i), 0});
    _cleanup_buf_ struct buf good = slurp(history_path(h));
    uint64_t at = history_entry(h, 4)->offset;
    uint32_t length = history_entry(h, 4)->length;
    history_close(h);
    for (size_t i = 0; i < length; i++) {
        _cleanup_buf_ struct buf bad = BUF_INIT(1 << 20);
        buf_append(&bad, good.data, good.len);
        bad.data[at + i] = 0;
        spill(file_of(id, ".json"), bad.data, bad.len);
        bool repaired = false;
        h = open_it(id, true, &repaired);
        assert_true(repaired);
        assert_string_equal(counting(h), "1 2 3 4 6 7 8 9");
        assert_non_null(strstr(history_trouble(h), "unreadable"));
        history_close(h);
        h = open_it(id, false, &repaired);
        assert_true(repaired);
        assert_non_null(strstr(history_trouble(h), ".json.kept"));
        begin(h, 10, "10");
        assert_string_equal(counting(h), "1 2 3 4 6 7 8 9 10");
        history_close(h);
        _cleanup_buf_ struct buf kept = slurp(file_of(id, ".json.kept"));
        assert_memory_equal(kept.data, bad.data, bad.len);
        h = open_it(id, false, &repaired);
        assert_false(repaired);
        assert_string_equal(counting(h), "1 2 3 4 6 7 8 9 10");
        history_close(h);
        assert_int_equal(unlink(file_of(id, ".json.kept")), 0);
    }
}

/* A second list of messages is none, and is not in the way of the first when the file is written
 * anew. */
static void test_two_lists(void **state)
{
    int fd;
    assert_int_equal(history_folder(NULL, &fd, NULL), 0);
    close(fd);
    spill_text(
        "two",
        "{\"messages\": [\n{\"role\": \"user\", \"turn\": 1, \"content\": [{\"type\": \"text\","
        " \"text\": \"a\"}]}\n], \"messages\": 6, \"workspace\": \"/ws\"}\n");
    for (int pass = 0; pass < 2; pass++) {
        bool repaired;
        struct history *h = open_it("two", false, &repaired);
        assert_int_equal(repaired, pass == 0);
        assert_string_equal(counting(h), pass == 0 ? "a" : "a b");
        if (pass == 0)
            begin(h, 2, "b");
        history_close(h);
    }
}

static void test_no_history(void **state)
{
    static const char *const texts[] = {"",
                                        "x",
                                        "[]",
                                        "{}",
                                        "{\"a\": 1}",
                                        "{\"messages\": {}}",
                                        "{\"messages\"",
                                        "\xff",
                                        "{\"version\": 1, \"session\": \"2"};
    struct error err;
    struct history *h;
    int fd;
    assert_int_equal(history_folder(NULL, &fd, NULL), 0);
    close(fd);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        spill_text("x", texts[i]);
        assert_int_equal(history_open(NULL, "x", false, &h, NULL, &err), -EBADMSG);
        _cleanup_buf_ struct buf same = slurp(file_of("x", ".json"));
        assert_int_equal(same.len, strlen(texts[i]));
    }
    spill_text("x", "{\"version\": 2, \"messages\": []}");
    assert_int_equal(history_open(NULL, "x", false, &h, NULL, &err), -EPROTONOSUPPORT);
    spill_text("x", "{\"version\": 1, \"messages\": []}");
    h = open_it("x", false, NULL);
    begin(h, 1, "a");
    history_close(h);
    json_decref(document("x"));
    assert_int_equal(unlink(file_of("x", ".json")), 0);
    assert_int_equal(mkfifo(file_of("x", ".json"), 0600), 0);
    assert_int_equal(history_open(NULL, "x", true, &h, NULL, &err), -EINVAL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_torn),
        T(test_no_space),
        T(test_changed_by_another),
        T(test_other_layouts),
        T(test_damaged_in_the_middle),
        T(test_two_lists),
        T(test_no_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
