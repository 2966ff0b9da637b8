/*
 * Meson's testlog.json: one object per line and test program. It is read rather than
 * testlog.junit.xml, which shows a test that ran out of time as passed. The tests inside a program
 * that speaks TAP are taken from its output.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "report.h"
#include "tap.h"
#include "banned.h"

#define RECORD_MAX (16u << 20)

static const struct {
    const char *result;
    enum wire_outcome outcome;
} RESULTS[] = {
    {"OK", WIRE_OUTCOME_PASSED},      {"EXPECTEDFAIL", WIRE_OUTCOME_PASSED},
    {"FAIL", WIRE_OUTCOME_FAILED},    {"UNEXPECTEDPASS", WIRE_OUTCOME_FAILED},
    {"SKIP", WIRE_OUTCOME_SKIPPED},   {"IGNORED", WIRE_OUTCOME_SKIPPED},
    {"TIMEOUT", WIRE_OUTCOME_FAILED}, {"INTERRUPT", WIRE_OUTCOME_ERROR},
    {"ERROR", WIRE_OUTCOME_ERROR},
};

static enum wire_outcome outcome_of(const char *result)
{
    for (size_t i = 0; i < ARRAY_SIZE(RESULTS); i++)
        if (strcmp(result, RESULTS[i].result) == 0)
            return RESULTS[i].outcome;
    return WIRE_OUTCOME_ERROR;
}

static const char *string_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int add_program(struct report *r, const json_t *o, enum wire_outcome outcome)
{
    struct clip message = CLIP_INIT;
    if (outcome != WIRE_OUTCOME_PASSED) {
        clip_add_str(&message, string_of(o, "result"));
        clip_add_str(&message, "\n");
        clip_add_str(&message, string_of(o, "stdout"));
        clip_add_str(&message, "\n");
        clip_add_str(&message, string_of(o, "stderr"));
    }
    int result = report_add(
        r, &(struct report_test){
               .name = string_of(o, "name"),
               .outcome = outcome,
               .message = clip_text(&message),
               .duration_ns = report_duration(json_number_value(json_object_get(o, "duration")))});
    clip_free(&message);
    return result;
}

/* The tests inside a program that printed TAP; 0 if it did not. */
static int add_inner(struct report *r, const json_t *o)
{
    const char *label = r->label, *out = string_of(o, "stdout");
    if (!tap_looks_like(out))
        return 0;
    r->label = string_of(o, "name");
    int result = tap_parse_text(r, out);
    r->label = label;
    return result;
}

/* The program's own result is told unless its tests have told it. */
static int take_record(struct report *r, const json_t *o)
{
    const char *result = json_string_value(json_object_get(o, "result"));
    if (!result || !json_is_string(json_object_get(o, "name")))
        return 0;
    enum wire_outcome outcome = outcome_of(result);
    uint64_t total = report_total(r),
             bad = r->counts[WIRE_OUTCOME_FAILED] + r->counts[WIRE_OUTCOME_ERROR];
    int n = add_inner(r, o);
    if (n < 0)
        return n;
    bool inner = report_total(r) > total;
    bool told = r->counts[WIRE_OUTCOME_FAILED] + r->counts[WIRE_OUTCOME_ERROR] > bad;
    bool good = outcome == WIRE_OUTCOME_PASSED || outcome == WIRE_OUTCOME_SKIPPED;
    return inner && (good || told) ? 0 : add_program(r, o, outcome);
}

int report_parse_meson(struct report *r, struct report_source *s, struct error *err)
{
    _cleanup_lines_ struct lines l = LINES_INIT(s, RECORD_MAX);
    char *line;
    size_t n;
    int result;
    while ((result = lines_next(&l, &line, &n)) > 0) {
        if (*line != '{')
            continue;
        json_error_t why;
        json_t *o = json_loadb(line, n, 0, &why);
        if (!o)
            return error_set(err, EINVAL, "a line of the JSON is broken: %s%s", why.text,
                             l.cut ? " (it is too long)" : "");
        result = take_record(r, o);
        json_decref(o);
        if (result < 0)
            return result;
    }
    return result;
}
