/*
 * Meson's testlog.json: one object per line and test program. It is read rather than
 * testlog.junit.xml, which shows a test that ran out of time as passed. The tests inside a program
 * that speaks TAP are taken from its output.
 */
#include <errno.h>
#include <string.h>

#include "json.h"
#include "report.h"
#include "banned.h"

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

struct meson_call {
    struct report *report;
    struct error *err;
};

/* The program's own result only counts if its tests do not show it. */
static int meson_take_record(struct report *r, const json_t *o)
{
    const char *result = json_get_string(o, "result"), *name = json_get_string(o, "name");
    const char *label = r->label, *out = json_get_string_or(o, "stdout", "");
    enum wire_outcome outcome = WIRE_OUTCOME_ERROR;
    uint64_t total = report_total(r), bad = report_bad(r);
    if (!result || !name)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(RESULTS); i++)
        if (strcmp(result, RESULTS[i].result) == 0)
            outcome = RESULTS[i].outcome;
    if (tap_looks_like(out)) {
        r->label = name;
        int n = tap_parse_text(r, out);
        r->label = label;
        if (n < 0)
            return n;
    }
    bool good = outcome == WIRE_OUTCOME_PASSED || outcome == WIRE_OUTCOME_SKIPPED;
    if (report_total(r) > total && (good || report_bad(r) > bad))
        return 0;
    _cleanup_clip_ struct clip message = CLIP_INIT;
    if (outcome != WIRE_OUTCOME_PASSED)
        clip_add_str(&message, result, "\n", out, "\n", json_get_string_or(o, "stderr", ""));
    return report_add(r, &(struct report_test){.name = name,
                                               .outcome = outcome,
                                               .message = clip_text(&message),
                                               .duration_ns = report_duration(json_number_value(
                                                   json_object_get(o, "duration")))});
}

static int meson_take_line(void *data, char *line, size_t n)
{
    struct meson_call *c = data;
    json_error_t why;
    if (*line != '{')
        return 0;
    _cleanup_json_ json_t *o = json_loadb(line, n, 0, &why);
    if (!o)
        return error_set(c->err, EINVAL, "a line of the JSON is broken: %s", why.text);
    return meson_take_record(c->report, o);
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
