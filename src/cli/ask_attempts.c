#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "agent_setup.h"
#include "ask_attempts.h"
#include "say.h"
#include "banned.h"

static void test_text(const struct attempt *t, char *text, size_t size)
{
    if (!t->tested)
        snprintf(text, size, "not tested");
    else if (t->passed || t->failed)
        snprintf(text, size, "%" PRIu64 " passed, %" PRIu64 " failed", t->passed, t->failed);
    else
        snprintf(text, size, "exit status %d", t->test_status);
}

static void show_table(const struct attempt *all, unsigned n, int best)
{
    char tests[64], cost[32], why[512];
    dprintf(STDERR_FILENO, "  %-8s %-24s %-18s %-9s %s\n", "attempt", "tests", "changes", "cost",
            "session");
    for (unsigned i = 0; i < n; i++) {
        const struct attempt *t = &all[i];
        char changes[64];
        test_text(t, tests, sizeof tests);
        snprintf(changes, sizeof changes, "%zu file%s +%" PRIu64 " -%" PRIu64, t->files,
                 t->files == 1 ? "" : "s", t->added, t->deleted);
        snprintf(cost, sizeof cost, t->money.known ? "$%.4f" : "-", t->money.cost);
        dprintf(STDERR_FILENO, "%s %-8u %-24s %-18s %-9s %s%s%s\n", (int)i == best ? "*" : " ",
                i + 1, tests, changes, cost, t->session, t->why[0] ? "  " : "",
                say_clean(t->why, why, sizeof why));
    }
}

static json_t *attempt_json(const struct attempt *t, bool best)
{
    return json_pack("{s:s, s:b, s:b, s:b, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:s*}", "session",
                     t->session, "best", best, "ended_well", t->ended_well, "tested", t->tested,
                     "test_status", t->test_status, "passed", (json_int_t)t->passed, "failed",
                     (json_int_t)t->failed, "files", (json_int_t)t->files, "added",
                     (json_int_t)t->added, "deleted", (json_int_t)t->deleted, "cost",
                     t->money.known ? json_real(t->money.cost) : json_null(), "why",
                     t->why[0] ? t->why : NULL);
}

int ask_attempts(struct agent *a, const char *words, const struct run_options *o,
                 struct ask_show *show, struct error *err)
{
    struct attempt all[AGENT_ATTEMPTS_MAX];
    unsigned n = (unsigned)o->attempts;
    int best = -1;
    const struct attempts_sink sink = {.event = ask_show_attempt, .data = show};
    int r = agent_attempts(a, words, &(struct attempts_options){.n = n, .test = o->test}, &sink,
                           all, &best, err);
    if (r < 0)
        return r;
    show->attempts = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(show->attempts, attempt_json(&all[i], (int)i == best));
    if (!show->json)
        show_table(all, n, best);
    show->done = true;
    if (best < 0 || !all[best].ended_well)
        snprintf(show->why, sizeof show->why, "%s",
                 best < 0 ? "no attempt could be tested" : all[best].why);
    else if (all[best].test_status != 0 || all[best].failed)
        snprintf(show->why, sizeof show->why,
                 "the test passed in no attempt; the best one is kept");
    return 0;
}
