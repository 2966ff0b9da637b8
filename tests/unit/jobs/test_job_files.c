/* Uploads, artifacts, logs and checkpoints: stored, counted, refused, removed. */
#include <sys/stat.h>

#include "jobs_fixture.h"

static int spooled(struct fixture *f, const char *text)
{
    int fd;
    OK(jobs_spool(f->jobs, &fd, &err));
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    return fd;
}

static int put(struct fixture *f, const struct lease *l, const char *kind, const char *path,
               uint64_t offset, const char *text, char *ret_upload, struct error *err)
{
    _cleanup_fd_ int fd = spooled(f, text);
    return jobs_lease_file(f->jobs, l, kind, path, offset, fd, ret_upload, err);
}

static void assert_content(int fd, const char *text)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(io_read_all(fd, &b), 0);
    assert_string_equal(buf_cstr(&b), text);
}

static void assert_file(struct fixture *f, const char *id, const char *path, const char *text)
{
    _cleanup_fd_ int fd = -1;
    uint64_t size;
    OK(jobs_file_open(f->jobs, "ann", id, path, &fd, &size, &err));
    assert_int_equal(size, strlen(text));
    assert_content(fd, text);
}

/* What the user stores, without the text of events. */
static int64_t stored(struct fixture *f, const char *user)
{
    struct db *db = store_reader(f->jobs->store, true, NULL);
    struct db_rows rows;
    assert_non_null(db);
    OK(DB_QUERY(db, &rows, &err,
                "SELECT stored_bytes - coalesce((SELECT sum(text_bytes) FROM jobs"
                " WHERE owner = name), 0) FROM users WHERE name = $1",
                db_text(user)));
    int64_t n = db_next(&rows, NULL) > 0 ? db_column_int(&rows, 0) : -1;
    db_rows_done(&rows);
    store_reader_done(f->jobs->store, db);
    return n;
}

static struct lease begin(struct fixture *f, struct id *ret)
{
    unsigned token;
    *ret = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    return (struct lease){.job = ret->text, .token = token};
}

static void test_artifacts_are_stored_listed_and_replaced(void **state)
{
    struct fixture *f = *state;
    struct id id;
    struct lease l = begin(f, &id);
    _cleanup_json_ json_t *list = NULL;
    OK(put(f, &l, "artifact", "out/b.txt", 0, "first", NULL, &err));
    OK(put(f, &l, "artifact", "out/b.txt", 0, "second one", NULL, &err));
    OK(put(f, &l, "artifact", "a.txt", 0, "", NULL, &err));
    OK(put(f, &l, "memory", "", 0, "{}", NULL, &err));
    OK(put(f, &l, "diff", "", 0, "diff --git", NULL, &err));
    OK(jobs_files(f->jobs, "ann", id.text, &list, &err));
    _cleanup_free_ char *text = json_dumps(list, JSON_COMPACT);
    assert_string_equal(text,
                        "[{\"path\":\"a.txt\",\"size\":0},{\"path\":\"out/b.txt\",\"size\":10}]");
    assert_file(f, id.text, "files/out/b.txt", "second one");
    assert_file(f, id.text, "memory.json", "{}");
    assert_int_equal(stored(f, "ann"), 22);
    _cleanup_json_ json_t *job = job_get(f, id.text), *users = NULL;
    OK(users_list(f->jobs, &users, &err));
    assert_int_equal(json_get_integer(job, "stored_bytes"),
                     json_get_integer(json_array_get(users, 0), "stored_bytes"));
    assert_true(json_get_integer(job, "stored_bytes") > 22); /* with the events */
}

