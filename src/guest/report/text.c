/*
 * What test runners print that have no machine-readable report.
 *
 * libtest is Rust's, under `cargo test`; its structured form only nightly compilers have.
 *
 *     running 3 tests
 *     test tests::a ... ok
 *     test tests::b - should panic ... FAILED
 *     test tests::c ... ignored, slow
 *
 *     failures:
 *
 *     ---- tests::b stdout ----
 *     (what it printed)
 *     test result: FAILED. 1 passed; 1 failed; 1 ignored; …
 *
 * There is one such part for each test program. A test that failed is added once its output is
 * known, which comes in the failures; only as many results are taken as were announced, so that
 * what a test printed does not count as one. A part that ends without its last line, or with
 * another number of results, is an error: the program died.
 *
 * Automake's tests: .trs files, one for each test program, and what `make check` prints.
 *
 *     :test-result: FAIL 2 - b            in a .trs file
 *     FAIL: tests/foo                     printed; with TAP inside: FAIL: tests/foo 2 - b
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "banned.h"

#define FAILED_MAX 10000u /* failed tests whose output is waited for; further ones go without */

struct libtest {
    struct report *report;
    bool running;
    bool failures; /* the part where failed tests are shown, */
    bool listed;   /* and where they are listed, right before the end */
    long announced, seen;
    char *open;    /* a test whose result comes on a line of its own, since it was let print */
    char **failed; /* added when their output is there, or at the part's end */
    size_t n_failed;
    char *shown; /* the failed test whose output we read */
    struct clip output;
};

static int libtest_add(struct libtest *t, const char *name, enum wire_outcome outcome,
                       const char *message)
{
    return report_add(t->report,
                      &(struct report_test){.name = name, .outcome = outcome, .message = message});
}

/* The output of a failed test is complete. */
static int libtest_end_shown(struct libtest *t)
{
    _cleanup_free_ char *name = TAKE_PTR(t->shown);
    for (size_t i = 0; name && i < t->n_failed; i++)
        if (strcmp(t->failed[i], name) == 0) {
            free(t->failed[i]);
            t->failed[i] = t->failed[--t->n_failed];
            return libtest_add(t, name, WIRE_OUTCOME_FAILED, clip_text(&t->output));
        }
    return 0;
}

static int libtest_end_part(struct libtest *t, bool complete)
{
    int r = libtest_end_shown(t);
    while (r >= 0 && t->n_failed) {
        _cleanup_free_ char *name = t->failed[--t->n_failed];
        r = libtest_add(t, name, WIRE_OUTCOME_FAILED, "");
    }
    if (r >= 0 && t->open)
        r = libtest_add(t, t->open, WIRE_OUTCOME_ERROR, "the test did not end");
    report_set_string(&t->open, NULL, 0);
    if (r >= 0 && t->running && (!complete || t->seen != t->announced)) {
        char message[160];
        snprintf(message, sizeof message, "announced %ld, ran %ld%s", t->announced, t->seen,
                 complete ? "" : ", and ended without a result: the test program died");
        r = libtest_add(t, "(test program)", WIRE_OUTCOME_ERROR, message);
    }
    t->running = t->failures = t->listed = false;
    t->announced = t->seen = 0;
    return r;
}

static bool libtest_is_result(const char *s)
{
    static const char *const RESULTS[] = {"ok", "FAILED", "ignored", "bench"};
    for (size_t i = 0; i < ARRAY_SIZE(RESULTS); i++) {
        const char *rest = report_after(s, RESULTS[i]);
        if (rest && strchr(" ,:<(", *rest)) /* or the end */
            return true;
    }
    return false;
}

static int libtest_take_result(struct libtest *t, const char *name, const char *result)
{
    const char *why = report_after(result, "ignored");
    t->seen++;
    if (report_after(result, "ok"))
        return libtest_add(t, name, WIRE_OUTCOME_PASSED, "");
    if (why)
        return libtest_add(t, name, WIRE_OUTCOME_SKIPPED, why + strspn(why, ", "));
    if (!t->failed)
        t->failed = calloc(FAILED_MAX, sizeof *t->failed);
    char *copy = t->failed && t->n_failed < FAILED_MAX ? strdup(name) : NULL;
    if (!copy)
        return libtest_add(t, name, WIRE_OUTCOME_FAILED, "");
    t->failed[t->n_failed++] = copy;
    return 0;
}

/* How many tests a line announces; -1: it does not. */
static long libtest_announced(const char *line)
{
    const char *number = report_after(line, "running ");
    char *end;
    if (!number || !isdigit((unsigned char)*number))
        return -1;
    long n = strtol(number, &end, 10);
    return strcmp(end, " test") == 0 || strcmp(end, " tests") == 0 ? n : -1;
}

