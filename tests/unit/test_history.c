/* Histories: appended, torn at every byte, undone, forked, locked, listed, damaged, and laid out by others.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "buf.h"
#include "history.h"
#include "io.h"

static char root[64], folder[128];

static int set_up(void **state)
{
    snprintf(root, sizeof root, "/tmp/test-history-XXXXXX");
    assert_non_null(mkdtemp(root));
    setenv("XDG_DATA_HOME", root, 1);
    snprintf(folder, sizeof folder, "%s/hutch/history", root);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static const char *file_of(const char *id, const char *end)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s%s", folder, id, end);
    return path;
}

static struct buf slurp(const char *path)
{
    struct buf b = BUF_INIT(256u << 20);
    assert_int_equal(io_read_file(AT_FDCWD, path, &b), 0);
    return b;
}

static void spill(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void spill_text(const char *id, const char *text)
{
    spill(file_of(id, ".json"), text, strlen(text));
}

static struct history *fresh(void)
{
    struct error err = {0};
    struct history *h = NULL;
    if (history_new("/ws", NULL, 0, &h, &err) < 0)
        fail_msg("%s", err.text);
    return h;
}

static struct history *open_it(const char *id, bool read_only, bool *ret_repaired)
{
    struct error err = {0};
    struct history *h = NULL;
    if (history_open(id, read_only, &h, ret_repaired, &err) < 0)
        fail_msg("%s", err.text);
    return h;
}

static void append(struct history *h, json_t *m)
{
    struct error err = {0};
    assert_non_null(m);
    if (history_append(h, m, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(m);
}

static void begin(struct history *h, int turn, const char *words)
{
    append(h, json_pack("{s:s, s:i, s:[{s:s, s:s}]}", "role", "user", "turn", turn, "content", "type", "text",
                        "text", words));
}

static void answer(struct history *h, const char *words)
{
    append(h,
           json_pack("{s:s, s:[{s:s, s:s}], s:s, s:{s:i, s:i}, s:f}", "role", "assistant", "content", "type",
                     "text", "text", words, "model", "m/1", "usage", "input", 10, "output", 3, "cost", 0.25));
}

static void hutch(struct history *h, const char *kind, const char *name, int value)
{
    append(h, json_pack("{s:s, s:s, s:i}", "role", "hutch", "kind", kind, name, value));
}

/* The texts of the messages that count, one after the other. */
static const char *counting(struct history *h)
{
    static struct buf b = BUF_INIT(1 << 20);
    b.len = 0;
    for (size_t i = 0; i < history_count(h); i++) {
        json_t *m = NULL;
        if (!history_entry(h, i)->counts || history_entry(h, i)->role == HISTORY_HUTCH)
            continue;
        assert_int_equal(history_read(h, i, &m, NULL), 0);
        buf_append_str(&b, b.len ? " " : "");
        const json_t *block = json_array_get(json_object_get(m, "content"), 0);
        buf_append_str(&b, json_string_value(json_object_get(block, "text")));
        json_decref(m);
    }
    return buf_cstr(&b);
}

/* The file as other programs read it. */
static json_t *document(const char *id)
{
    json_error_t why;
    json_t *o = json_load_file(file_of(id, ".json"), 0, &why);
    if (!o)
        fail_msg("%s", why.text);
    return o;
}

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
        assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "totals"), "turns")), i);
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
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(json_object_get(m, "content"), 0), "text")),
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
                counting(h), third
                                 ? "first second third with {\"time\": \"x\", \"role\": \"user\"} in it more"
                                 : "first second more");
            json_t *o = document(id);
            assert_int_equal(json_array_size(json_object_get(o, "messages")), third ? 4 : 3);
            json_decref(o);
            history_close(h);
        }
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
    assert_int_equal(history_new("/ws", history_id(h), 2, &fork, &err), 0);
    assert_int_equal(history_copy_until(h, 2, fork, &err), 0);
    assert_string_equal(counting(fork), "a A b B");
    assert_int_equal(history_turns(fork), 2);
    json_t *m = history_last(fork, "summary");
    assert_int_equal(json_integer_value(json_object_get(m, "until")), 2); /* "box" and "gone" are not there */
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
    assert_int_equal(history_open(id, false, &second, NULL, &err), -EBUSY);
    assert_non_null(strstr(err.text, "this program"));
    assert_int_equal(history_remove(id, gone, &err), -EBUSY);
    pid_t child = fork();
    if (child == 0) {
        char pid[32];
        snprintf(pid, sizeof pid, "process %d (test_history)", getppid());
        int r = history_open(id, false, &second, NULL, &err);
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
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)(st.st_size + room), limit.rlim_max}), 0);
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