static void test_files_of_others_and_missing_files_are_not_there(void **state)
{
    struct fixture *f = *state;
    struct id id;
    int fd = -1;
    uint64_t size;
    struct lease l = begin(f, &id);
    OK(put(f, &l, "artifact", "a", 0, "x", NULL, &err));
    FAILS(jobs_file_open(f->jobs, "bob", id.text, "files/a", &fd, &size, &err), ENOENT);
    const char *const paths[] = {
        "files/b",   "files",       "",         "..",      "files/../agent.log", "../../lock",
        "agent.log", "/etc/passwd", "files//a", "files/a/"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        assert_int_equal(jobs_file_open(f->jobs, "ann", id.text, paths[i], &fd, &size, NULL),
                         -ENOENT);
    assert_int_equal(fd, -1);
}

static void test_paths_of_artifacts_are_checked(void **state)
{
    struct fixture *f = *state;
    struct id id;
    struct lease l = begin(f, &id);
    char deep[80], name[300], text[1200];
    memset(deep, 'd', sizeof deep);
    for (size_t i = 1; i < sizeof deep; i += 2)
        deep[i] = '/';
    deep[sizeof deep - 1] = 0;
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    memset(text, 'a', sizeof text);
    for (size_t i = 100; i < sizeof text; i += 100)
        text[i] = '/';
    text[sizeof text - 1] = 0;
    const char *const bad[] = {"",
                               "/a",
                               "..",
                               "a/../b",
                               "../a",
                               "a//b",
                               "./a",
                               "a\nb",
                               "a\x1b[",
                               "\xff",
                               "a/",
                               "a/\x7f",
                               deep,
                               name,
                               text,
                               "\xe2\x80\xae"
                               "txt"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        FAILS(put(f, &l, "artifact", bad[i], 0, "x", NULL, &err), EINVAL);
    FAILS(put(f, &l, "secret", "a", 0, "x", NULL, &err), EINVAL);
    OK(put(f, &l, "artifact", "ä b/...c", 0, "x", NULL, &err));
    OK(put(f, &l, "artifact", "file", 0, "x", NULL, &err));
    /* A file where a folder is to be, and the other way round. */
    assert_true(put(f, &l, "artifact", "file/below", 0, "x", NULL, NULL) < 0);
    assert_true(put(f, &l, "artifact", "ä b", 0, "x", NULL, NULL) < 0);
}

/* A link in the data folder is never followed. */
static void test_links_are_not_followed(void **state)
{
    struct fixture *f = *state;
    struct id id;
    struct lease l = begin(f, &id);
    OK(put(f, &l, "artifact", "dir/a", 0, "x", NULL, &err));
    _cleanup_free_ char *dir = job_path(id.text, "files/dir");
    assert_int_equal(folder_remove(f->jobs->folder, dir), 0);
    assert_int_equal(symlinkat("/tmp", f->jobs->folder, dir), 0);
    int fd = -1;
    uint64_t size;
    assert_true(put(f, &l, "artifact", "dir/hutch-escaped", 0, "x", NULL, NULL) < 0);
    assert_true(jobs_file_open(f->jobs, "ann", id.text, "files/dir/a", &fd, &size, NULL) < 0);
    assert_int_equal(access("/tmp/hutch-escaped", F_OK), -1);
}

static void test_the_log_grows_and_repeats_are_ignored(void **state)
{
    struct fixture *f = *state;
    struct id id;
    struct lease l = begin(f, &id);
    OK(put(f, &l, "log", "", 0, "one\n", NULL, &err));
    OK(put(f, &l, "log", "", 4, "two\n", NULL, &err));
    OK(put(f, &l, "log", "", 4, "two\n", NULL, &err));
    OK(put(f, &l, "log", "", 0, "one\n", NULL, &err));
    FAILS(put(f, &l, "log", "", 9, "x", NULL, &err), EINVAL);
    FAILS(put(f, &l, "log", "", UINT64_MAX - 1, "xyz", NULL, &err), EINVAL);
    assert_file(f, id.text, "agent.log", "one\ntwo\n");
    OK(put(f, &l, "log", "", 4, "two\nthree\n", NULL, &err)); /* the first half had come */
    assert_file(f, id.text, "agent.log", "one\ntwo\nthree\n");
    assert_int_equal(stored(f, "ann"), 14);
}

static void test_a_lost_lease_writes_no_file(void **state)
{
    struct fixture *f = *state;
    struct id id;
    struct lease l = begin(f, &id);
    OK(put(f, &l, "artifact", "a", 0, "old", NULL, &err));
    l.token++;
    FAILS(put(f, &l, "artifact", "a", 0, "new", NULL, &err), ESTALE);
    FAILS(put(f, &l, "log", "", 0, "new", NULL, &err), ESTALE);
    FAILS(put(f, &l, "checkpoint", "", 0, "new", NULL, &err), ESTALE);
    assert_file(f, id.text, "files/a", "old");
    l.token--;
    OK(finish(f, id.text, l.token, COMPLETED, &err));
    FAILS(put(f, &l, "artifact", "a", 0, "new", NULL, &err), ESTALE);
}

static void test_a_checkpoint_is_valid_with_its_step(void **state)
{
    struct fixture *f = *state;
    struct id id, first, second;
    int fd;
    const char *type;
    struct lease l = begin(f, &id);
    OK(put(f, &l, "checkpoint", "", 0, "tar 1", first.text, &err));
    OK(jobs_lease_open(f->jobs, &l, "checkpoint", &fd, &type, &err));
    assert_int_equal(fd, -1);
    _cleanup_json_ json_t *step =
        json_pack("{s:i, s:i, s:s}", "step", 0, "result", 1, "checkpoint", first.text);
    OK(jobs_lease_step(f->jobs, &l, step, &err));
    OK(put(f, &l, "checkpoint", "", 0, "tar 22", second.text, &err));
    assert_int_equal(stored(f, "ann"), 11);
    OK(jobs_lease_open(f->jobs, &l, "checkpoint", &fd, &type, &err));
    assert_string_equal(type, "tar");
    assert_content(fd, "tar 1");
    close(fd);
    json_object_set_new(step, "step", json_integer(1));
    json_object_set_new(step, "checkpoint", json_string(second.text));
    OK(jobs_lease_step(f->jobs, &l, step, &err));
    assert_int_equal(stored(f, "ann"), 6);
    OK(jobs_lease_open(f->jobs, &l, "checkpoint", &fd, &type, &err));
    assert_content(fd, "tar 22");
    close(fd);
    json_object_set_new(step, "step", json_integer(2));
    json_object_set_new(step, "checkpoint", json_string(id.text));
    FAILS(jobs_lease_step(f->jobs, &l, step, &err), EINVAL);
    OK(finish(f, id.text, l.token, COMPLETED, &err));
    assert_int_equal(stored(f, "ann"), 0);
}

static void test_a_job_begins_with_an_upload(void **state)
{
    struct fixture *f = *state;
    struct id upload;
    unsigned token;
    int fd;
    const char *type;
    {
        _cleanup_fd_ int spool = spooled(f, "zip bytes");
        FAILS(jobs_upload(f->jobs, "ann", spool, "rar", 0, upload.text, &err), EINVAL);
        FAILS(jobs_upload(f->jobs, "ann", spool, "zip", 5, upload.text, &err), EDQUOT);
        OK(jobs_upload(f->jobs, "ann", spool, "zip", 9, upload.text, &err));
    }
    assert_int_equal(stored(f, "ann"), 9);
    _cleanup_free_ char *text = str_printf("{'workspace': {'upload': '%s'}}", upload.text);
    struct id id = submit(f, "ann", text);
    FAILS(jobs_upload_remove(f->jobs, "ann", upload.text, &err), EBUSY);
    lease_one(f, &token, 0);
    struct lease l = {.job = id.text, .token = token};
    OK(jobs_lease_open(f->jobs, &l, "workspace", &fd, &type, &err));
    assert_string_equal(type, "zip");
    assert_content(fd, "zip bytes");
    close(fd);
    OK(finish(f, id.text, token, COMPLETED, &err));
    OK(jobs_remove(f->jobs, "ann", id.text, &err)); /* the last job that named it */
    assert_int_equal(stored(f, "ann"), 0);
    FAILS(jobs_upload_remove(f->jobs, "ann", upload.text, &err), ENOENT);
    _cleanup_free_ char *path = str_printf("uploads/%s", upload.text);
    while (faccessat(f->jobs->folder, path, F_OK, 0) == 0)
        usleep(50000);
}

/* A crash between a file and its row. */
static void test_files_without_a_row_are_removed_at_the_start(void **state)
{
    struct fixture *f = *state;
    struct id upload;
    const char *const left[] = {"uploads/0123456789abcdefghjk", "tmp/0123456789abcdefghjk"};
    _cleanup_fd_ int spool = spooled(f, "tar");
    OK(jobs_upload(f->jobs, "ann", spool, "tar", 0, upload.text, &err));
    for (size_t i = 0; i < ARRAY_SIZE(left); i++)
        close(openat(f->jobs->folder, left[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    fixture_reopen(f);
    for (size_t i = 0; i < ARRAY_SIZE(left); i++)
        assert_int_equal(faccessat(f->jobs->folder, left[i], F_OK, 0), -1);
    _cleanup_free_ char *path = str_printf("uploads/%s", upload.text);
    assert_int_equal(faccessat(f->jobs->folder, path, F_OK, 0), 0);
}

static void test_a_job_begins_with_what_another_left(void **state)
{
    struct fixture *f = *state;
    struct id id;
    int fd;
    const char *type;
    unsigned token;
    struct lease l = begin(f, &id);
    OK(put(f, &l, "workspace", "", 0, "tar", NULL, &err));
    OK(put(f, &l, "memory", "", 0, "{}", NULL, &err));
    _cleanup_free_ char *text =
        str_printf("{'workspace': {'job': '%s'}, 'memory_from': '%s'}", id.text, id.text);
    struct id next = submit(f, "ann", text);
    OK(finish(f, id.text, l.token, COMPLETED, &err));
    assert_string_equal(lease_one(f, &token, 0).text, next.text);
    struct lease second = {.job = next.text, .token = token};
    OK(jobs_lease_open(f->jobs, &second, "workspace", &fd, &type, &err));
    assert_content(fd, "tar");
    close(fd);
    OK(jobs_lease_open(f->jobs, &second, "memory", &fd, &type, &err));
    assert_string_equal(type, "json");
    assert_content(fd, "{}");
    close(fd);
}

static void test_a_user_stores_as_much_as_the_limit(void **state)
{
    struct fixture *f = *state;
    struct id id;
    _cleanup_json_ json_t *limits = json_of("{'stored': 10000}");
    _cleanup_free_ char *large = calloc(1, 8001);
    memset(large, 'x', 8000);
    OK(users_set(f->jobs, "ann", limits, &err));
    struct lease l = begin(f, &id);
    OK(put(f, &l, "artifact", "a", 0, large, NULL, &err));
    FAILS(put(f, &l, "artifact", "b", 0, large, NULL, &err), EDQUOT);
    FAILS(put(f, &l, "log", "", 0, large, NULL, &err), EDQUOT);
    FAILS(put(f, &l, "checkpoint", "", 0, large, NULL, &err), EDQUOT);
    OK(put(f, &l, "artifact", "a", 0, "12", NULL, &err));
    OK(put(f, &l, "artifact", "b", 0, large, NULL, &err));
    assert_int_equal(stored(f, "ann"), 8002);
    /* A job's end needs no room. */
    _cleanup_json_ json_t *less = json_of("{'stored': 1}");
    OK(users_set(f->jobs, "ann", less, &err));
    OK(finish(f, id.text, l.token, "{'state': 'completed', 'log': {'offset': 0, 'text': 'x'}}",
              &err));
    assert_int_equal(stored(f, "ann"), 8003);
}

static void test_steps_and_ends_bring_lines_of_the_log(void **state)
{
    struct fixture *f = *state;
    struct id id;
    struct lease l = begin(f, &id);
    _cleanup_json_ json_t *step = json_of("{'step': 0, 'result': {'tool': 'bash', 'text': 'one'},"
                                          " 'log': {'offset': 0, 'text': 'first '}}");
    OK(jobs_lease_step(f->jobs, &l, step, &err));
    OK(jobs_lease_step(f->jobs, &l, step, &err)); /* its answer was lost */
    FAILS(finish(f, id.text, l.token, "{'state': 'completed', 'log': {'offset': 99, 'text': 'x'}}",
                 &err),
          EINVAL);
    OK(finish(f, id.text, l.token, "{'state': 'completed', 'log': {'offset': 6, 'text': 'last'}}",
              &err));
    assert_file(f, id.text, "agent.log", "first last");
    assert_int_equal(stored(f, "ann"), 10);
}

/* No worker sends it. */
static void test_memory_of_steps_is_made_of_their_results(void **state)
{
    struct fixture *f = *state;
    int fd;
    uint64_t size;
    unsigned token;
    const char *type;
    struct id id = submit(f, "ann", "{'steps': [{'tool': 'bash', 'command': 'ls'}]}");
    lease_one(f, &token, 0);
    assert_int_equal(jobs_file_open(f->jobs, "ann", id.text, "memory.json", &fd, &size, NULL),
                     -ENOENT);
    OK(finish(f, id.text, token, "{'state': 'completed', 'steps': [{'text': 'a'}]}", &err));
    _cleanup_free_ char *wanted =
        str_printf("{\"job\":\"%s\",\"actions\":[{\"tool\":\"bash\",\"input\":{\"command\":\"ls\","
                   "\"tool\":\"bash\"},\"result\":{\"text\":\"a\"}}]}",
                   id.text);
    assert_file(f, id.text, "memory.json", wanted);
    FAILS(jobs_file_open(f->jobs, "bob", id.text, "memory.json", &fd, &size, &err), ENOENT);
    _cleanup_free_ char *text = str_printf("{'memory_from': '%s'}", id.text);
    struct id next = submit(f, "ann", text);
    lease_one(f, &token, 0);
    struct lease l = {.job = next.text, .token = token};
    OK(jobs_lease_open(f->jobs, &l, "memory", &fd, &type, &err));
    assert_content(fd, wanted);
    close(fd);
}

/* Job by job back to one that left something. */
static void test_a_job_that_changed_nothing_hands_its_workspace_on(void **state)
{
    struct fixture *f = *state;
    struct id upload;
    unsigned token;
    int fd;
    const char *type;
    _cleanup_fd_ int spool = spooled(f, "zip bytes");
    OK(jobs_upload(f->jobs, "ann", spool, "zip", 0, upload.text, &err));
    _cleanup_free_ char *text = str_printf("{'workspace': {'upload': '%s'}}", upload.text);
    struct id id = submit(f, "ann", text);
    for (int i = 0; i < 3; i++) {
        lease_one(f, &token, 0);
        struct lease l = {.job = id.text, .token = token};
        OK(jobs_lease_open(f->jobs, &l, "workspace", &fd, &type, &err));
        assert_string_equal(type, "zip");
        assert_content(fd, "zip bytes");
        close(fd);
        OK(finish(f, id.text, token, COMPLETED, &err));
        _cleanup_free_ char *next = str_printf("{'workspace': {'job': '%s'}}", id.text);
        id = submit(f, "ann", next);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

int main(void)
{
    alarm(220);
    const struct CMUnitTest tests[] = {
        TEST(test_artifacts_are_stored_listed_and_replaced),
        TEST(test_files_of_others_and_missing_files_are_not_there),
        TEST(test_paths_of_artifacts_are_checked),
        TEST(test_links_are_not_followed),
        TEST(test_the_log_grows_and_repeats_are_ignored),
        TEST(test_a_lost_lease_writes_no_file),
        TEST(test_a_checkpoint_is_valid_with_its_step),
        TEST(test_a_job_begins_with_an_upload),
        TEST(test_files_without_a_row_are_removed_at_the_start),
        TEST(test_a_job_begins_with_what_another_left),
        TEST(test_a_user_stores_as_much_as_the_limit),
        TEST(test_steps_and_ends_bring_lines_of_the_log),
        TEST(test_memory_of_steps_is_made_of_their_results),
        TEST(test_a_job_that_changed_nothing_hands_its_workspace_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
