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

static int meson_add_program(struct report *r, const json_t *o, enum wire_outcome outcome)
{
    struct clip message = CLIP_INIT;
    if (outcome != WIRE_OUTCOME_PASSED) {
        clip_add_str(&message, json_get_string_or(o, "result", ""));
        clip_add_str(&message, "\n");
        clip_add_str(&message, json_get_string_or(o, "stdout", ""));
        clip_add_str(&message, "\n");
        clip_add_str(&message, json_get_string_or(o, "stderr", ""));
    }
    int result = report_add(
        r, &(struct report_test){
               .name = json_get_string_or(o, "name", ""),
               .outcome = outcome,
               .message = clip_text(&message),
               .duration_ns = report_duration(json_number_value(json_object_get(o, "duration")))});
    clip_free(&message);
    return result;
}

/* The program's own result only counts if its tests do not show it. */
static int meson_take_record(struct report *r, const json_t *o)
{
    const char *result = json_string_value(json_object_get(o, "result"));
    if (!result || !json_is_string(json_object_get(o, "name")))
        return 0;
    enum wire_outcome outcome = WIRE_OUTCOME_ERROR;
    for (size_t i = 0; i < ARRAY_SIZE(RESULTS); i++)
        if (strcmp(result, RESULTS[i].result) == 0)
            outcome = RESULTS[i].outcome;
    uint64_t total = report_total(r),
             bad = r->counts[WIRE_OUTCOME_FAILED] + r->counts[WIRE_OUTCOME_ERROR];
    const char *label = r->label, *out = json_get_string_or(o, "stdout", "");
    if (tap_looks_like(out)) {
        r->label = json_get_string_or(o, "name", "");
        int n = tap_parse_text(r, out);
        r->label = label;
        if (n < 0)
            return n;
    }
    bool inner = report_total(r) > total;
    bool shown = r->counts[WIRE_OUTCOME_FAILED] + r->counts[WIRE_OUTCOME_ERROR] > bad;
    bool good = outcome == WIRE_OUTCOME_PASSED || outcome == WIRE_OUTCOME_SKIPPED;
    return inner && (good || shown) ? 0 : meson_add_program(r, o, outcome);
}

struct meson_call {
    struct report *report;
    struct error *err;
};

static int meson_take_line(void *data, char *line, size_t n, bool cut)
{
    struct meson_call *c = data;
    json_error_t why;
    if (*line != '{')
        return 0;
    _cleanup_json_ json_t *o = json_loadb(line, n, 0, &why);
    if (!o)
        return error_set(c->err, EINVAL, "a line of the JSON is broken: %s%s", why.text,
                         cut ? " (it is too long)" : "");
    return meson_take_record(c->report, o);
}

static int meson_parse(struct report *r, struct report_source *s, struct error *err)
{
    return report_each_line(s, RECORD_MAX, meson_take_line, &(struct meson_call){r, err});
}

static bool meson_is_line(const char *line)
{
    _cleanup_json_ json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
    return json_get_string(o, "result") && json_object_get(o, "name");
}

const struct report_format REPORT_MESON = {
    .name = "Meson's testlog", .is_line = meson_is_line, .parse = meson_parse};
