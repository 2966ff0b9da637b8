/* The life of a job as clients and its worker see it; and what a lost answer repeats. */
#include "jobs_fixture.h"

static void test_a_job_runs_from_submission_to_its_end(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann",
                          "{'title': 'Build', 'steps': [{'tool': 'shell', 'command': 'ls'},"
                          "{'tool': 'python', 'code': '1'}], 'labels': {'a': 'b'}}");
    assert_state(f, id.text, "scheduled", NULL);
    struct id leased = lease_one(f, &token, 0);
    assert_string_equal(leased.text, id.text);
    assert_int_equal(token, 1);
    assert_state(f, id.text, "running", NULL);

    struct lease l = {.job = id.text, .token = token};
    _cleanup_json_ json_t *step = json_of("{'step': 0, 'result': {'tool': 'shell', 'text': 'a'},"
                                          " 'events': [{'type': 'step', 'step': 0}]}");
    OK(jobs_lease_step(f->jobs, &l, step, &err));
    OK(finish(f, id.text, token,
              "{'state': 'completed', 'exit_reason': 'completed', 'steps': [{'tool': 'python'}],"
              " 'first': 1, 'events': [{'type': 'log', 'text': 'x'}], 'cost': 0.5,"
              " 'usage': {'input_tokens': 3}}",
              &err));
    _cleanup_json_ json_t *job = job_get(f, id.text);
    assert_string_equal(json_get_string(job, "state"), "completed");
    assert_int_equal(json_get_integer(job, "steps_done"), 2);
    assert_int_equal(json_array_size(json_object_get(job, "result")), 2);
    assert_true(json_real_value(json_object_get(job, "cost")) == 0.5);
    assert_string_equal(json_get_string(json_object_get(job, "labels"), "a"), "b");
    assert_int_equal(strlen(json_get_string(job, "finished_at")), 24);
}

static void test_the_lease_has_what_a_worker_needs(void **state)
{
    struct fixture *f = *state;
    submit(f, "ann", "{'steps': [{'tool': 'shell', 'command': 'ls'}], 'timeout': '1h'}");
    _cleanup_json_ json_t *leases = lease_some(f, 1, 0, 0);
    json_t *lease = json_array_get(leases, 0);
    assert_string_equal(json_get_string(lease, "kind"), "steps");
    assert_string_equal(json_get_string(lease, "user"), "ann");
    assert_int_equal(json_array_size(json_object_get(json_object_get(lease, "spec"), "steps")), 1);
    assert_int_equal(json_get_integer(lease, "steps_done"), 0);
    assert_true(json_get_integer(lease, "deadline_ms") > 3000 * 1000);
    assert_int_equal(json_get_integer(lease, "lease_ms"), 15000);
    assert_true(json_is_null(json_object_get(lease, "resume")));
    assert_true(json_is_false(json_object_get(lease, "has_checkpoint")));
}

/* --- what is repeated --- */

static void test_a_repeated_submission_is_the_same_job(void **state)
{
    struct fixture *f = *state;
    struct id ids[2], other;
    bool existed;
    _cleanup_json_ json_t *spec = json_of("{'steps': []}"), *another = json_of("{'steps': [1]}");
    struct job_submission s = {
        .user = "ann", .kind = "steps", .spec = spec, .idempotency = "key-1"};
    OK(jobs_submit(f->jobs, &s, ids[0].text, &existed, &err));
    assert_false(existed);
    OK(jobs_submit(f->jobs, &s, ids[1].text, &existed, &err));
    assert_true(existed);
    assert_string_equal(ids[0].text, ids[1].text);
    s.user = "bob"; /* whose keys are his own */
    OK(jobs_submit(f->jobs, &s, other.text, &existed, &err));
    assert_false(existed);
    s.user = "ann";
    s.spec = another;
    FAILS(jobs_submit(f->jobs, &s, other.text, &existed, &err), EEXIST);
}

static uint64_t last_event(struct fixture *f, const char *id);

