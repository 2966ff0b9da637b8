/* What time does: leases that run out, backoff, timeouts, idle live jobs, retention, restarts. */
#include "jobs_fixture.h"

#define SHORT_MS 200 /* of a lease that is to run out */

static int fixture_begin_short(void **state)
{
    fixture_begin(state);
    struct fixture *f = *state;
    f->options.lease_ms = SHORT_MS;
    fixture_reopen(f);
    return 0;
}

static const char *renew(struct fixture *f, const char *worker, const char *id, unsigned token,
                         int wait_ms)
{
    static char state[16];
    _cleanup_json_ json_t *answer = NULL,
                          *leases = json_pack("[{s:s, s:i}]", "job", id, "token", (int)token);
    OK(jobs_renew(f->jobs, worker, leases, wait_ms, -1, &answer, &err));
    snprintf(state, sizeof state, "%s", json_get_string(json_array_get(answer, 0), "state"));
    return state;
}

static void test_a_lost_lease_makes_the_job_run_again(void **state)
{
    struct fixture *f = *state;
    unsigned first, second;
    struct id id = submit(f, "ann", "{'steps': [{'tool': 'a'}, {'tool': 'b'}]}");
    lease_one(f, &first, 0);
    struct lease l = {.job = id.text, .token = first};
    _cleanup_json_ json_t *step = json_of("{'step': 0, 'result': 'one'}");
    OK(jobs_lease_step(f->jobs, &l, step, &err));
    wait_for_state(f, id.text, "scheduled");
    assert_string_equal(renew(f, "w", id.text, first, 60000), "lost");
    f->jobs->lease_ms = 60000;
    _cleanup_json_ json_t *leases = lease_some(f, 1, 0, 60000);
    json_t *lease = json_array_get(leases, 0);
    second = (unsigned)json_get_integer(lease, "token");
    assert_int_equal(second, first + 1);
    assert_int_equal(json_get_integer(lease, "steps_done"), 1);
    assert_int_equal(json_array_size(json_object_get(lease, "results")), 1);
    /* The former worker wakes up again. */
    FAILS(jobs_lease_step(f->jobs, &l, step, &err), ESTALE);
    FAILS(finish(f, id.text, first, COMPLETED, &err), ESTALE);
    assert_string_equal(renew(f, "w", id.text, first, 0), "lost");
    assert_string_equal(renew(f, "other", id.text, second, 0), "lost");
    assert_string_equal(renew(f, "w", id.text, second, 0), "held");
    OK(finish(f, id.text, second, COMPLETED, &err));
    FAILS(finish(f, id.text, first, COMPLETED, &err), ESTALE);
    assert_state(f, id.text, "completed", "completed");
}

static void test_a_job_that_loses_all_its_workers_fails(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", "{'steps': [], 'max_attempts': 2}");
    lease_one(f, &token, 0);
    assert_string_equal(lease_one(f, &token, 60000).text, id.text);
    wait_for_state(f, id.text, "failed");
    assert_state(f, id.text, "failed", "worker_lost");
    FAILS(finish(f, id.text, token, COMPLETED, &err), ESTALE);
}

static void test_a_cancelled_job_ends_when_its_worker_is_lost(void **state)
{
    struct fixture *f = *state;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, NULL, 0);
    OK(jobs_cancel(f->jobs, "ann", id.text, &err));
    wait_for_state(f, id.text, "cancelled");
}

/* One that renews its lease, and never says that it is done. */
static void test_a_worker_that_ignores_a_cancellation_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    OK(jobs_cancel(f->jobs, "ann", id.text, &err));
    while (strcmp(renew(f, "w", id.text, token, 0), "cancel") == 0)
        usleep(20000);
    wait_for_state(f, id.text, "cancelled");
}

static void test_a_dead_worker_loses_its_leases_at_once(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    jobs_worker_lost(f->jobs, "another");
    assert_string_equal(renew(f, "w", id.text, token, 0), "held");
    int64_t from = clock_now();
    jobs_worker_lost(f->jobs, "w");
    assert_string_equal(lease_one(f, NULL, 60000).text, id.text);
    assert_true(clock_now() - from < 15 * NS_PER_S); /* a lease lasts that long */
}

static void test_leases_go_on_after_a_restart(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", STEP), waiting = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    fixture_reopen(f);
    assert_string_equal(renew(f, "w", id.text, token, 0), "held");
    OK(finish(f, id.text, token, COMPLETED, &err));
    fixture_reopen(f);
    OK(finish(f, id.text, token, COMPLETED, &err)); /* the answer was lost with the server */
    assert_state(f, id.text, "completed", "completed");
    assert_string_equal(lease_one(f, NULL, 0).text, waiting.text);
}

static void test_a_lease_runs_out_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, NULL, 0);
    f->options.lease_ms = SHORT_MS;
    fixture_reopen(f);
    assert_string_equal(lease_one(f, NULL, 60000).text, id.text);
}

static void test_backoff_and_cancellation_outlast_a_restart(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id fault = submit(f, "ann", STEP), cancelled = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    OK(finish(f, fault.text, token, FAULT, &err));
    lease_one(f, &token, 0);
    OK(jobs_cancel(f->jobs, NULL, cancelled.text, &err));
    fixture_reopen(f);
    assert_string_equal(renew(f, "w", cancelled.text, token, 0), "cancel");
    assert_string_equal(lease_one(f, NULL, 0).text, "");
    assert_string_equal(lease_one(f, NULL, 60000).text, fault.text);
}

static struct id submitted;

static void *submit_soon(void *data)
{
    usleep(50000);
    submitted = submit(data, "ann", STEP);
    return NULL;
}

