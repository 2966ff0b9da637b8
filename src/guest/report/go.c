/*
 * Lines of `go test -json`: events of tests, in packages, interleaved as they ran.
 *
 * A test's output comes before its end, so it is collected meanwhile. What has no end when its
 * package has one, and a package that fails without a failed test (it does not build, it crashed,
 * it called os.Exit), is an error. Lines that are not events are what the tools around it printed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "json.h"
#include "report.h"
#include "banned.h"

#define RUNNING_MAX 20000u /* tests that have begun and not ended */
#define BUCKETS     1024u

/* A test that runs; or a package, whose name is empty. */
struct go_test {
    LIST_ENTRY(go_test) link;
    struct go_test *owner; /* of a test: its package */
    char *package, *name;
    struct clip output;
    bool failed;   /* of a package: a test of it did, */
    unsigned open; /* and so many of its tests run */
};

LIST_HEAD(go_bucket, go_test);

struct go {
    struct report *report;
    struct error *err;
    struct go_bucket buckets[BUCKETS];
    size_t count;
};

static void go_test_free(struct go *g, struct go_test *t)
{
    LIST_REMOVE(t, link);
    if (t->owner)
        t->owner->open--;
    clip_free(&t->output);
    free(t->package);
    free(t->name);
    free(t);
    g->count--;
}

/* Finds a test, or a package if there is no owner; adds it if there is none. NULL: too many. */
static struct go_test *go_get(struct go *g, struct go_test *owner, const char *package,
                              const char *name)
{
    unsigned hash = 5381;
    for (const char *at = package; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    for (const char *at = name; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    struct go_bucket *bucket = &g->buckets[hash % BUCKETS];
    struct go_test *t = LIST_FIRST(bucket);
    while (t && (strcmp(t->package, package) != 0 || strcmp(t->name, name) != 0))
        t = LIST_NEXT(t, link);
    if (t)
        return t;
    if (g->count == RUNNING_MAX || !(t = calloc(1, sizeof *t)))
        return NULL;
    t->owner = owner;
    if (owner)
        owner->open++;
    t->package = strdup(package);
    t->name = strdup(name);
    t->output = CLIP_INIT;
    LIST_INSERT_HEAD(bucket, t, link);
    g->count++;
    if (t->package && t->name)
        return t;
    go_test_free(g, t);
    return NULL;
}

static int go_add(struct go *g, struct go_test *t, enum wire_outcome outcome, int64_t duration_ns)
{
    _cleanup_clip_ struct clip name = CLIP_INIT;
    const char *message = outcome == WIRE_OUTCOME_PASSED ? "" : clip_text(&t->output);
    clip_add_str(&name, t->package, *t->package && *t->name ? "." : "", t->name);
    return report_add(g->report, &(struct report_test){.name = clip_text(&name),
                                                       .outcome = outcome,
                                                       .message = message,
                                                       .duration_ns = duration_ns});
}

/* A package has ended, or with NULL all have: so have its tests. */
static int go_end_tests(struct go *g, const struct go_test *package)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct go_test *t = LIST_FIRST(&g->buckets[i]), *next; t; t = next) {
            next = LIST_NEXT(t, link);
            if (!t->owner || (package && t->owner != package))
                continue;
            clip_add_str(&t->output, "the test did not end\n", clip_text(&t->owner->output));
            int r = go_add(g, t, WIRE_OUTCOME_ERROR, 0);
            go_test_free(g, t);
            if (r < 0)
                return r;
        }
    return 0;
}

static int go_take_line(void *data, char *line, size_t n)
{
    struct go *g = data;
    _cleanup_json_ json_t *event = *line == '{' ? json_loadb(line, n, 0, NULL) : NULL;
    const char *action = json_get_string(event, "Action");
    const char *package = json_get_string(event, "Package");
    const char *name = json_get_string_or(event, "Test", "");
    const char *output = json_get_string_or(event, "Output", "");
    if (!action)
        return 0;
    if (strcmp(action, "build-output") == 0) {
        /* What a compiler prints about a package comes under a name like "demo [demo.test]", before
         * the package's own end. */
        char path[1024];
        snprintf(path, sizeof path, "%s", json_get_string_or(event, "ImportPath", ""));
        path[strcspn(path, " ")] = 0;
        struct go_test *built = go_get(g, NULL, path, "");
        if (built)
            clip_add_str(&built->output, output);
        return 0;
    }
    if (!package)
        return 0;
    struct go_test *owner = go_get(g, NULL, package, "");
    struct go_test *t = owner && *name ? go_get(g, owner, package, name) : owner;
    if (!t)
        return error_set(g->err, E2BIG, "more than %u tests run at once", RUNNING_MAX);
    /* The lines that go itself prints around a test say nothing that the event does not. */
    const char *text = output + strspn(output, " ");
    bool noise = strncmp(text, "=== ", 4) == 0 || strncmp(text, "--- FAIL", 8) == 0 ||
                 strncmp(text, "--- PASS", 8) == 0;
    if (strcmp(action, "output") == 0 && !noise)
        clip_add_str(&t->output, output);
    enum wire_outcome outcome = strcmp(action, "pass") == 0   ? WIRE_OUTCOME_PASSED
                                : strcmp(action, "fail") == 0 ? WIRE_OUTCOME_FAILED
                                : strcmp(action, "skip") == 0 ? WIRE_OUTCOME_SKIPPED
                                                              : 0;
    if (!outcome)
        return 0;
    int r = 0;
    if (t == owner) { /* the package has ended */
        uint64_t errors = g->report->counts[WIRE_OUTCOME_ERROR];
        r = t->open ? go_end_tests(g, t) : 0;
        if (r >= 0 && outcome == WIRE_OUTCOME_FAILED && !t->failed &&
            errors == g->report->counts[WIRE_OUTCOME_ERROR])
            r = go_add(g, t, WIRE_OUTCOME_ERROR, 0);
    } else {
        owner->failed |= outcome == WIRE_OUTCOME_FAILED;
        double elapsed = json_number_value(json_object_get(event, "Elapsed"));
        r = go_add(g, t, outcome, report_duration(elapsed));
    }
    go_test_free(g, t);
    return r;
}

static int go_parse(struct report *r, char *text, size_t n, struct error *err)
{
    struct go *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->report = r;
    g->err = err;
    int result = report_each_line(text, n, go_take_line, g);
    if (result >= 0)
        result = go_end_tests(g, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        while (!LIST_EMPTY(&g->buckets[i])) {
            struct go_test *t = LIST_FIRST(&g->buckets[i]);
            t->owner = NULL; /* it may be gone */
            go_test_free(g, t);
        }
    free(g);
    return result;
}

static bool go_is_line(const char *line)
{
    _cleanup_json_ json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
    return json_get_string(o, "Action") != NULL;
}

const struct report_format REPORT_GO = {.is_line = go_is_line, .parse = go_parse};