static void test_a_repeated_finish_succeeds_without_effect(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    OK(finish(f, id.text, token, COMPLETED, &err));
    uint64_t events = last_event(f, id.text);
    OK(finish(f, id.text, token, COMPLETED, &err));
    OK(finish(f, id.text, token, FAULT, &err));
    assert_state(f, id.text, "completed", "completed");
    assert_int_equal(last_event(f, id.text), events);
    FAILS(finish(f, id.text, token + 1, COMPLETED, &err), ESTALE);
}

static void test_a_repeated_step_and_events_are_stored_once(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    uint64_t next;
    struct id id = submit(f, "ann", "{'steps': [{'tool': 'a'}, {'tool': 'b'}]}");
    lease_one(f, &token, 0);
    struct lease l = {.job = id.text, .token = token};
    _cleanup_json_ json_t *step = json_of("{'step': 0, 'result': 1, 'first': 0,"
                                          " 'events': [{'type': 'log', 'text': 'one'}]}");
    OK(jobs_lease_step(f->jobs, &l, step, &err));
    uint64_t events = last_event(f, id.text);
    OK(jobs_lease_step(f->jobs, &l, step, &err));
    assert_int_equal(last_event(f, id.text), events);

    _cleanup_json_ json_t *more = json_of("[{'type': 'log', 'text': 'one'},"
                                          " {'type': 'log', 'text': 'two'}]");
    OK(jobs_lease_events(f->jobs, &l, 0, more, &next, &err));
    assert_int_equal(next, 2);
    assert_int_equal(last_event(f, id.text), events + 1);
    OK(jobs_lease_events(f->jobs, &l, 0, more, &next, &err));
    assert_int_equal(last_event(f, id.text), events + 1);
    FAILS(jobs_lease_events(f->jobs, &l, 5, more, &next, &err), EINVAL);

    _cleanup_json_ json_t *third = json_of("{'step': 2, 'result': 1}");
    FAILS(jobs_lease_step(f->jobs, &l, third, &err), EINVAL);
}

static void test_another_token_changes_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    uint64_t events = last_event(f, id.text);
    struct lease wrong = {.job = id.text, .token = token + 1};
    _cleanup_json_ json_t *body = json_of("{'step': 0, 'result': 1}");
    _cleanup_json_ json_t *list = json_of("[{'type': 'log', 'text': 'x'}]");
    FAILS(jobs_lease_step(f->jobs, &wrong, body, &err), ESTALE);
    FAILS(jobs_lease_events(f->jobs, &wrong, 0, list, NULL, &err), ESTALE);
    FAILS(jobs_lease_resume(f->jobs, &wrong, body, &err), ESTALE);
    FAILS(finish(f, id.text, token + 1, COMPLETED, &err), ESTALE);
    FAILS(jobs_lease_check(f->jobs, &wrong, NULL, NULL, &err), ESTALE);
    struct lease none = {.job = "0123456789abcdefghjk", .token = 1};
    FAILS(jobs_lease_step(f->jobs, &none, body, &err), ESTALE);
    assert_int_equal(last_event(f, id.text), events);
    assert_state(f, id.text, "running", NULL);
}

/* --- events --- */

struct seen {
    uint64_t last;
    unsigned n;
    char types[400];
    json_t *newest;
};

static void see(void *data, uint64_t seq, const char *type, const char *text, size_t n)
{
    struct seen *s = data;
    assert_int_equal(seq, s->last + 1);
    assert_int_equal(strlen(text), n);
    json_decref(s->newest);
    s->newest = json_of_exact(text);
    assert_int_equal(json_get_integer(s->newest, "seq"), seq);
    assert_string_equal(json_get_string(s->newest, "type"), type);
    s->last = seq;
    s->n++;
    if (strlen(s->types) + strlen(type) + 2 < sizeof s->types) {
        size_t used = strlen(s->types);
        snprintf(s->types + used, sizeof s->types - used, "%s ", type);
    }
}

