/* The store: many threads at once, a change that fails, a full disk, who may open it. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "jobs_fixture.h"

#define THREADS 32
#define EACH    30

struct submitter {
    struct fixture *f;
    struct id ids[EACH];
    pthread_t thread;
};

static void *submit_many(void *data)
{
    struct submitter *s = data;
    char user[16];
    snprintf(user, sizeof user, "user%d", (int)((uintptr_t)s->thread % 5));
    for (int i = 0; i < EACH; i++)
        s->ids[i] = submit(s->f, user, STEP);
    return NULL;
}

static void test_changes_of_many_threads_are_committed_together(void **state)
{
    struct fixture *f = *state;
    static struct submitter all[THREADS];
    struct store_statistics before, after;
    store_statistics(f->jobs->store, &before);
    for (int i = 0; i < THREADS; i++) {
        all[i].f = f;
        assert_int_equal(pthread_create(&all[i].thread, NULL, submit_many, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i].thread, NULL);
    store_statistics(f->jobs->store, &after);
    assert_true(after.changes - before.changes >= THREADS * EACH);
    assert_true(after.commits - before.commits < THREADS * EACH / 2);
    fixture_reopen(f);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < EACH; k++)
            assert_state(f, all[i].ids[k].text, "scheduled", NULL);
}

/* --- killed --- */

struct acknowledged {
    char what; /* 's': submitted, 'f': finished */
    char id[JOB_ID_LEN + 1];
};

static struct fixture *killed;
static int acknowledge_fd;

static void acknowledge(char what, const char *id)
{
    struct acknowledged a = {.what = what};
    snprintf(a.id, sizeof a.id, "%s", id);
    if (write(acknowledge_fd, &a, sizeof a) != sizeof a)
        _exit(1);
}

static void *submit_until_killed(void *data)
{
    for (;;)
        acknowledge('s', submit(killed, "ann", STEP).text);
    return NULL;
}

static void *finish_until_killed(void *data)
{
    for (;;) {
        unsigned token;
        struct id id = lease_one(killed, &token, 1000);
        if (!*id.text)
            continue;
        OK(finish(killed, id.text, token, COMPLETED, &err));
        acknowledge('f', id.text);
    }
    return NULL;
}

static void work_until_killed(struct fixture *f, int fd)
{
    pthread_t thread;
    killed = f;
    acknowledge_fd = fd;
    struct error err = {0};
    if (jobs_open(&f->options, &f->jobs, &err) < 0)
        _exit(1);
    for (int i = 0; i < 8; i++)
        pthread_create(&thread, NULL, i < 5 ? submit_until_killed : finish_until_killed, NULL);
    pause();
}

static void test_what_was_answered_outlasts_a_kill(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 4; round++) {
        struct acknowledged a;
        int ends[2], status, n = 0;
        f->jobs = jobs_close(f->jobs);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0) {
            work_until_killed(f, ends[1]);
            _exit(1);
        }
        close(ends[1]);
        _cleanup_buf_ struct buf answers = BUF_INIT(16 << 20);
        while (read(ends[0], &a, sizeof a) == sizeof a) {
            buf_append(&answers, &a, sizeof a);
            if (++n == 150)
                kill(child, SIGKILL);
        }
        close(ends[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        OK(jobs_open(&f->options, &f->jobs, &err));
        const struct acknowledged *all = (void *)answers.data;
        for (size_t i = 0; i < answers.len / sizeof a; i++) {
            json_decref(job_get(f, all[i].id));
            if (all[i].what == 'f')
                assert_state(f, all[i].id, "completed", "completed");
        }
    }
}

struct failing_change {
    struct job_change base;
    sem_t *go;
};

static int failing_run(struct db *db, struct job_change *change, struct error *err)
{
    struct failing_change *c = (struct failing_change *)change;
    DB_RUN(db, err, "INSERT INTO garbage (path) VALUES ($1)", db_text("left"));
    while (c->go && sem_wait(c->go) < 0) {
    }
    return error_set(err, EINVAL, "refused");
}

static int counting_run(struct db *db, struct job_change *change, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    if (db_query(db, &rows, "SELECT count(*) FROM garbage WHERE path = 'left'", NULL, 0, err) < 0 ||
        db_next(&rows, err) < 0)
        return -EIO;
    return db_column_int(&rows, 0) == 0 ? 0 : error_set(err, EEXIST, "a refused change is there");
}

struct call {
    struct fixture *f;
    struct job_change *c;
    int r;
};

static void *call_change(void *data)
{
    struct call *one = data;
    struct error err = {0};
    one->r = job_change_commit(one->f->jobs, one->c, &err);
    return NULL;
}

