/*
 * Reports in JSON: one document of jest, vitest (`--json`) or mocha; lines of Meson's testlog.json;
 * and lines of `go test -json`.
 *
 * Meson's testlog.json has one object per line and test program. It is read rather than
 * testlog.junit.xml, which shows a test that ran out of time as passed. The tests inside a program
 * that speaks TAP are taken from its output.
 *
 * The lines of go are events of tests, in packages, interleaved as they ran. A test's output comes
 * before its end, so it is collected until then. What has no end when its package has one, and a
 * package that fails without a failed test (it does not build, it crashed, it called os.Exit), is
 * an error. Lines that are not events are what the tools around it printed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "json.h"
#include "report.h"
#include "banned.h"

#define RUNNING_MAX 20000u /* tests of go that have begun and not ended */

static int64_t json_seconds(const json_t *object, const char *key, double unit)
{
    return report_duration(json_number_value(json_object_get(object, key)) * unit);
}

static int jest_add_test(struct report *r, const json_t *test, const char *file)
{
    static const struct report_word WORDS[] = {
        {"passed", WIRE_OUTCOME_PASSED},   {"failed", WIRE_OUTCOME_FAILED},
        {"pending", WIRE_OUTCOME_SKIPPED}, {"skipped", WIRE_OUTCOME_SKIPPED},
        {"todo", WIRE_OUTCOME_SKIPPED},    {"disabled", WIRE_OUTCOME_SKIPPED},
        {NULL, WIRE_OUTCOME_ERROR}};
    _cleanup_clip_ struct clip name = CLIP_INIT, message = CLIP_INIT;
    json_int_t line = json_get_integer(json_object_get(test, "location"), "line");
    const char *status = json_get_string_or(test, "status", ""), *s;
    const char *title = json_get_string_or(test, "title", "");
    enum wire_outcome outcome = report_outcome(WORDS, status);
    const json_t *each;
    size_t i;
    /* suite > nested suite > test */
    json_array_foreach(json_object_get(test, "ancestorTitles"), i, each)
    {
        s = json_string_value(each);
        if (s && *s)
            clip_add_str(&name, s, " > ");
    }
    clip_add_str(&name, *title ? title : json_get_string_or(test, "fullName", ""));
    json_array_foreach(json_object_get(test, "failureMessages"), i, each)
    {
        s = json_string_value(each);
        clip_add_str(&message, i ? "\n" : "", s ? s : "");
    }
    if (outcome == WIRE_OUTCOME_ERROR && message.total == 0)
        clip_add_str(&message, "reported as ", *status ? status : "nothing");
    return report_add(r,
                      &(struct report_test){.name = clip_text(&name),
                                            .outcome = outcome,
                                            .message = clip_text(&message),
                                            .file = file,
                                            .line = line > 0 ? (uint64_t)line : 0,
                                            .duration_ns = json_seconds(test, "duration", 1e-3)});
}

/* A file that could not be run has a message and no tests, or fails although none of them did. */
static int jest_add_file(struct report *r, const json_t *file)
{
    const json_t *each;
    const char *name = json_get_string_or(file, "name", "");
    uint64_t before = report_bad(r);
    size_t i;
    json_array_foreach(json_object_get(file, "assertionResults"), i, each)
    {
        int result = jest_add_test(r, each, name);
        if (result < 0)
            return result;
    }
    if (strcmp(json_get_string_or(file, "status", ""), "failed") != 0 || report_bad(r) > before)
        return 0;
    return report_add(r, &(struct report_test){.name = name,
                                               .outcome = WIRE_OUTCOME_ERROR,
                                               .message = json_get_string_or(file, "message", ""),
                                               .file = name});
}