static uint64_t last_event(struct fixture *f, const char *id)
{
    struct seen s = {0};
    bool ended;
    OK(jobs_events(f->jobs, NULL, id, 0, 1000, see, &s, &ended, &err));
    json_decref(s.newest);
    return s.last;
}

static void test_events_are_numbered_and_end_with_the_state(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    bool ended;
    struct seen s = {0};
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    struct lease l = {.job = id.text, .token = token};
    _cleanup_json_ json_t *list = json_of("[{'type': 'log', 'text': 'a', 'seq': 7},"
                                          " {'type': 'plan', 'items': [{'text': 'do it'}]}]");
    _cleanup_json_ json_t *forged = json_of("[{'type': 'state', 'state': 'completed'}]");
    OK(jobs_lease_events(f->jobs, &l, 0, list, NULL, &err));
    FAILS(jobs_lease_events(f->jobs, &l, 2, forged, NULL, &err), EINVAL);
    OK(jobs_events(f->jobs, "ann", id.text, 0, 2, see, &s, &ended, &err));
    assert_false(ended);
    assert_int_equal(s.n, 2);
    OK(finish(f, id.text, token, COMPLETED, &err));
    OK(jobs_events(f->jobs, "ann", id.text, s.last, 100, see, &s, &ended, &err));
    assert_true(ended);
    assert_string_equal(s.types, "state log plan state ");
    assert_string_equal(json_get_string(s.newest, "state"), "completed");
    OK(jobs_events(f->jobs, "ann", id.text, s.last, 100, see, &s, &ended, &err));
    assert_true(ended);
    json_decref(s.newest);
    _cleanup_json_ json_t *job = job_get(f, id.text);
    assert_int_equal(json_array_size(json_object_get(job, "plan")), 1);
    FAILS(jobs_events(f->jobs, "bob", id.text, 0, 1, see, &s, &ended, &err), ENOENT);
}

static void test_an_event_that_is_too_long_is_cut(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    bool ended;
    struct seen s = {0};
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    struct lease l = {.job = id.text, .token = token};
    _cleanup_free_ char *text = calloc(1, (2u << 20) + 1);
    assert_non_null(text);
    memset(text, 'x', 2u << 20);
    _cleanup_json_ json_t *list = json_pack("[{s:s, s:s}]", "type", "text", "text", text);
    OK(jobs_lease_events(f->jobs, &l, 0, list, NULL, &err));
    OK(jobs_events(f->jobs, NULL, id.text, 0, 10, see, &s, &ended, &err));
    assert_string_equal(s.types, "state text ");
    assert_true(json_get_bool(s.newest, "truncated"));
    assert_in_range(strlen(json_get_string(s.newest, "text")), 1000, 64 << 10);
    json_decref(s.newest);
}

static int nearly_full_run(struct db *db, struct job_change *c, struct error *err)
{
    int64_t r = db_run(db, "UPDATE jobs SET last_event = 999998", NULL, 0, err);
    return r < 0 ? (int)r : 0;
}

static void test_a_job_has_so_many_events_and_no_more(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    bool ended;
    struct seen s = {.last = 999998};
    struct job_change nearly_full = JOB_CHANGE(nearly_full_run);
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    OK(job_change_commit(f->jobs, &nearly_full, &err));
    struct lease l = {.job = id.text, .token = token};
    uint64_t next;
    _cleanup_json_ json_t *list =
        json_of("[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'},"
                " {'type': 'text', 'text': 'c'}, {'type': 'text', 'text': 'd'}]");
    OK(jobs_lease_events(f->jobs, &l, 0, list, &next, &err));
    assert_int_equal(next, 4);
    OK(finish(f, id.text, token, COMPLETED, &err));
    OK(jobs_events(f->jobs, NULL, id.text, 999998, 10, see, &s, &ended, &err));
    assert_string_equal(s.types, "text text log state ");
    assert_true(ended);
    json_decref(s.newest);
}

/* --- the queue --- */