static void test_find(void **state)
{
    static const char text[] = "{\"messages\": [{\"role\": \"user\", \"turn\": 1, \"content\": []}]}";
    struct error err = {0};
    struct history *h = NULL;
    int fd;
    assert_int_equal(history_open("last", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_folder(&fd, &err), 0);
    close(fd);
    spill_text("20200101-000000", text);
    spill_text("20200101-000000-2", text);
    spill_text("20200202-000000", text);
    assert_int_equal(
        utimensat(AT_FDCWD, file_of("20200202-000000", ".json"), (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    assert_int_equal(
        utimensat(AT_FDCWD, file_of("20200101-000000-2", ".json"), (struct timespec[2]){{2, 0}, {2, 0}}, 0),
        0);
    assert_int_equal(
        utimensat(AT_FDCWD, file_of("20200101-000000", ".json"), (struct timespec[2]){{1, 0}, {1, 5}}, 0), 0);
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
    assert_int_equal(history_open("2020", true, &h, NULL, &err), -EINVAL);
    assert_int_equal(history_open("2021", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_open("", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_open("../x", true, &h, NULL, &err), -ENOENT);
    assert_int_equal(history_open("/", true, &h, NULL, &err), -EINVAL);
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
    spill_text("20200101-000000", "{\"created\": \"c\", \"messages\": [\n {\"role\": \"user\", \"turn\": 1,"
                                  " \"content\": \"by hand\"}, {\"role\": \"assistant\", \"cost\": 1e-1}]}");
    spill_text("broken", "{\"messages\": ");
    spill_text("empty", "");
    struct history_info *list = NULL;
    size_t n;
    assert_int_equal(
        utimensat(AT_FDCWD, file_of("20200101-000000", ".json"), (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
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

/* Layouts of other programs: sorted names, messages not last, indented, everything on one line. */
static void test_other_layouts(void **state)
{
    static const char *const texts[] = {
        "{\"messages\":[{\"content\":[{\"text\":\"a\",\"type\":\"text\"}],\"role\":\"user\",\"turn\":1},"
        "{\"content\":[{\"text\":\"A\",\"type\":\"text\"}],\"role\":\"assistant\"}],\"workspace\":\"/"
        "w\\u0073\"}",
        "{\n  \"workspace\": \"/ws\",\r\n\t\"messages\": [\n    {\n      \"role\": \"us\\u0065r\",\n      "
        "\"turn\": 1,\n"
        "      \"content\": [\n        {\"type\": \"text\", \"text\": \"a\"}\n      ]\n    },\n    {\n"
        "      \"r\\u006fle\": \"assistant\", \"n\": 1e400e, \"content\": [{\"type\": \"text\", \"text\": "
        "\"A\"}]\n    }\n  ]\n}\n",
        "{\"workspace\": \"/ws\", \"messages\": [{\"role\": \"user\", \"turn\": 1, \"n\": 12345678901234567, "
        "\"content\":"
        " [{\"type\": \"text\", \"text\": \"a\", \"x\": \"\\ud83d\\ude00\"}]}\n\n,\n{\"role\": \"hutch\", "
        "\"role\":"
        " \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"A\"}]}\n]   }  \n\n",
    };
    int fd;
    assert_int_equal(history_folder(&fd, NULL), 0);
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
        assert_non_null(strstr(history_trouble(h), "cannot be read"));
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
    assert_int_equal(history_folder(&fd, NULL), 0);
    close(fd);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        spill_text("x", texts[i]);
        assert_int_equal(history_open("x", false, &h, NULL, &err), -EBADMSG);
        _cleanup_buf_ struct buf same = slurp(file_of("x", ".json"));
        assert_int_equal(same.len, strlen(texts[i]));
    }
    spill_text("x", "{\"version\": 2, \"messages\": []}");
    assert_int_equal(history_open("x", false, &h, NULL, &err), -EPROTONOSUPPORT);
    spill_text("x", "{\"version\": 1, \"messages\": []}");
    h = open_it("x", false, NULL);
    begin(h, 1, "a");
    history_close(h);
    json_decref(document("x"));
    assert_int_equal(unlink(file_of("x", ".json")), 0);
    assert_int_equal(mkfifo(file_of("x", ".json"), 0600), 0);
    assert_int_equal(history_open("x", true, &h, NULL, &err), -EINVAL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_append),
        T(test_append_refuses),
        T(test_nothing_said_leaves_nothing),
        T(test_same_second),
        T(test_torn),
        T(test_undo),
        T(test_fork),
        T(test_fork_is_large),
        T(test_lock),
        T(test_no_space),
        T(test_changed_by_another),
        T(test_find),
        T(test_list_and_remove),
        T(test_other_layouts),
        T(test_damaged_in_the_middle),
        T(test_no_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
