/*
 * Lines of `go test -json`: events of tests, in packages, interleaved as they ran.
 *
 * A test's output comes before its end, so it is collected meanwhile. What has no end when its
 * package has one, and a package that fails without a failed test (it does not build, it crashed,
 * it called os.Exit), is an error. Lines that are not events are what the tools around it printed.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "report.h"
#include "banned.h"

#define EVENT_MAX   (1u << 20)
#define RUNNING_MAX 20000u /* tests that have begun and not ended */
#define BUCKETS     1024u

/* A test that runs; or a package, whose name is empty. */
struct running {
    LIST_ENTRY(running) link;
    char *package, *name;
    struct clip output;
    bool failed;   /* of a package: a test of it did, */
    unsigned open; /* and so many of its tests run */
};

LIST_HEAD(bucket, running);

struct go {
    struct report *report;
    struct error *err;
    struct bucket buckets[BUCKETS];
    size_t count;
};

static unsigned hash(const char *package, const char *name)
{
    unsigned h = 5381;
    for (; *package; package++)
        h = h * 33 + (unsigned char)*package;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h % BUCKETS;
}

static void running_free(struct go *g, struct running *t)
{
    LIST_REMOVE(t, link);
    clip_free(&t->output);
    free(t->package);
    free(t->name);
    free(t);
    g->count--;
}

static struct running *find(struct go *g, const char *package, const char *name)
{
    struct running *t;
    LIST_FOREACH(t, &g->buckets[hash(package, name)], link)
    if (strcmp(t->package, package) == 0 && strcmp(t->name, name) == 0)
        return t;
    return NULL;
}

static struct running *find_or_add(struct go *g, const char *package, const char *name)
{
    struct running *t = find(g, package, name);
    if (t || g->count == RUNNING_MAX)
        return t;
    t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->package = strdup(package);
    t->name = strdup(name);
    t->output = CLIP_INIT;
    LIST_INSERT_HEAD(&g->buckets[hash(package, name)], t, link);
    g->count++;
    if (t->package && t->name)
        return t;
    running_free(g, t);
    return NULL;
}

/* The lines that go itself prints around a test say nothing that the event does not. */
static bool is_noise(const char *line)
{
    line += strspn(line, " ");
    return strncmp(line, "=== ", 4) == 0 || strncmp(line, "--- FAIL", 8) == 0 ||
           strncmp(line, "--- PASS", 8) == 0;
}

static int add(struct go *g, struct running *t, enum wire_outcome outcome, int64_t duration_ns)
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
static struct running *find_or_begin(struct go *g, const char *package, const char *name)
{
    struct running *owner = find_or_add(g, package, ""), *t = owner;
    if (!owner || !*name || (t = find(g, package, name)))
        return t;
    t = find_or_add(g, package, name);
    owner->open += t != NULL;
    return t;
}

static void end_running(struct go *g, struct running *t)
{
    struct running *owner = find(g, t->package, "");
    if (owner)
        owner->open--;
    running_free(g, t);
}

static int unfinished(struct go *g, struct running *t)
{
    struct running *owner = find(g, t->package, "");
    clip_add_str(&t->output, "the test did not end\n");
    if (owner)
        clip_add_str(&t->output, clip_text(&owner->output));
    int r = add(g, t, WIRE_OUTCOME_ERROR, 0);
    end_running(g, t);
    return r;
}

/* A package has ended, or with NULL all have: so have its tests. */
static int end_tests(struct go *g, const char *package)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct running *t = LIST_FIRST(&g->buckets[i]);
        while (t) {
            struct running *next = LIST_NEXT(t, link);
            int r = 0;
            if (*t->name && (!package || strcmp(t->package, package) == 0))
                r = unfinished(g, t);
            if (r < 0)
                return r;
            t = next;
        }
    }
    return 0;
}

static int end_package(struct go *g, struct running *package, bool failed)
{
    uint64_t errors = g->report->counts[WIRE_OUTCOME_ERROR];
    int r = package->open ? end_tests(g, package->package) : 0;
    if (r >= 0 && failed && !package->failed && errors == g->report->counts[WIRE_OUTCOME_ERROR])
        r = add(g, package, WIRE_OUTCOME_ERROR, 0);
    running_free(g, package);
    return r;
}

static int end_test(struct go *g, struct running *t, enum wire_outcome outcome, double elapsed)
{
    struct running *package = find(g, t->package, "");
    if (package && outcome == WIRE_OUTCOME_FAILED)
        package->failed = true;
    int r = add(g, t, outcome, report_duration(elapsed));
    end_running(g, t);
    return r;
}

static enum wire_outcome outcome_of(const char *action)
{
    if (strcmp(action, "pass") == 0)
        return WIRE_OUTCOME_PASSED;
    if (strcmp(action, "fail") == 0)
        return WIRE_OUTCOME_FAILED;
    return strcmp(action, "skip") == 0 ? WIRE_OUTCOME_SKIPPED : 0;
}

/* What a compiler said about a package comes under a name like "demo [demo.test]", before the
 * package's own end. */
static void build_output(struct go *g, const json_t *event, const char *output)
{
    const char *path = json_string_value(json_object_get(event, "ImportPath"));
    char package[1024];
    snprintf(package, sizeof package, "%.*s", path ? (int)strcspn(path, " ") : 0, path ? path : "");
    struct running *t = find_or_add(g, package, "");
    if (t)
        clip_add_str(&t->output, output);
}

static int take_event(struct go *g, const json_t *event)
{
    const char *action = json_string_value(json_object_get(event, "Action"));
    const char *package = json_string_value(json_object_get(event, "Package"));
    const char *name = json_string_value(json_object_get(event, "Test"));
    const char *output = json_string_value(json_object_get(event, "Output"));
    if (!action)
        return 0;
    if (strcmp(action, "build-output") == 0) {
        build_output(g, event, output ? output : "");
        return 0;
    }
    if (!package)
        return 0;
    struct running *t = find_or_begin(g, package, name ? name : "");
    if (!t)
        return error_set(g->err, E2BIG, "more than %u tests run at once", RUNNING_MAX);
    if (strcmp(action, "output") == 0 && output && !is_noise(output))
        clip_add_str(&t->output, output);
    enum wire_outcome outcome = outcome_of(action);
    if (!outcome)
        return 0;
    if (!*t->name)
        return end_package(g, t, outcome == WIRE_OUTCOME_FAILED);
    return end_test(g, t, outcome, json_number_value(json_object_get(event, "Elapsed")));
}

static int take_lines(struct go *g, struct report_source *s)
{
    _cleanup_lines_ struct lines l = LINES_INIT(s, EVENT_MAX);
    char *line;
    size_t n;
    int r;
    while ((r = lines_next(&l, &line, &n)) > 0) {
        json_t *event = *line == '{' ? json_loadb(line, n, 0, NULL) : NULL;
        r = take_event(g, event);
        json_decref(event);
        if (r < 0)
            return r;
    }
    return r;
}

int report_parse_go(struct report *r, struct report_source *s, struct error *err)
{
    struct go *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->report = r;
    g->err = err;
    int result = take_lines(g, s);
    if (result >= 0)
        result = end_tests(g, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        while (!LIST_EMPTY(&g->buckets[i]))
            running_free(g, LIST_FIRST(&g->buckets[i]));
    free(g);
    return result;
}