static int document_parse(struct report *r, char *text, size_t n, struct error *err)
{
    static const struct report_word LISTS[] = {{"failures", WIRE_OUTCOME_FAILED},
                                               {"passes", WIRE_OUTCOME_PASSED},
                                               {"pending", WIRE_OUTCOME_SKIPPED}};
    json_error_t why;
    _cleanup_json_ json_t *document = json_loadb(text, n, 0, &why);
    int result = 0;
    if (!document && !why.text[0]) /* all that jansson says of its allocations */
        return error_set(err, E2BIG, "the JSON takes too much memory");
    if (!document)
        return error_set(err, EINVAL, "line %d: invalid JSON: %s", why.line, why.text);
    const json_t *files = json_object_get(document, "testResults");
    if (json_is_array(files)) {
        for (size_t i = 0; result >= 0 && i < json_array_size(files); i++)
            result = jest_add_file(r, json_array_get(files, i));
        return result;
    }
    if (!json_is_array(json_object_get(document, "passes")) ||
        !json_is_array(json_object_get(document, "failures")))
        return error_set(err, EINVAL,
                         "the JSON is neither jest's, vitest's nor mocha's: it has no "
                         "\"testResults\"");
    /* mocha: all tests are in one list; in which other lists they are again is their outcome. */
    for (size_t i = 0, k; i < ARRAY_SIZE(LISTS); i++) {
        const json_t *test;
        json_array_foreach(json_object_get(document, LISTS[i].word), k, test)
        {
            const json_t *failure = json_object_get(test, "err");
            const char *stack = json_get_string_or(failure, "stack", "");
            result = report_add(
                r, &(struct report_test){
                       .name = json_get_string_or(test, "fullTitle", ""),
                       .outcome = LISTS[i].outcome,
                       .message = *stack ? stack : json_get_string_or(failure, "message", ""),
                       .file = json_get_string_or(test, "file", ""),
                       .duration_ns = json_seconds(test, "duration", 1e-3)});
            if (result < 0)
                return result;
        }
    }
    return 0;
}

/* Its names are searched as text, since it may be longer than its head. */
static bool document_is_document(const char *head)
{
    const char *mark = report_after(head, "\xef\xbb\xbf"), *at = mark ? mark : head;
    if (at[strspn(at, " \t\r\n")] != '{')
        return false;
    return strstr(head, "\"testResults\"") || strstr(head, "\"numTotalTests\"") ||
           strstr(head, "\"fullTitle\"") ||
           (strstr(head, "\"stats\"") && strstr(head, "\"suites\""));
}

const struct report_format REPORT_JSON = {.is_document = document_is_document,
                                          .parse = document_parse};

struct meson_call {
    struct report *report;
    struct error *err;
};

static int meson_take_line(void *data, char *line, size_t size)
{
    static const struct report_word WORDS[] = {
        {"OK", WIRE_OUTCOME_PASSED},      {"EXPECTEDFAIL", WIRE_OUTCOME_PASSED},
        {"FAIL", WIRE_OUTCOME_FAILED},    {"UNEXPECTEDPASS", WIRE_OUTCOME_FAILED},
        {"SKIP", WIRE_OUTCOME_SKIPPED},   {"IGNORED", WIRE_OUTCOME_SKIPPED},
        {"TIMEOUT", WIRE_OUTCOME_FAILED}, {NULL, WIRE_OUTCOME_ERROR},
    };
    struct meson_call *c = data;
    struct report *r = c->report;
    json_error_t why;
    if (*line != '{')
        return 0;
    _cleanup_json_ json_t *o = json_loadb(line, size, 0, &why);
    if (!o)
        return error_set(c->err, EINVAL, "a line is invalid JSON: %s", why.text);
    const char *result = json_get_string(o, "result"), *name = json_get_string(o, "name");
    const char *label = r->label, *out = json_get_string_or(o, "stdout", "");
    uint64_t total = r->total, bad = report_bad(r);
    if (!result || !name)
        return 0;
    if (tap_looks_like(out)) {
        r->label = name;
        int n = tap_parse_text(r, out);
        r->label = label;
        if (n < 0)
            return n;
    }
    /* The program's own result only counts if its tests do not show it. */
    enum wire_outcome outcome = report_outcome(WORDS, result);
    bool good = outcome == WIRE_OUTCOME_PASSED || outcome == WIRE_OUTCOME_SKIPPED;
    if (r->total > total && (good || report_bad(r) > bad))
        return 0;
    _cleanup_clip_ struct clip message = CLIP_INIT;
    if (outcome != WIRE_OUTCOME_PASSED)
        clip_add_str(&message, result, "\n", out, "\n", json_get_string_or(o, "stderr", ""));
    return report_add(r, &(struct report_test){.name = name,
                                               .outcome = outcome,
                                               .message = clip_text(&message),
                                               .duration_ns = json_seconds(o, "duration", 1)});
}

