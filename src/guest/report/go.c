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

#define EVENT_MAX   (1u << 20)
#define RUNNING_MAX 20000u /* tests that have begun and not ended */
#define BUCKETS     1024u

/* A test that runs; or a package, whose name is empty. */
struct go_test {
    LIST_ENTRY(go_test) link;
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

static unsigned go_hash(const char *package, const char *name)
{
    unsigned h = 5381;
    for (; *package; package++)
        h = h * 33 + (unsigned char)*package;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h % BUCKETS;
}

static void go_test_free(struct go *g, struct go_test *t)
{
    LIST_REMOVE(t, link);
    clip_free(&t->output);
    free(t->package);
    free(t->name);
    free(t);
    g->count--;
}

static struct go_test *go_find(struct go *g, const char *package, const char *name)
{
    struct go_test *t;
    LIST_FOREACH(t, &g->buckets[go_hash(package, name)], link)
    if (strcmp(t->package, package) == 0 && strcmp(t->name, name) == 0)
        return t;
    return NULL;
}

static struct go_test *go_find_or_add(struct go *g, const char *package, const char *name)
{
    struct go_test *t = go_find(g, package, name);
    if (t || g->count == RUNNING_MAX)
        return t;
    t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->package = strdup(package);
    t->name = strdup(name);
    t->output = CLIP_INIT;
    LIST_INSERT_HEAD(&g->buckets[go_hash(package, name)], t, link);
    g->count++;
    if (t->package && t->name)
        return t;
    go_test_free(g, t);
    return NULL;
}

/* The lines that go itself prints around a test say nothing that the event does not. */
static bool go_is_noise(const char *line)
{
    line += strspn(line, " ");
    return strncmp(line, "=== ", 4) == 0 || strncmp(line, "--- FAIL", 8) == 0 ||
           strncmp(line, "--- PASS", 8) == 0;
}

static int go_add(struct go *g, struct go_test *t, enum wire_outcome outcome, int64_t duration_ns)
{
    struct clip name = CLIP_INIT;
    clip_add_str(&name, t->package);
    clip_add_str(&name, *t->package && *t->name ? "." : "");
    clip_add_str(&name, t->name);
    int r = report_add(g->report, &(struct report_test){.name = clip_text(&name),
                                                        .outcome = outcome,
                                                        .message = outcome == WIRE_OUTCOME_PASSED
                                                                       ? ""
                                                                       : clip_text(&t->output),
                                                        .duration_ns = duration_ns});
    clip_free(&name);
    return r;
}

/* A test, and its package with it. */
static struct go_test *go_find_or_begin(struct go *g, const char *package, const char *name)
{
    struct go_test *owner = go_find_or_add(g, package, ""), *t = owner;
    if (!owner || !*name || (t = go_find(g, package, name)))
        return t;
    t = go_find_or_add(g, package, name);
    owner->open += t != NULL;
    return t;
}

static void go_end_running(struct go *g, struct go_test *t)
{
    struct go_test *owner = go_find(g, t->package, "");
    if (owner)
        owner->open--;
    go_test_free(g, t);
}

static int go_add_unfinished(struct go *g, struct go_test *t)
{
    struct go_test *owner = go_find(g, t->package, "");
    clip_add_str(&t->output, "the test did not end\n");
    if (owner)
        clip_add_str(&t->output, clip_text(&owner->output));
    int r = go_add(g, t, WIRE_OUTCOME_ERROR, 0);
    go_end_running(g, t);
    return r;
}

/* A package has ended, or with NULL all have: so have its tests. */
static int go_end_tests(struct go *g, const char *package)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct go_test *t = LIST_FIRST(&g->buckets[i]);
        while (t) {
            struct go_test *next = LIST_NEXT(t, link);
            int r = 0;
            if (*t->name && (!package || strcmp(t->package, package) == 0))
                r = go_add_unfinished(g, t);
            if (r < 0)
                return r;
            t = next;
        }
    }
    return 0;
}

static int go_end_package(struct go *g, struct go_test *package, bool failed)
{
    uint64_t errors = g->report->counts[WIRE_OUTCOME_ERROR];
    int r = package->open ? go_end_tests(g, package->package) : 0;
    if (r >= 0 && failed && !package->failed && errors == g->report->counts[WIRE_OUTCOME_ERROR])
        r = go_add(g, package, WIRE_OUTCOME_ERROR, 0);
    go_test_free(g, package);
    return r;
}

static int go_end_test(struct go *g, struct go_test *t, enum wire_outcome outcome, double elapsed)
{
    struct go_test *package = go_find(g, t->package, "");
    if (package && outcome == WIRE_OUTCOME_FAILED)
        package->failed = true;
    int r = go_add(g, t, outcome, report_duration(elapsed));
    go_end_running(g, t);
    return r;
}

static enum wire_outcome go_outcome(const char *action)
{
    if (strcmp(action, "pass") == 0)
        return WIRE_OUTCOME_PASSED;
    if (strcmp(action, "fail") == 0)
        return WIRE_OUTCOME_FAILED;
    return strcmp(action, "skip") == 0 ? WIRE_OUTCOME_SKIPPED : 0;
}

static int go_take_event(struct go *g, const json_t *event)
{
    const char *action = json_get_string(event, "Action");
    const char *package = json_get_string(event, "Package");
    const char *name = json_get_string(event, "Test");
    const char *output = json_get_string(event, "Output");
    if (!action)
        return 0;
    if (strcmp(action, "build-output") == 0) {
        /* What a compiler prints about a package comes under a name like "demo [demo.test]", before
         * the package's own end. */
        char path[1024];
        snprintf(path, sizeof path, "%s", json_get_string_or(event, "ImportPath", ""));
        path[strcspn(path, " ")] = 0;
        struct go_test *t = go_find_or_add(g, path, "");
        if (t && output)
            clip_add_str(&t->output, output);
        return 0;
    }
    if (!package)
        return 0;
    struct go_test *t = go_find_or_begin(g, package, name ? name : "");
    if (!t)
        return error_set(g->err, E2BIG, "more than %u tests run at once", RUNNING_MAX);
    if (strcmp(action, "output") == 0 && output && !go_is_noise(output))
        clip_add_str(&t->output, output);
    enum wire_outcome outcome = go_outcome(action);
    if (!outcome)
        return 0;
    if (!*t->name)
        return go_end_package(g, t, outcome == WIRE_OUTCOME_FAILED);
    return go_end_test(g, t, outcome, json_number_value(json_object_get(event, "Elapsed")));
}

static int go_take_line(void *data, char *line, size_t n, bool cut)
{
    _cleanup_json_ json_t *event = *line == '{' ? json_loadb(line, n, 0, NULL) : NULL;
    return go_take_event(data, event);
}

static int go_parse(struct report *r, struct report_source *s, struct error *err)
{
    struct go *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->report = r;
    g->err = err;
    int result = report_each_line(s, EVENT_MAX, go_take_line, g);
    if (result >= 0)
        result = go_end_tests(g, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        while (!LIST_EMPTY(&g->buckets[i]))
            go_test_free(g, LIST_FIRST(&g->buckets[i]));
    free(g);
    return result;
}

static bool go_is_line(const char *line)
{
    _cleanup_json_ json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
    return json_get_string(o, "Action") != NULL;
}

const struct report_format REPORT_GO = {
    .name = "go test -json", .is_line = go_is_line, .parse = go_parse};
