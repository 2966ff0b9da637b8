/* The life of a job: submitted, leased, its steps, its end; and what a lost answer repeats. */
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
    _cleanup_json_ json_t *step = json_of("{\"step\": 0, \"result\": {\"tool\": \"shell\","
                                          "\"failed\": false, \"text\": \"a\"}, \"first\": 0,"
                                          "\"events\": [{\"type\": \"step\", \"step\": 0}]}");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_job_runs_from_submission_to_its_end, fixture_begin,
                                        fixture_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