static void test_priority_first_then_the_order_of_submission(void **state)
{
    struct fixture *f = *state;
    struct id a = submit(f, "ann", STEP), b = submit(f, "ann", STEP);
    struct id urgent = submit(f, "ann", "{'steps': [], 'priority': 5}");
    assert_string_equal(lease_one(f, NULL, 0).text, urgent.text);
    assert_string_equal(lease_one(f, NULL, 0).text, a.text);
    assert_string_equal(lease_one(f, NULL, 0).text, b.text);
    assert_string_equal(lease_one(f, NULL, 0).text, "");
}

static void test_users_take_turns(void **state)
{
    struct fixture *f = *state;
    char owners[8] = {0};
    for (int i = 0; i < 4; i++)
        submit(f, "ann", STEP);
    submit(f, "bob", STEP);
    submit(f, "cat", STEP);
    _cleanup_json_ json_t *leases = lease_some(f, 10, 0, 0), *lease = NULL;
    size_t i;
    assert_int_equal(json_array_size(leases), 6);
    json_array_foreach(leases, i, lease) owners[i] = *json_get_string(lease, "user");
    assert_string_equal(owners, "abcaaa");
}

static void test_a_user_runs_as_many_jobs_as_the_limit(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    _cleanup_json_ json_t *limits = json_of("{'running': 1}");
    struct id first = submit(f, "ann", STEP);
    submit(f, "ann", "{'steps': [], 'priority': 9}");
    OK(users_set(f->jobs, "ann", limits, &err));
    struct id bob = submit(f, "bob", STEP), id = lease_one(f, &token, 0);
    assert_string_not_equal(id.text, first.text);
    assert_string_equal(lease_one(f, NULL, 0).text, bob.text);
    assert_string_equal(lease_one(f, NULL, 0).text, "");
    OK(finish(f, id.text, token, COMPLETED, &err));
    assert_string_equal(lease_one(f, NULL, 0).text, first.text);
}

static void test_live_jobs_have_slots_and_a_limit_of_their_own(void **state)
{
    struct fixture *f = *state;
    struct id box = submit_live(f, "ann", 0), steps = submit(f, "ann", STEP), id;
    assert_string_equal(lease_one(f, NULL, 0).text, steps.text);
    _cleanup_json_ json_t *leases = lease_some(f, 5, 5, 0), *spec = json_of("{}");
    assert_int_equal(json_array_size(leases), 1);
    assert_string_equal(json_get_string(json_array_get(leases, 0), "job"), box.text);
    struct job_submission s = {.user = "ann", .kind = "gym", .spec = spec, .max_live = 1};
    FAILS(jobs_submit(f->jobs, &s, id.text, NULL, &err), EBUSY);
    s.max_live = 2;
    OK(jobs_submit(f->jobs, &s, id.text, NULL, &err));
}

static void test_a_fork_is_leased_to_its_worker(void **state)
{
    struct fixture *f = *state;
    struct id id;
    char *user = NULL, *kind = NULL;
    _cleanup_json_ json_t *spec = json_of("{}"), *answer = NULL;
    struct job_submission s = {.user = "ann", .kind = "box", .spec = spec, .leased_to = "w"};
    OK(jobs_submit(f->jobs, &s, id.text, NULL, &err));
    struct lease l = {.job = id.text, .token = 1};
    OK(jobs_lease_check(f->jobs, &l, &user, &kind, &err));
    assert_string_equal(user, "ann");
    assert_string_equal(kind, "box");
    free(user);
    free(kind);
    _cleanup_json_ json_t *leases = json_pack("[{s:s, s:i}]", "job", id.text, "token", 1);
    OK(jobs_renew(f->jobs, "w", leases, 0, -1, &answer, &err));
    assert_string_equal(json_get_string(json_array_get(answer, 0), "state"), "held");
}

/* --- the end --- */

