/* Environments of a live job, called without a channel: this file is the channel. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "box_host.h"
#include "json.h"
#include "live.h"
#include "thread.h"

#define TASK "bugfix_1"

struct live_job {
    json_t *spec;
};

struct live_call {
    void *state;
    json_t *input, *body, *event;
    int status, cancel;
    char type[64], why[1024];
    struct buf data;
};

static struct live_job job;
static void *state;

int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX], size_t *ret_count,
                    struct error *err)
{
    snprintf(folders[0], LIBEXEC_PATH_MAX, "%s", BUILD_FOLDER);
    *ret_count = 1;
    return 0;
}

const json_t *live_job_spec(const struct live_job *l)
{
    return l->spec;
}

const char *live_job_id(const struct live_job *l)
{
    return "01jd0000000000000000";
}

int live_job_cancel(const struct live_job *l)
{
    return -1;
}

void *call_state(const struct live_call *c)
{
    return c->state;
}

json_t *call_input(const struct live_call *c)
{
    return c->input;
}

int call_cancel(const struct live_call *c)
{
    return c->cancel;
}

int call_event(struct live_call *c, json_t *event)
{
    json_decref(c->event);
    __atomic_store_n(&c->event, event, __ATOMIC_SEQ_CST);
    return 0;
}

int call_send(struct live_call *c, const void *data, size_t n)
{
    if (n == 0) {
        c->status = 200;
        c->body = json_loadb((const char *)c->data.data, c->data.len, 0, NULL);
        return 0;
    }
    return buf_append(&c->data, data, n);
}

void call_end(struct live_call *c, json_t *body)
{
    c->status = 200;
    c->body = body;
}

void call_problem(struct live_call *c, int status, const char *type, const char *fmt, ...)
{
    va_list args;
    c->status = status;
    snprintf(c->type, sizeof c->type, "%s", type);
    va_start(args, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, args);
    va_end(args);
}

static void call_free(struct live_call *c)
{
    json_decref(c->input);
    json_decref(c->body);
    json_decref(c->event);
    buf_free(&c->data);
}
#define _cleanup_call_ _cleanup_(call_free)

static void call_op(struct live_call *c, const char *name)
{
    for (const struct live_op *o = LIVE_GYM.ops; o->name; o++)
        if (strcmp(o->name, name) == 0) {
            o->run(c);
            return;
        }
    fail_msg("there is no op %s", name);
}

static struct live_call call_with(json_t *input)
{
    assert_non_null(input);
    return (struct live_call){
        .state = state, .input = input, .cancel = -1, .data = BUF_INIT(64 << 20)};
}

/* Calls an op that succeeds: its body. */
static json_t *call_ok(const char *name, json_t *input)
{
    _cleanup_call_ struct live_call c = call_with(input);
    call_op(&c, name);
    if (c.status != 200 && c.status != 0)
        fail_msg("%s: %d %s", name, c.status, c.why);
    return json_incref(c.body);
}

static void assert_refused(const char *name, json_t *input, int status, const char *why)
{
    _cleanup_call_ struct live_call c = call_with(input);
    call_op(&c, name);
    assert_int_equal(c.status, status);
    assert_non_null(strstr(c.why, why));
}

/* A new environment, on the virtual clock. */
static char *env_begin(uint64_t seed)
{
    _cleanup_json_ json_t *answer =
        call_ok("reset", json_pack("{s:I, s:{s:s}}", "seed", (json_int_t)seed, "options", "clock",
                                   "virtual"));
    assert_int_equal(json_get_integer(answer, "step"), 0);
    return strdup(json_get_string(answer, "env"));
}