/* Both are of one transaction: they were queued while the writer was busy. */
static void test_a_change_that_fails_is_undone_alone(void **state)
{
    struct fixture *f = *state;
    sem_t go;
    sem_init(&go, 0, 0);
    struct failing_change first = {.base = JOB_CHANGE(failing_run), .go = &go};
    struct failing_change failing = {.base = JOB_CHANGE(failing_run)};
    struct job_change counting = JOB_CHANGE(counting_run);
    pthread_t threads[3];
    struct call calls[3] = {{f, &first.base, 0}, {f, &failing.base, 0}, {f, &counting, 0}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_change, &calls[i]), 0);
        usleep(50000);
    }
    sem_post(&go);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(calls[0].r, -EINVAL);
    assert_int_equal(calls[1].r, -EINVAL);
    assert_int_equal(calls[2].r, 0);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes == 0 ? limit.rlim_max : bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_nothing_is_accepted_while_the_disk_is_full(void **state)
{
    struct fixture *f = *state;
    struct id id, before = submit(f, "ann", STEP);
    unsigned token;
    _cleanup_json_ json_t *spec = json_of("{'steps': []}"), *health = NULL;
    struct job_submission s = {.user = "ann", .kind = "steps", .spec = spec};
    signal(SIGXFSZ, SIG_IGN);
    limit_files(8192); /* the log of the database is longer already */
    for (int i = 0; i < 5; i++)
        FAILS(jobs_submit(f->jobs, &s, id.text, NULL, &err), ENOSPC);
    FAILS(jobs_health(f->jobs, &health, &err), ENOSPC);
    assert_state(f, before.text, "scheduled", NULL); /* what is there can be read */
    limit_files(0);
    OK(jobs_submit(f->jobs, &s, id.text, NULL, &err));
    OK(jobs_health(f->jobs, &health, &err));
    assert_int_equal(json_get_integer(health, "scheduled"), 2);
    assert_string_equal(lease_one(f, &token, 0).text, before.text);
    fixture_reopen(f);
    assert_state(f, id.text, "scheduled", NULL);
}

static void test_a_file_that_does_not_fit_is_no_artifact(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    uint64_t size;
    int fd, other;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    struct lease l = {.job = id.text, .token = token};
    OK(jobs_spool(f->jobs, &fd, &err));
    assert_int_equal(io_write_all(fd, "x", 1), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(8192);
    assert_int_equal(jobs_lease_file(f->jobs, &l, "artifact", "a", 0, fd, NULL, NULL), -ENOSPC);
    limit_files(0);
    assert_int_equal(jobs_file_open(f->jobs, "ann", id.text, "files/a", &other, &size, NULL),
                     -ENOENT);
    OK(jobs_lease_file(f->jobs, &l, "artifact", "a", 0, fd, NULL, &err));
    OK(jobs_file_open(f->jobs, "ann", id.text, "files/a", &other, &size, &err));
    assert_int_equal(size, 1);
    close(other);
    close(fd);
}

static void test_one_process_at_a_time_opens_the_jobs(void **state)
{
    struct fixture *f = *state;
    struct jobs *other = NULL;
    FAILS(jobs_open(&f->options, &other, &err), EBUSY);
    struct jobs_options keys = {.data = f->folder, .keys_only = true};
    OK(jobs_open(&keys, &other, &err));
    jobs_close(other);
}

static void test_the_files_are_for_the_owner_only(void **state)
{
    struct fixture *f = *state;
    static const char *const files[] = {"hutch.db", "hutch.db-wal", "hutch.db-shm", "lock"};
    struct stat st;
    submit(f, "ann", STEP);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        assert_int_equal(fstatat(f->jobs->folder, files[i], &st, 0), 0);
        assert_int_equal(st.st_mode & 077, 0);
    }
}

static int newer_run(struct db *db, struct job_change *c, struct error *err)
{
    int64_t r = DB_RUN(db, err, "INSERT INTO migrations (number) VALUES ($1)", db_int(9999));
    return r < 0 ? (int)r : 0;
}

static void test_stores_of_unknown_kinds_and_of_newer_versions_are_refused(void **state)
{
    struct fixture *f = *state;
    struct jobs *other = NULL;
    struct jobs_options o = {.data = f->folder, .store = "mysql://db", .keys_only = true};
    FAILS(jobs_open(&o, &other, &err), EINVAL);
    struct job_change newer = JOB_CHANGE(newer_run);
    OK(job_change_commit(f->jobs, &newer, &err));
    o.store = NULL;
    FAILS(jobs_open(&o, &other, &err), EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

int main(void)
{
    alarm(220);
    const struct CMUnitTest tests[] = {
        TEST(test_changes_of_many_threads_are_committed_together),
        TEST(test_what_was_answered_outlasts_a_kill),
        TEST(test_a_change_that_fails_is_undone_alone),
        TEST(test_nothing_is_accepted_while_the_disk_is_full),
        TEST(test_a_file_that_does_not_fit_is_no_artifact),
        TEST(test_one_process_at_a_time_opens_the_jobs),
        TEST(test_the_files_are_for_the_owner_only),
        TEST(test_stores_of_unknown_kinds_and_of_newer_versions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