static void test_a_fault_is_tried_again_until_the_last_attempt(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", "{'steps': [], 'max_attempts': 2}");
    lease_one(f, &token, 0);
    int64_t from = clock_now();
    OK(finish(f, id.text, token, FAULT, &err));
    OK(finish(f, id.text, token, FAULT, &err)); /* the answer was lost */
    assert_state(f, id.text, "scheduled", NULL);
    assert_string_equal(lease_one(f, NULL, 0).text, "");
    assert_string_equal(lease_one(f, &token, 60000).text, id.text);
    assert_true(clock_now() - from >= NS_PER_S);
    assert_int_equal(token, 2);
    OK(finish(f, id.text, token, FAULT, &err));
    assert_state(f, id.text, "failed", "error");
    _cleanup_json_ json_t *job = job_get(f, id.text);
    assert_string_equal(json_get_string(job, "error"), "no box");
}

static void test_backoff_doubles_up_to_five_minutes(void **state)
{
    assert_int_equal(job_backoff_ms(1), 1000);
    assert_int_equal(job_backoff_ms(2), 2000);
    assert_int_equal(job_backoff_ms(9), 256000);
    assert_int_equal(job_backoff_ms(10), 300000);
    assert_int_equal(job_backoff_ms(1000000), 300000);
}

static void test_a_job_that_is_given_back_is_ready_at_once(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", "{'steps': [], 'max_attempts': 1}");
    for (int i = 0; i < 3; i++) {
        assert_string_equal(lease_one(f, &token, 0).text, id.text);
        OK(finish(f, id.text, token, "{'state': 'failed', 'release': true}", &err));
    }
    assert_state(f, id.text, "scheduled", NULL);
}

static void test_cancel_ends_a_scheduled_job_at_once(void **state)
{
    struct fixture *f = *state;
    struct id id = submit(f, "ann", STEP);
    FAILS(jobs_cancel(f->jobs, "bob", id.text, &err), ENOENT);
    OK(jobs_cancel(f->jobs, "ann", id.text, &err));
    OK(jobs_cancel(f->jobs, "ann", id.text, &err));
    assert_state(f, id.text, "cancelled", "cancelled");
    assert_string_equal(lease_one(f, NULL, 0).text, "");
}

static void test_cancel_ends_a_running_job_when_its_worker_says_so(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    OK(jobs_cancel(f->jobs, "ann", id.text, &err));
    assert_state(f, id.text, "running", NULL);
    _cleanup_json_ json_t *answer = NULL,
                          *leases = json_pack("[{s:s, s:i}]", "job", id.text, "token", token);
    OK(jobs_renew(f->jobs, "w", leases, 60000, -1, &answer, &err));
    assert_string_equal(json_get_string(json_array_get(answer, 0), "state"), "cancel");
    OK(finish(f, id.text, token, COMPLETED, &err)); /* it was nearly done: cancelled all the same */
    assert_state(f, id.text, "cancelled", "cancelled");
    struct id done = submit(f, "ann", STEP);
    lease_one(f, &token, 0);
    OK(finish(f, done.text, token, COMPLETED, &err));
    FAILS(jobs_cancel(f->jobs, "ann", done.text, &err), EALREADY);
}

static void test_a_dependency_is_waited_for(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id a = submit(f, "ann", STEP), b = submit(f, "ann", "{'steps': [], 'priority': -1}");
    _cleanup_free_ char *spec =
        str_printf("{'steps': [], 'after': ['%s', '%s', '%s']}", a.text, b.text, a.text);
    struct id c = submit(f, "ann", spec);
    assert_string_equal(lease_one(f, &token, 0).text, a.text);
    OK(finish(f, a.text, token, COMPLETED, &err));
    assert_string_equal(lease_one(f, &token, 0).text, b.text);
    assert_string_equal(lease_one(f, NULL, 0).text, "");
    OK(finish(f, b.text, token, COMPLETED, &err));
    assert_string_equal(lease_one(f, &token, 0).text, c.text);
    _cleanup_json_ json_t *job = job_get(f, c.text);
    assert_int_equal(json_array_size(json_object_get(job, "after")), 3);
}

