/*
 * What Rust's libtest prints under `cargo test`, whose structured form only nightly compilers have.
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
    unsigned long announced, seen;
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
    free(t->open);
    t->open = NULL;
    if (r >= 0 && t->running && (!complete || t->seen != t->announced)) {
        char message[160];
        snprintf(message, sizeof message, "announced %lu, ran %lu%s", t->announced, t->seen,
                 complete ? "" : ", and ended without a result: the test program died");
        r = libtest_add(t, "(test program)", WIRE_OUTCOME_ERROR, message);
    }
    t->running = t->failures = t->listed = false;
    t->announced = t->seen = 0;
    return r;
}

static int libtest_take_result(struct libtest *t, const char *name, const char *result)
{
    t->seen++;
    if (strncmp(result, "ok", 2) == 0)
        return libtest_add(t, name, WIRE_OUTCOME_PASSED, "");
    if (strncmp(result, "ignored", 7) == 0)
        return libtest_add(t, name, WIRE_OUTCOME_SKIPPED, result + 7 + strspn(result + 7, ", "));
    if (!t->failed)
        t->failed = calloc(FAILED_MAX, sizeof *t->failed);
    char *copy = t->failed && t->n_failed < FAILED_MAX ? strdup(name) : NULL;
    if (!copy)
        return libtest_add(t, name, WIRE_OUTCOME_FAILED, "");
    t->failed[t->n_failed++] = copy;
    return 0;
}

static bool libtest_is_result(const char *s)
{
    static const char *const RESULTS[] = {"ok", "FAILED", "ignored", "bench"};
    for (size_t i = 0; i < ARRAY_SIZE(RESULTS); i++) {
        size_t n = strlen(RESULTS[i]);
        if (strncmp(s, RESULTS[i], n) == 0 && (s[n] == 0 || strchr(" ,:<(", s[n])))
            return true;
    }
    return false;
}

/* "NAME ... RESULT". What a test that should panic is called ends in words that are not its
 * name. */
static int libtest_take_test(struct libtest *t, char *line)
{
    static const char SUFFIX[] = " - should panic";
    char *dots = strstr(line, " ... ");
    if (!dots)
        return 0;
    *dots = 0;
    const char *result = dots + 5;
    size_t n = (size_t)(dots - line);
    if (n > sizeof SUFFIX && strcmp(line + n - (sizeof SUFFIX - 1), SUFFIX) == 0)
        line[n - (sizeof SUFFIX - 1)] = 0;
    if (libtest_is_result(result))
        return libtest_take_result(t, line, result);
    free(t->open);
    t->open = strdup(line);
    return 0;
}

/* In the failures: whose output comes now. */
static int libtest_take_failure_line(struct libtest *t, const char *line)
{
    size_t n = strlen(line);
    if (n > 17 && strncmp(line, "---- ", 5) == 0 && strcmp(line + n - 12, " stdout ----") == 0) {
        int r = libtest_end_shown(t);
        t->shown = strndup(line + 5, n - 17);
        clip_reset(&t->output);
        return r;
    }
    if (strcmp(line, "failures:") == 0) {
        t->listed = true;
        return libtest_end_shown(t);
    }
    if (t->shown) {
        clip_add_str(&t->output, line, "\n");
    }
    return 0;
}

static bool libtest_announces(const char *line, unsigned long *ret)
{
    char *end;
    if (strncmp(line, "running ", 8) != 0 || !isdigit((unsigned char)line[8]))
        return false;
    *ret = strtoul(line + 8, &end, 10);
    return strcmp(end, " test") == 0 || strcmp(end, " tests") == 0;
}

static int libtest_take_line(void *data, char *line, size_t size)
{
    struct libtest *t = data;
    unsigned long n;
    if (t->running && strncmp(line, "test result: ", 13) == 0 && t->seen >= t->announced &&
        (!t->failures || t->listed))
        return libtest_end_part(t, true);
    if (!t->shown && libtest_announces(line, &n)) {
        int r = t->running ? libtest_end_part(t, false) : 0;
        t->running = true;
        t->announced = n;
        return r;
    }
    if (!t->running)
        return 0;
    if (t->failures)
        return libtest_take_failure_line(t, line);
    if (strcmp(line, "failures:") == 0 && t->seen >= t->announced) {
        t->failures = true;
        return 0;
    }
    if (strncmp(line, "test ", 5) == 0 && t->seen < t->announced)
        return libtest_take_test(t, line + 5);
    if (!t->open || !libtest_is_result(line))
        return 0;
    _cleanup_free_ char *name = TAKE_PTR(t->open);
    return libtest_take_result(t, name, line);
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
    unsigned long n;
    return libtest_announces(line, &n);
}

const struct report_format REPORT_LIBTEST = {.is_line = libtest_is_line, .parse = libtest_parse};