static void test_a_worker_that_waits_gets_a_job_at_once(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, submit_soon, f), 0);
    struct id got = lease_one(f, NULL, 60000);
    pthread_join(thread, NULL);
    assert_string_equal(got.text, submitted.text);
}

static void test_a_wait_can_be_interrupted(void **state)
{
    struct fixture *f = *state;
    int ends[2];
    json_t *leases = NULL;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "", 1), 1);
    struct lease_request q = {.worker = "w", .slots = 1, .wait_ms = 60000, .cancel = ends[0]};
    FAILS(jobs_lease(f->jobs, &q, &leases, &err), ECANCELED);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_job_begins_at_its_time(void **state)
{
    struct fixture *f = *state;
    char when[32];
    time_format(jobs_now() + 1500, when);
    _cleanup_free_ char *spec = str_printf("{'steps': [], 'not_before': '%s'}", when);
    struct id id = submit(f, "ann", spec);
    assert_string_equal(lease_one(f, NULL, 0).text, "");
    assert_string_equal(lease_one(f, NULL, 60000).text, id.text);
    time_format(jobs_now(), spec);
    assert_true(strcmp(spec, when) >= 0);
}

static void test_the_timeout_counts_from_the_first_start(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", "{'steps': [], 'timeout': '2s'}");
    usleep(100000); /* time in the queue does not count */
    _cleanup_json_ json_t *leases = lease_some(f, 1, 0, 0);
    token = (unsigned)json_get_integer(json_array_get(leases, 0), "token");
    assert_in_range(json_get_integer(json_array_get(leases, 0), "deadline_ms"), 1000, 2000);
    /* The worker is told, and what it then says is a timeout. */
    const char *said = "held";
    while (strcmp(said, "held") == 0)
        said = renew(f, "w", id.text, token, 60000);
    assert_string_equal(said, "cancel");
    OK(finish(f, id.text, token, "{'state': 'cancelled'}", &err));
    assert_state(f, id.text, "failed", "timeout");
}

static void test_a_timeout_ends_a_job_between_its_attempts(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", "{'steps': [], 'timeout': '300ms'}");
    lease_one(f, &token, 0);
    OK(finish(f, id.text, token, FAULT, &err));
    wait_for_state(f, id.text, "failed");
    assert_state(f, id.text, "failed", "timeout");
}

static void test_an_idle_live_job_ends(void **state)
{
    struct fixture *f = *state;
    struct id idle = submit_live(f, "ann", 300), used = submit_live(f, "ann", 30000);
    json_decref(lease_some(f, 0, 2, 0));
    OK(jobs_touch(f->jobs, used.text));
    while (strcmp(renew(f, "w", idle.text, 1, 100), "cancel") != 0) {
    }
    OK(finish(f, idle.text, 1, COMPLETED, &err));
    assert_state(f, idle.text, "completed", "completed");
    assert_string_equal(renew(f, "w", used.text, 1, 0), "held");
}

static void test_an_idle_live_job_without_a_worker_ends(void **state)
{
    struct fixture *f = *state;
    struct id id = submit_live(f, "ann", 300);
    wait_for_state(f, id.text, "completed");
}

static void test_ended_jobs_are_removed_after_their_time(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    json_t *job = NULL;
    f->options.keep_ms = 300;
    fixture_reopen(f);
    struct id usual = submit(f, "ann", STEP), kept = submit(f, "ann", "{'keep': '7d'}");
    struct id gone[] = {usual, submit(f, "ann", "{'keep': '100ms'}")};
    for (int i = 0; i < 3; i++) {
        struct id id = lease_one(f, &token, 0);
        struct lease l = {.job = id.text, .token = token};
        int fd;
        OK(jobs_spool(f->jobs, &fd, &err));
        OK(jobs_lease_file(f->jobs, &l, "artifact", "a", 0, fd, NULL, &err));
        close(fd);
        OK(finish(f, id.text, token, COMPLETED, &err));
    }
    for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
        _cleanup_free_ char *path = job_path(gone[i].text, "");
        while (jobs_get(f->jobs, NULL, gone[i].text, &job, NULL) == 0) {
            json_decref(job);
            usleep(50000);
        }
        while (faccessat(f->jobs->folder, path, F_OK, 0) == 0)
            usleep(50000);
    }
    assert_state(f, kept.text, "completed", "completed");
}

#define TEST(name)  cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
#define SHORT(name) cmocka_unit_test_setup_teardown(name, fixture_begin_short, fixture_end)

int main(void)
{
    alarm(220);
    const struct CMUnitTest tests[] = {
        SHORT(test_a_lost_lease_makes_the_job_run_again),
        SHORT(test_a_job_that_loses_all_its_workers_fails),
        SHORT(test_a_cancelled_job_ends_when_its_worker_is_lost),
        SHORT(test_a_worker_that_ignores_a_cancellation_is_not_waited_for),
        TEST(test_a_dead_worker_loses_its_leases_at_once),
        TEST(test_leases_go_on_after_a_restart),
        TEST(test_a_lease_runs_out_after_a_restart),
        TEST(test_backoff_and_cancellation_outlast_a_restart),
        TEST(test_a_worker_that_waits_gets_a_job_at_once),
        TEST(test_a_wait_can_be_interrupted),
        TEST(test_a_job_begins_at_its_time),
        TEST(test_the_timeout_counts_from_the_first_start),
        TEST(test_a_timeout_ends_a_job_between_its_attempts),
        TEST(test_an_idle_live_job_ends),
        TEST(test_an_idle_live_job_without_a_worker_ends),
        TEST(test_ended_jobs_are_removed_after_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