static void test_a_failed_dependency_fails_the_chain(void **state)
{
    struct fixture *f = *state;
    struct id ids[4] = {submit(f, "ann", STEP)};
    for (int i = 1; i < 4; i++) {
        _cleanup_free_ char *spec = str_printf("{'steps': [], 'after': ['%s']}", ids[i - 1].text);
        ids[i] = submit(f, "ann", spec);
    }
    OK(jobs_cancel(f->jobs, "ann", ids[0].text, &err));
    for (int i = 1; i < 4; i++)
        assert_state(f, ids[i].text, "failed", "dependency_failed");
    _cleanup_free_ char *spec = str_printf("{'steps': [], 'after': ['%s']}", ids[0].text);
    struct id late = submit(f, "ann", spec);
    assert_state(f, late.text, "failed", "dependency_failed");
}

static void test_a_job_needs_jobs_of_its_user_only(void **state)
{
    struct fixture *f = *state;
    struct id a = submit(f, "ann", STEP), id;
    const char *const forms[] = {"{'after': ['%s']}", "{'memory_from': '%s'}",
                                 "{'workspace': {'job': '%s'}}", "{'workspace': {'upload': '%s'}}"};
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        char text[100];
        snprintf(text, sizeof text, forms[i], a.text);
        _cleanup_json_ json_t *spec = json_of(text);
        struct job_submission s = {.user = "bob", .kind = "steps", .spec = spec};
        FAILS(jobs_submit(f->jobs, &s, id.text, NULL, &err), ENOENT);
    }
}

/* A job that begins with the memory of another waits for it, but does not fail with it. */
static void test_memory_of_a_failed_job_can_be_loaded(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id a = submit(f, "ann", STEP);
    _cleanup_free_ char *spec = str_printf("{'steps': [], 'memory_from': '%s'}", a.text);
    struct id b = submit(f, "ann", spec);
    lease_one(f, &token, 0);
    assert_string_equal(lease_one(f, NULL, 0).text, "");
    OK(finish(f, a.text, token, "{'state': 'failed', 'exit_reason': 'step_failed'}", &err));
    assert_state(f, a.text, "failed", "step_failed");
    FAILS(jobs_remove(f->jobs, "ann", a.text, &err), EBUSY);
    assert_string_equal(lease_one(f, &token, 0).text, b.text);
    OK(finish(f, b.text, token, COMPLETED, &err));
    OK(jobs_remove(f->jobs, "ann", a.text, &err));
}

static void test_lists_are_filtered_and_paged(void **state)
{
    struct fixture *f = *state;
    bool more;
    struct id ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] =
            submit(f, i == 4 ? "bob" : "ann",
                   i == 2 ? "{'title': 'Nightly 100%', 'steps': [], 'labels': {'k': 'v'}}" : STEP);
    OK(jobs_cancel(f->jobs, NULL, ids[3].text, &err));
    const struct {
        struct job_query q;
        size_t n;
        bool more;
        int first;
    } cases[] = {
        {{.limit = 10}, 5, false, 4},
        {{.user = "ann", .limit = 2}, 2, true, 3},
        {{.user = "ann", .limit = 2, .before = ids[2].text}, 2, false, 1},
        {{.state = "cancelled", .limit = 9}, 1, false, 3},
        {{.state = "cancelled,scheduled", .kind = "steps", .limit = 9}, 5, false, 4},
        {{.kind = "goal", .limit = 9}, 0, false, 0},
        {{.search = "NIGHT", .limit = 9}, 1, false, 2},
        {{.search = "100%", .limit = 9}, 1, false, 2},
        {{.search = "1_0", .limit = 9}, 0, false, 2},
        {{.label = "k=v", .limit = 9}, 1, false, 2},
        {{.label = "k=w", .limit = 9}, 0, false, 2},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *list = NULL;
        OK(jobs_list(f->jobs, &cases[i].q, &list, &more, &err));
        assert_int_equal(json_array_size(list), cases[i].n);
        assert_int_equal(more, cases[i].more);
        if (cases[i].n > 0)
            assert_string_equal(json_get_string(json_array_get(list, 0), "id"),
                                ids[cases[i].first].text);
        assert_null(json_object_get(json_array_get(list, 0), "spec"));
        json_decref(list);
    }
}

