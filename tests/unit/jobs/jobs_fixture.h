/* A folder with jobs, and short forms of the calls that the tests make most. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "io.h"
#include "jobs.h"
#include "json.h"
#include "jobs_internal.h"

struct fixture {
    char folder[64];
    struct jobs *jobs;
    struct jobs_options options;
};

static inline int fixture_begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/hutch-jobs-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->options = (struct jobs_options){.data = f->folder};
    struct error err = {0};
    if (jobs_open(&f->options, &f->jobs, &err) < 0)
        fail_msg("%s", err.text);
    *state = f;
    return 0;
}

static inline void fixture_reopen(struct fixture *f)
{
    struct error err = {0};
    f->jobs = jobs_close(f->jobs);
    if (jobs_open(&f->options, &f->jobs, &err) < 0)
        fail_msg("%s", err.text);
}

static inline int fixture_end(void **state)
{
    struct fixture *f = *state;
    jobs_close(f->jobs);
    _cleanup_fd_ int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(folder_remove(tmp, f->folder + strlen("/tmp/")), 0);
    free(f);
    return 0;
}

/* A call that is to succeed. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        struct error err = {0};                                                                    \
        int ok_r_ = (call);                                                                        \
        if (ok_r_ < 0)                                                                             \
            fail_msg("%s: %d %s", #call, ok_r_, err.text);                                         \
    } while (0)

/* One that is to fail with this errno, and a text. */
#define FAILS(call, number)                                                                        \
    do {                                                                                           \
        struct error err = {0};                                                                    \
        int fails_r_ = (call);                                                                     \
        if (fails_r_ != -(number))                                                                 \
            fail_msg("%s: %d instead of %d (%s)", #call, fails_r_, -(number), err.text);           \
        assert_true(err.text[0]);                                                                  \
    } while (0)

struct id {
    char text[JOB_ID_LEN + 1];
};

static inline json_t *json_of_exact(const char *text)
{
    json_error_t why;
    json_t *value = json_loads(text, 0, &why);
    if (!value)
        fail_msg("%s: %s", text, why.text);
    return value;
}

/* JSON that is written with ' for ". */
static inline json_t *json_of(const char *text)
{
    _cleanup_free_ char *copy = strdup(text);
    assert_non_null(copy);
    for (char *at = copy; (at = strchr(at, '\''));)
        *at = '"';
    return json_of_exact(copy);
}

/* Submits a job of steps for a user. */
static inline struct id submit(struct fixture *f, const char *user, const char *spec)
{
    struct id id;
    _cleanup_json_ json_t *object = json_of(spec);
    struct job_submission s = {.user = user, .kind = "steps", .spec = object};
    OK(jobs_submit(f->jobs, &s, id.text, NULL, &err));
    return id;
}

static inline struct id submit_live(struct fixture *f, const char *user, int64_t ttl_ms)
{
    struct id id;
    _cleanup_json_ json_t *object = json_of("{}");
    struct job_submission s = {.user = user, .kind = "box", .spec = object, .ttl_ms = ttl_ms};
    OK(jobs_submit(f->jobs, &s, id.text, NULL, &err));
    return id;
}

#define STEP "{'steps': [{'tool': 'shell', 'command': 'true'}]}"

/* Leases up to n jobs, waiting at most wait_ms. */
static inline json_t *lease_some(struct fixture *f, unsigned n, unsigned live, int wait_ms)
{
    json_t *leases = NULL;
    struct lease_request q = {
        .worker = "w", .slots = n, .live_slots = live, .wait_ms = wait_ms, .cancel = -1};
    OK(jobs_lease(f->jobs, &q, &leases, &err));
    return leases;
}

/* Leases one job; its ID is empty if there was none. */
static inline struct id lease_one(struct fixture *f, unsigned *ret_token, int wait_ms)
{
    struct id id = {""};
    _cleanup_json_ json_t *leases = lease_some(f, 1, 0, wait_ms);
    json_t *lease = json_array_get(leases, 0);
    if (lease)
        snprintf(id.text, sizeof id.text, "%s", json_get_string(lease, "job"));
    if (ret_token)
        *ret_token = (unsigned)json_get_integer(lease, "token");
    return id;
}

static inline int finish(struct fixture *f, const char *id, unsigned token, const char *body,
                         struct error *err)
{
    struct lease l = {.job = id, .token = token};
    _cleanup_json_ json_t *object = json_of(body);
    return jobs_lease_finish(f->jobs, &l, object, err);
}

#define COMPLETED "{'state': 'completed', 'exit_reason': 'completed'}"
#define FAULT     "{'state': 'failed', 'exit_reason': 'error', 'error': 'no box', 'retry': true}"

static inline json_t *job_get(struct fixture *f, const char *id)
{
    json_t *job = NULL;
    OK(jobs_get(f->jobs, NULL, id, &job, &err));
    return job;
}

static inline void assert_state(struct fixture *f, const char *id, const char *state,
                                const char *exit_reason)
{
    _cleanup_json_ json_t *job = job_get(f, id);
    assert_string_equal(json_get_string(job, "state"), state);
    if (exit_reason)
        assert_string_equal(json_get_string(job, "exit_reason"), exit_reason);
    else
        assert_true(json_is_null(json_object_get(job, "exit_reason")));
}

/* Until the job is in this state. */
static inline void wait_for_state(struct fixture *f, const char *id, const char *state)
{
    for (int i = 0; i < 6000; i++) {
        _cleanup_json_ json_t *job = job_get(f, id);
        if (strcmp(json_get_string(job, "state"), state) == 0)
            return;
        usleep(10000);
    }
    fail_msg("job %s is not %s after a minute", id, state);
}