static void test_episode_ends_with_its_return(void **unused)
{
    _cleanup_free_ char *env = env_begin(7);
    _cleanup_json_ json_t *patched =
        call_ok("step", json_pack("{s:s, s:i}", "env", env, "action", 0));
    assert_int_equal(json_get_integer(patched, "step"), 1);
    assert_true(json_is_array(json_object_get(patched, "features")));
    _cleanup_json_ json_t *read = call_ok("step", json_pack("{s:s, s:s, s:s}", "env", env, "tool",
                                                            "read_file", "path", "src/calc.py"));
    assert_false(json_get_bool(json_object_get(read, "observation"), "failed"));
    _cleanup_json_ json_t *last =
        call_ok("step", json_pack("{s:s, s:{s:s}}", "env", env, "action", "tool", "submit"));
    assert_true(json_get_bool(last, "terminated"));
    _cleanup_json_ json_t *sums = call_ok("state", json_pack("{s:s}", "env", env));
    assert_int_equal(json_get_integer(sums, "calls"), 3);
    assert_int_equal(json_get_integer(sums, "seed"), 7);
    assert_true(json_get_bool(sums, "over"));
    assert_refused("step", json_pack("{s:s, s:i}", "env", env, "action", 0), 409, "is over");
    json_decref(call_ok("close", json_pack("{s:s}", "env", env)));
    assert_refused("state", json_pack("{s:s}", "env", env), 404, "no environment");
}

static void test_items_of_a_list_fail_alone(void **unused)
{
    _cleanup_free_ char *env = env_begin(1), *other = env_begin(2);
    json_t *steps = json_pack("[{s:s, s:s}, {s:s, s:i}, {s:s, s:i}, {s:s, s:i}, {s:s}, i]", "env",
                              env, "tool", "run_tests", "env", env, "action", 0, "env", other,
                              "action", 0, "env", other, "action", -1, "env", other, 7);
    _cleanup_json_ json_t *answer = call_ok("step", json_pack("{s:o}", "steps", steps));
    json_t *results = json_object_get(answer, "results"), *result;
    static const int STATUS[] = {0, 409, 0, 422, 422, 422};
    size_t i;
    assert_int_equal(json_array_size(results), ARRAY_SIZE(STATUS));
    json_array_foreach(results, i, result)
    {
        assert_int_equal(json_get_integer(json_object_get(result, "error"), "status"), STATUS[i]);
        if (!STATUS[i])
            assert_string_equal(json_get_string(result, "env"), i == 0 ? env : other);
    }
    json_decref(call_ok("close", json_pack("{s:s}", "env", env)));
    json_decref(call_ok("close", json_pack("{s:s}", "env", other)));
}

/* All at once, with boxes: no outcome of these commands is in the cache. */
static void test_list_runs_commands_in_their_own_boxes(void **unused)
{
    json_t *resets = json_array(), *steps = json_array(), *one;
    size_t i;
    for (i = 0; i < 16; i++)
        json_array_append_new(resets, json_pack("{s:b, s:i}", "reset", 1, "seed", (int)i));
    _cleanup_json_ json_t *began = call_ok("step", json_pack("{s:o}", "steps", resets));
    json_array_foreach(json_object_get(began, "results"), i, one)
    {
        char command[64];
        snprintf(command, sizeof command, "echo number %zu >n; cat n", i);
        json_array_append_new(steps,
                              json_pack("{s:s, s:s, s:s}", "env", json_get_string(one, "env"),
                                        "tool", "bash", "command", command));
    }
    _cleanup_json_ json_t *answer = call_ok("step", json_pack("{s:o}", "steps", steps));
    json_array_foreach(json_object_get(answer, "results"), i, one)
    {
        char expected[64];
        snprintf(expected, sizeof expected, "number %zu\n", i);
        const char *text = json_get_string(json_object_get(one, "observation"), "text");
        assert_non_null(text);
        assert_non_null(strstr(text, expected));
        json_decref(call_ok("close", json_pack("{s:s}", "env", json_get_string(one, "env"))));
    }
    _cleanup_json_ json_t *rest = call_ok("state", json_object());
    assert_int_equal(json_array_size(json_object_get(rest, "environments")), 0);
}

static void test_fork_goes_on_by_itself(void **unused)
{
    _cleanup_free_ char *env = env_begin(3);
    json_decref(call_ok("step", json_pack("{s:s, s:i}", "env", env, "action", 0)));
    _cleanup_json_ json_t *copy = call_ok("fork", json_pack("{s:s}", "env", env));
    const char *name = json_get_string(copy, "env");
    assert_string_not_equal(name, env);
    assert_int_equal(json_get_integer(copy, "calls"), 1);
    json_decref(call_ok("step", json_pack("{s:s, s:s}", "env", name, "tool", "submit")));
    _cleanup_json_ json_t *sums = call_ok("state", json_pack("{s:s}", "env", env));
    assert_false(json_get_bool(sums, "over"));
    json_decref(call_ok("close", json_pack("{s:s}", "env", env)));
    json_decref(call_ok("close", json_pack("{s:s}", "env", name)));
}

