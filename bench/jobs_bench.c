/*
 * The store of jobs: durable submissions from many threads, and how long a lease takes in a long
 * queue.
 *
 *     jobs_bench FOLDER THREADS SECONDS QUEUE
 *
 * Submits in turns for a second each: all threads at once, and one at a time, so that each commits
 * alone. Then fills the queue with QUEUE jobs of 100 users, and leases, reads and finishes 200 of
 * them. Prints {"together": [submissions per second, …], "alone": […], "waiting": jobs,
 * "lease": [ns, …], "get": […], "finish": […]}.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "json.h"
#include "thread.h"
#include "banned.h"

#define THREADS_MAX 256
#define LEASES      200

struct bench {
    struct jobs *jobs;
    json_t *spec;
    pthread_mutex_t one; /* held by who commits alone */
    bool alone;
    int64_t until;
    atomic_long submitted, failed, user;
};

static int bench_submit(struct bench *b, const char *user, struct error *err)
{
    char id[JOB_ID_LEN + 1];
    struct job_submission s = {.user = user, .kind = "steps", .spec = b->spec};
    return jobs_submit(b->jobs, &s, id, NULL, err);
}

static void *bench_submit_until(void *data)
{
    struct bench *b = data;
    char user[32];
    snprintf(user, sizeof user, "user%ld", atomic_fetch_add(&b->user, 1) % 100);
    while (clock_now() < b->until) {
        if (b->alone)
            pthread_mutex_lock(&b->one);
        int r = bench_submit(b, user, NULL);
        if (b->alone)
            pthread_mutex_unlock(&b->one);
        atomic_fetch_add(r == 0 ? &b->submitted : &b->failed, 1);
    }
    return NULL;
}

/* Submissions per second. */
static double bench_slice(struct bench *b, unsigned threads, bool alone)
{
    pthread_t ids[THREADS_MAX];
    int64_t from = clock_now();
    long before = atomic_load(&b->submitted);
    b->alone = alone;
    b->until = from + NS_PER_S;
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, bench_submit_until, b) != 0)
            exit(1);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return (double)(atomic_load(&b->submitted) - before) * 1e9 / (double)(clock_now() - from);
}

static void *bench_fill(void *data)
{
    struct bench *b = data;
    char user[32];
    for (long n; (n = atomic_fetch_sub(&b->user, 1)) > 0;) {
        snprintf(user, sizeof user, "user%ld", n % 100);
        if (bench_submit(b, user, NULL) < 0)
            atomic_fetch_add(&b->failed, 1);
    }
    return NULL;
}

static void bench_print(const char *name, const double *values, unsigned n)
{
    printf(", \"%s\": [", name);
    for (unsigned i = 0; i < n; i++)
        printf("%s%.0f", i ? ", " : "", values[i]);
    printf("]");
}

static int bench_queue(struct bench *b, unsigned threads, struct error *err)
{
    pthread_t ids[THREADS_MAX];
    double lease[LEASES], get[LEASES], finish[LEASES];
    _cleanup_json_ json_t *completed = json_pack("{s:s}", "state", "completed");
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, bench_fill, b) != 0)
            exit(1);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < LEASES; i++) {
        struct lease_request q = {.worker = "bench", .slots = 1, .cancel = -1};
        json_t *leases = NULL, *job = NULL;
        int64_t from = clock_now();
        int r = jobs_lease(b->jobs, &q, &leases, err);
        lease[i] = (double)(clock_now() - from);
        const char *id = json_get_string(json_array_get(leases, 0), "job");
        if (r == 0 && !id)
            r = error_set(err, ENOENT, "no job to lease");
        from = clock_now();
        if (r == 0)
            r = jobs_get(b->jobs, NULL, id, &job, err);
        get[i] = (double)(clock_now() - from);
        struct lease l = {.job = id, .token = 1};
        from = clock_now();
        if (r == 0)
            r = jobs_lease_finish(b->jobs, &l, completed, err);
        finish[i] = (double)(clock_now() - from);
        json_decref(leases);
        json_decref(job);
        if (r < 0)
            return r;
    }
    bench_print("lease", lease, LEASES);
    bench_print("get", get, LEASES);
    bench_print("finish", finish, LEASES);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct bench b = {.one = PTHREAD_MUTEX_INITIALIZER};
    if (argc != 5) {
        fputs("usage: jobs_bench FOLDER THREADS SECONDS QUEUE\n", stderr);
        return 2;
    }
    unsigned threads = (unsigned)atoi(argv[2]), seconds = (unsigned)atoi(argv[3]);
    struct jobs_options o = {.data = argv[1]};
    double together[64], alone[64];
    json_t *health = NULL;
    b.spec = json_pack("{s:[{s:s, s:s}]}", "steps", "tool", "shell", "command", "ls -la");
    if (threads > THREADS_MAX || seconds > 64 || !b.spec || jobs_open(&o, &b.jobs, &err) < 0) {
        fprintf(stderr, "jobs_bench: %s\n", err.text);
        return 1;
    }
    for (unsigned i = 0; i < seconds; i++) {
        together[i] = bench_slice(&b, threads, false);
        alone[i] = bench_slice(&b, threads, true);
    }
    atomic_store(&b.user, atol(argv[4]));
    printf("{\"threads\": %u", threads);
    bench_print("together", together, seconds);
    bench_print("alone", alone, seconds);
    int r = bench_queue(&b, threads, &err);
    if (r == 0)
        r = jobs_health(b.jobs, &health, &err);
    printf(", \"failed\": %ld, \"waiting\": %lld}\n", atomic_load(&b.failed),
           (long long)json_get_integer(health, "scheduled"));
    json_decref(health);
    json_decref(b.spec);
    jobs_close(b.jobs);
    if (r < 0)
        fprintf(stderr, "jobs_bench: %s\n", err.text);
    return r < 0;
}
