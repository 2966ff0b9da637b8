/*
 * Leases: whether they are held, and the thread that renews them and ends jobs whose lease or time is
 * over. worker.c says how a lease is counted.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "job.h"
#include "json.h"
#include "thread.h"
#include "banned.h"

#define SETTLED_NS (100 * NS_PER_MS)
#define TICK_MS    200

void lease_wake(struct job_lease *l)
{
    eventfd_write(l->cancel, 1);
}

void lease_lose(struct job_lease *l)
{
    l->lost = true;
    lease_wake(l);
}

bool lease_is_held(struct job_lease *l)
{
    if (!l->lost && clock_now() > l->held_until_ns)
        lease_lose(l);
    return !l->lost;
}

struct renewal {
    struct worker *worker;
    json_t *leases; /* of the request that is under way */
    int64_t asked;
};

static unsigned renewal_token(const struct renewal *n, const char *job)
{
    size_t i;
    const json_t *one;
    json_array_foreach(n->leases, i, one) if (strcmp(json_get_string(one, "job"), job) ==
                                              0) return (unsigned)json_get_integer(one, "token");
    return 0;
}

/* Ends jobs whose lease or time is over. True if a lease is not part of the request and has been
 * held for a while: jobs that end at once need no renewal. */
static bool renewal_watch(void *data)
{
    struct renewal *n = data;
    struct worker *w = n->worker;
    int64_t now = clock_now();
    bool other = false;
    LOCKED(&w->lock);
    for (struct job *j = w->jobs; j; j = j->next) {
        struct job_lease *l = &j->lease;
        if (l->deadline_ns && now > l->deadline_ns && !j->timed_out) {
            j->timed_out = true;
            lease_wake(l);
        }
        other |= lease_is_held(l) && now - j->began_ns > SETTLED_NS &&
                 renewal_token(n, l->id) != l->token;
    }
    return other;
}

/* The leases that are held; of two of one job only the newer one can be. */
static void renewal_collect(struct renewal *n)
{
    struct worker *w = n->worker;
    json_decref(n->leases);
    n->leases = json_array();
    LOCKED(&w->lock);
    for (struct job *j = w->jobs; j; j = j->next) {
        struct job_lease *l = &j->lease;
        for (const struct job *k = w->jobs; k; k = k->next)
            if (k->lease.token > l->token && strcmp(k->lease.id, l->id) == 0)
                lease_lose(l);
        if (lease_is_held(l))
            json_array_append_new(
                n->leases, json_pack("{s:s, s:I}", "job", l->id, "token", (json_int_t)l->token));
    }
}

static void renewal_take(struct renewal *n, const json_t *answer)
{
    struct worker *w = n->worker;
    size_t i;
    const json_t *one;
    LOCKED(&w->lock);
    json_array_foreach(json_object_get(answer, "leases"), i, one)
    {
        const char *id = json_get_string_or(one, "job", ""),
                   *state = json_get_string_or(one, "state", "");
        unsigned token = renewal_token(n, id);
        struct job *j = w->jobs;
        while (j && (j->lease.token != token || strcmp(j->lease.id, id) != 0))
            j = j->next;
        if (!j)
            continue;
        if (strcmp(state, "lost") == 0) {
            lease_lose(&j->lease);
            continue;
        }
        j->lease.held_until_ns = n->asked + w->lease_ns;
        if (strcmp(state, "cancel") == 0 && !j->lease.cancelled) {
            j->lease.cancelled = true;
            lease_wake(&j->lease);
        }
    }
}

void *renewal_main(void *data)
{
    struct worker *w = data;
    struct renewal n = {.worker = w};
    unsigned tries = 0;
    for (;;) {
        struct error err = {0};
        struct client_answer answer;
        {
            LOCKED(&w->lock);
            while (!w->jobs && !w->ended)
                pthread_cond_wait(&w->changed, &w->lock);
            if (w->ended)
                break;
        }
        renewal_collect(&n);
        if (json_array_size(n.leases) == 0) { /* jobs that are being killed */
            cancel_wait(-1, 0, TICK_MS, -1);
            continue;
        }
        n.asked = clock_now();
        _cleanup_json_ json_t *body =
            json_pack("{s:s, s:O, s:i}", "worker", w->name, "leases", n.leases, "wait_ms",
                      (int)(w->lease_ns / NS_PER_MS / 3));
        const struct client_call q = {.path = "/v1/worker/renew",
                                      .body = body,
                                      .fd = -1,
                                      .cancel = -1,
                                      .timeout_ms = (int)(w->lease_ns / NS_PER_MS),
                                      .give_up = renewal_watch,
                                      .data = &n};
        int r = body ? server_client_call(w->client, &q, &answer, &err) : -ENOMEM;
        if (r == 0) {
            renewal_take(&n, answer.json);
            json_decref(answer.json);
        }
        tries = r < 0 && r != -ECANCELED ? tries + 1 : 0;
        for (int64_t until = clock_now() + (tries ? server_delay_ms(tries) : 0) * NS_PER_MS;
             tries && clock_now() < until;) {
            renewal_watch(&n);
            cancel_wait(-1, 0, TICK_MS, -1);
        }
    }
    json_decref(n.leases);
    return NULL;
}