static int meson_parse(struct report *r, char *text, size_t n, struct error *err)
{
    return report_each_line(text, n, meson_take_line, &(struct meson_call){r, err});
}

static bool meson_is_line(const char *line)
{
    _cleanup_json_ json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
    return json_get_string(o, "result") && json_object_get(o, "name");
}

const struct report_format REPORT_MESON = {.is_line = meson_is_line, .parse = meson_parse};

/* A test that runs; or a package, whose name is empty. */
struct go_test {
    LIST_ENTRY(go_test) link;
    struct go_test *owner; /* of a test: its package */
    char *package, *name;
    struct clip output;
    bool failed;   /* of a package: a test of it did, */
    unsigned open; /* and so many of its tests run */
};

LIST_HEAD(go_tests, go_test);

struct go {
    struct report *report;
    struct error *err;
    struct go_tests tests; /* the last used first: events of one test mostly follow each other */
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
    struct go_test *t = LIST_FIRST(&g->tests);
    while (t && (strcmp(t->name, name) != 0 || strcmp(t->package, package) != 0))
        t = LIST_NEXT(t, link);
    if (t) {
        LIST_REMOVE(t, link);
        LIST_INSERT_HEAD(&g->tests, t, link);
        return t;
    }
    if (g->count == RUNNING_MAX || !(t = calloc(1, sizeof *t)))
        return NULL;
    t->owner = owner;
    if (owner)
        owner->open++;
    t->package = strdup(package);
    t->name = strdup(name);
    t->output = CLIP_INIT;
    LIST_INSERT_HEAD(&g->tests, t, link);
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
    for (struct go_test *t = LIST_FIRST(&g->tests), *next; t; t = next) {
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
    static const struct report_word WORDS[] = {{"pass", WIRE_OUTCOME_PASSED},
                                               {"fail", WIRE_OUTCOME_FAILED},
                                               {"skip", WIRE_OUTCOME_SKIPPED},
                                               {NULL, WIRE_OUTCOME_ERROR}};
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
        return error_set(g->err, E2BIG, "more than %u tests run at the same time", RUNNING_MAX);
    /* The lines that go itself prints around a test say nothing that the event does not. */
    const char *text = output + strspn(output, " ");
    bool noise = report_after(text, "=== ") || report_after(text, "--- FAIL") ||
                 report_after(text, "--- PASS");
    if (strcmp(action, "output") == 0 && !noise)
        clip_add_str(&t->output, output);
    enum wire_outcome outcome = report_outcome(WORDS, action);
    if (outcome == WIRE_OUTCOME_ERROR) /* any other event */
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
        r = go_add(g, t, outcome, json_seconds(event, "Elapsed", 1));
    }
    go_test_free(g, t);
    return r;
}

static int go_parse(struct report *r, char *text, size_t n, struct error *err)
{
    struct go g = {.report = r, .err = err};
    int result = report_each_line(text, n, go_take_line, &g);
    if (result >= 0)
        result = go_end_tests(&g, NULL);
    while (!LIST_EMPTY(&g.tests)) {
        struct go_test *t = LIST_FIRST(&g.tests);
        t->owner = NULL; /* it may be gone */
        go_test_free(&g, t);
    }
    return result;
}

static bool go_is_line(const char *line)
{
    _cleanup_json_ json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
    return json_get_string(o, "Action") != NULL;
}

const struct report_format REPORT_GO = {.is_line = go_is_line, .parse = go_parse};