static void test_foreign_names_are_refused(void **unused)
{
    static const char *const NAMES[] = {
        "", "1", "openenv", "01jd0000000000000000-00000000-1", "01jd0000000000000000-", "../../x"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
        assert_refused("step", json_pack("{s:s, s:i}", "env", NAMES[i], "action", 0), 404,
                       "no environment");
        assert_refused("close", json_pack("{s:s}", "env", NAMES[i]), 404, "no environment");
    }
    _cleanup_free_ char *env = env_begin(1);
    for (const char *const *end = (const char *const[]){"0", " ", "-1", "99", NULL}; *end; end++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", env, *end);
        assert_refused("state", json_pack("{s:s}", "env", name), 404, "no environment");
    }
    assert_refused("reset", json_pack("{s:s}", "env", "gone"), 404, "no environment");
    json_decref(call_ok("close", json_pack("{s:s}", "env", env)));
}

static void test_shared_environment_is_made_by_reset(void **unused)
{
    json_decref(call_ok("reset", json_pack("{s:s}", "env", "openenv")));
    json_decref(call_ok("step", json_pack("{s:s, s:i}", "env", "openenv", "action", 0)));
    _cleanup_json_ json_t *again = call_ok("reset", json_pack("{s:s}", "env", "openenv"));
    assert_string_equal(json_get_string(again, "env"), "openenv");
    json_decref(call_ok("close", json_pack("{s:s}", "env", "openenv")));
}

static void *session_thread(void *data)
{
    call_op(data, "session");
    return NULL;
}

/* A step of a session that was cancelled ends its command and then its environment. */
static void *step_thread(void *data)
{
    call_op(data, "step");
    return NULL;
}

static void test_session_ends_with_its_call(void **unused)
{
    pthread_t thread, stepping;
    _cleanup_call_ struct live_call c = call_with(json_object());
    c.cancel = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(thread_start(&thread, NULL, session_thread, &c), 0);
    while (!__atomic_load_n(&c.event, __ATOMIC_SEQ_CST))
        usleep(1000);
    const char *env = json_get_string(c.event, "env");
    json_decref(call_ok("reset", json_pack("{s:s}", "env", env)));
    _cleanup_call_ struct live_call step = call_with(
        json_pack("{s:s, s:s, s:s}", "env", env, "tool", "bash", "command", "sleep 1000"));
    step.cancel = c.cancel;
    assert_int_equal(thread_start(&stepping, NULL, step_thread, &step), 0);
    eventfd_write(c.cancel, 1);
    pthread_join(thread, NULL);
    pthread_join(stepping, NULL);
    assert_refused("state", json_pack("{s:s}", "env", env), 404, "no environment");
    close(c.cancel);
}

static int job_open(void **unused)
{
    struct error err = {0};
    setenv("HUTCH_TASKS", TASKS_FOLDER, 1);
    job.spec = json_pack("{s:s}", "task", TASK);
    if (LIVE_GYM.open(&job, &state, &err) < 0)
        fail_msg("%s", err.text);
    return 0;
}

static int job_close(void **unused)
{
    LIVE_GYM.close(&job, state, false);
    json_decref(job.spec);
    return 0;
}

static void test_task_must_be_a_name(void **unused)
{
    for (const char *const *name = (const char *const[]){"", "../tasks/" TASK, "nothing", NULL};
         *name; name++) {
        struct error err = {0};
        struct live_job other = {.spec = json_pack("{s:s}", "task", *name)};
        void *made;
        assert_true(LIVE_GYM.open(&other, &made, &err) < 0);
        assert_true(*err.text);
        json_decref(other.spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_episode_ends_with_its_return),
        cmocka_unit_test(test_items_of_a_list_fail_alone),
        cmocka_unit_test(test_list_runs_commands_in_their_own_boxes),
        cmocka_unit_test(test_fork_goes_on_by_itself),
        cmocka_unit_test(test_foreign_names_are_refused),
        cmocka_unit_test(test_shared_environment_is_made_by_reset),
        cmocka_unit_test(test_session_ends_with_its_call),
        cmocka_unit_test(test_task_must_be_a_name),
    };
    return cmocka_run_group_tests(tests, job_open, job_close);
}