static void test_a_removed_job_is_gone_with_its_rows(void **state)
{
    struct fixture *f = *state;
    unsigned token;
    struct id id = submit(f, "ann", STEP), again;
    FAILS(jobs_remove(f->jobs, "ann", id.text, &err), EBUSY);
    lease_one(f, &token, 0);
    OK(finish(f, id.text, token, COMPLETED, &err));
    OK(jobs_repeat(f->jobs, "ann", id.text, again.text, &err));
    OK(jobs_remove(f->jobs, "ann", id.text, &err));
    json_t *job = NULL;
    FAILS(jobs_get(f->jobs, NULL, id.text, &job, &err), ENOENT);
    assert_string_equal(lease_one(f, NULL, 0).text, again.text);
}

static void test_ids_grow(void **state)
{
    struct fixture *f = *state;
    struct id last = {""}, id;
    for (int i = 0; i < 10000; i++) {
        job_id_make(f->jobs, id.text);
        assert_true(job_id_is_valid(id.text));
        assert_true(strcmp(last.text, id.text) < 0);
        last = id;
    }
    struct id before = submit(f, "ann", STEP);
    f->jobs->id_ms += 1000; /* as if the clock went back */
    before = submit(f, "ann", STEP);
    fixture_reopen(f);
    assert_true(strcmp(submit(f, "ann", STEP).text, before.text) > 0);
}

static void test_times_are_parsed_and_formatted(void **state)
{
    char text[32];
    time_format(1763495643123, text);
    assert_string_equal(text, "2025-11-18T19:54:03.123Z");
    assert_int_equal(time_parse(text), 1763495643123);
    assert_int_equal(time_parse("2025-11-18T20:54:03+01:00"), 1763495643000);
    assert_int_equal(time_parse("2025-11-18T19:54:03.5Z"), 1763495643500);
    assert_int_equal(time_parse("2025-11-18T19:54:03"), -1);
    assert_int_equal(time_parse("tomorrow"), -1);
    assert_int_equal(time_parse("2025-11-18T19:54:03Zx"), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_job_runs_from_submission_to_its_end),
        TEST(test_the_lease_has_what_a_worker_needs),
        TEST(test_a_repeated_submission_is_the_same_job),
        TEST(test_a_repeated_finish_succeeds_without_effect),
        TEST(test_a_repeated_step_and_events_are_stored_once),
        TEST(test_another_token_changes_nothing),
        TEST(test_events_are_numbered_and_end_with_the_state),
        TEST(test_an_event_that_is_too_long_is_cut),
        TEST(test_a_job_has_so_many_events_and_no_more),
        TEST(test_priority_first_then_the_order_of_submission),
        TEST(test_users_take_turns),
        TEST(test_a_user_runs_as_many_jobs_as_the_limit),
        TEST(test_live_jobs_have_slots_and_a_limit_of_their_own),
        TEST(test_a_fork_is_leased_to_its_worker),
        TEST(test_a_fault_is_tried_again_until_the_last_attempt),
        cmocka_unit_test(test_backoff_doubles_up_to_five_minutes),
        TEST(test_a_job_that_is_given_back_is_ready_at_once),
        TEST(test_cancel_ends_a_scheduled_job_at_once),
        TEST(test_cancel_ends_a_running_job_when_its_worker_says_so),
        TEST(test_a_dependency_is_waited_for),
        TEST(test_a_failed_dependency_fails_the_chain),
        TEST(test_a_job_needs_jobs_of_its_user_only),
        TEST(test_memory_of_a_failed_job_can_be_loaded),
        TEST(test_lists_are_filtered_and_paged),
        TEST(test_a_removed_job_is_gone_with_its_rows),
        TEST(test_ids_grow),
        cmocka_unit_test(test_times_are_parsed_and_formatted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