static int libtest_take_line(void *data, char *line, size_t size)
{
    static const char SUFFIX[] = " - should panic"; /* not part of the name */
    struct libtest *t = data;
    long announced = t->shown ? -1 : libtest_announced(line);
    bool all_seen = t->seen >= t->announced;
    if (t->running && all_seen && (!t->failures || t->listed) &&
        report_after(line, "test result: "))
        return libtest_end_part(t, true);
    if (announced >= 0) {
        int r = t->running ? libtest_end_part(t, false) : 0;
        t->running = true;
        t->announced = announced;
        return r;
    }
    if (!t->running)
        return 0;
    if (t->failures) { /* whose output comes now? */
        if (size > 17 && report_after(line, "---- ") &&
            strcmp(line + size - 12, " stdout ----") == 0) {
            int r = libtest_end_shown(t);
            t->shown = strndup(line + 5, size - 17);
            clip_reset(&t->output);
            return r;
        }
        if (strcmp(line, "failures:") == 0) {
            t->listed = true;
            return libtest_end_shown(t);
        }
        if (t->shown)
            clip_add_str(&t->output, line, "\n");
        return 0;
    }
    if (strcmp(line, "failures:") == 0 && all_seen) {
        t->failures = true;
        return 0;
    }
    char *name = all_seen ? NULL : report_after(line, "test "); /* "NAME ... RESULT" */
    if (name) {
        char *dots = strstr(name, " ... ");
        if (!dots)
            return 0;
        size_t n = (size_t)(dots - name), suffix = sizeof SUFFIX - 1;
        *dots = 0;
        if (n > suffix + 1 && strcmp(name + n - suffix, SUFFIX) == 0)
            name[n - suffix] = 0;
        if (libtest_is_result(dots + 5))
            return libtest_take_result(t, name, dots + 5);
        report_set_string(&t->open, name, n);
    } else if (t->open && libtest_is_result(line)) {
        _cleanup_free_ char *open = TAKE_PTR(t->open);
        return libtest_take_result(t, open, line);
    }
    return 0;
}

static int libtest_parse(struct report *r, char *text, size_t n, struct error *err)
{
    struct libtest t = {.report = r, .output = CLIP_INIT};
    int result = report_each_line(text, n, libtest_take_line, &t);
    if (result >= 0 && t.running)
        result = libtest_end_part(&t, false);
    while (t.n_failed)
        free(t.failed[--t.n_failed]);
    free(t.failed);
    free(t.open);
    free(t.shown);
    clip_free(&t.output);
    return result;
}

static bool libtest_is_line(const char *line)
{
    return libtest_announced(line) >= 0;
}

const struct report_format REPORT_LIBTEST = {.is_line = libtest_is_line, .parse = libtest_parse};

static const char AUTOMAKE_RESULT[] = ":test-result: ";
static const struct report_word AUTOMAKE_WORDS[] = {
    {"PASS", WIRE_OUTCOME_PASSED},  {"XFAIL", WIRE_OUTCOME_PASSED}, {"FAIL", WIRE_OUTCOME_FAILED},
    {"XPASS", WIRE_OUTCOME_FAILED}, {"SKIP", WIRE_OUTCOME_SKIPPED}, {"ERROR", WIRE_OUTCOME_ERROR},
};

/* The result that a line begins with, and what follows it and `behind`; or NULL. */
static const struct report_word *automake_find_word(const char *line, const char *behind,
                                                    const char **ret_rest)
{
    for (size_t i = 0; i < ARRAY_SIZE(AUTOMAKE_WORDS); i++) {
        const char *end = report_after(line, AUTOMAKE_WORDS[i].word);
        const char *rest = end && *end ? report_after(end, behind) : end;
        if (rest) {
            *ret_rest = rest;
            return &AUTOMAKE_WORDS[i];
        }
    }
    return NULL;
}

/* In a .trs file every test of a program is listed; a program that is one test has no name
 * there. */
static int automake_take_line(void *data, char *line, size_t n)
{
    const char *listed = report_after(line, AUTOMAKE_RESULT), *name;
    const struct report_word *w =
        automake_find_word(listed ? listed : line, listed ? " " : ": ", &name);
    if (!w || (!listed && !*name))
        return 0;
    bool unexpected = strcmp(w->word, "XPASS") == 0;
    return report_add(data, &(struct report_test){.name = name,
                                                  .outcome = w->outcome,
                                                  .message = unexpected ? "passed, although it was "
                                                                          "expected to fail"
                                                                        : ""});
}

static int automake_parse(struct report *r, char *text, size_t n, struct error *err)
{
    return report_each_line(text, n, automake_take_line, r);
}

static bool automake_is_line(const char *line)
{
    const char *rest, *total = report_after(line, "# TOTAL:");
    if (report_after(line, AUTOMAKE_RESULT))
        return true;
    if (total) {
        total += strspn(total, " ");
        return *total && total[strspn(total, "0123456789")] == 0;
    }
    return automake_find_word(line, ": ", &rest) && rest[-1] == ' ';
}

const struct report_format REPORT_AUTOMAKE = {.is_line = automake_is_line, .parse = automake_parse};
