/* Reports that are one JSON document: those of jest, vitest (`--json`) and mocha. */
#include <errno.h>
#include <string.h>

#include "json.h"
#include "report.h"
#include "banned.h"

static int64_t milliseconds(const json_t *value)
{
    return report_duration(json_number_value(value) / 1000);
}

static int jest_add_test(struct report *r, const json_t *test, const char *file)
{
    static const struct {
        const char *status;
        enum wire_outcome outcome;
    } OUTCOMES[] = {{"passed", WIRE_OUTCOME_PASSED},   {"failed", WIRE_OUTCOME_FAILED},
                    {"pending", WIRE_OUTCOME_SKIPPED}, {"skipped", WIRE_OUTCOME_SKIPPED},
                    {"todo", WIRE_OUTCOME_SKIPPED},    {"disabled", WIRE_OUTCOME_SKIPPED}};
    _cleanup_clip_ struct clip name = CLIP_INIT, message = CLIP_INIT;
    const json_t *location = json_object_get(test, "location"), *each;
    json_int_t line = json_get_integer(location, "line");
    const char *status = json_get_string_or(test, "status", ""), *s;
    const char *title = json_get_string_or(test, "title", "");
    enum wire_outcome outcome = WIRE_OUTCOME_ERROR;
    size_t i;
    for (i = 0; i < ARRAY_SIZE(OUTCOMES); i++)
        if (strcmp(status, OUTCOMES[i].status) == 0)
            outcome = OUTCOMES[i].outcome;
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
    return report_add(
        r, &(struct report_test){.name = clip_text(&name),
                                 .outcome = outcome,
                                 .message = clip_text(&message),
                                 .file = file,
                                 .line = line > 0 ? (uint64_t)line : 0,
                                 .duration_ns = milliseconds(json_object_get(test, "duration"))});
}

/* A file that could not be run has a message and no tests, or fails although none of them did. */
static int jest_add_file(struct report *r, const json_t *file)
{
    const json_t *tests = json_object_get(file, "assertionResults"), *each;
    const char *name = json_get_string_or(file, "name", "");
    uint64_t before = report_bad(r);
    size_t i;
    json_array_foreach(tests, i, each)
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

/* mocha: tests of one list; what else is known of them is in which other lists they are again. */
static int mocha_add(struct report *r, const json_t *document)
{
    static const struct {
        const char *list;
        enum wire_outcome outcome;
    } LISTS[] = {{"failures", WIRE_OUTCOME_FAILED},
                 {"passes", WIRE_OUTCOME_PASSED},
                 {"pending", WIRE_OUTCOME_SKIPPED}};
    for (size_t l = 0; l < ARRAY_SIZE(LISTS); l++) {
        size_t i;
        const json_t *test;
        json_array_foreach(json_object_get(document, LISTS[l].list), i, test)
        {
            const json_t *err = json_object_get(test, "err");
            const char *stack = json_get_string_or(err, "stack", "");
            int result = report_add(
                r, &(struct report_test){
                       .name = json_get_string_or(test, "fullTitle", ""),
                       .outcome = LISTS[l].outcome,
                       .message = *stack ? stack : json_get_string_or(err, "message", ""),
                       .file = json_get_string_or(test, "file", ""),
                       .duration_ns = milliseconds(json_object_get(test, "duration"))});
            if (result < 0)
                return result;
        }
    }
    return 0;
}

static int json_report_parse(struct report *r, char *text, size_t n, struct error *err)
{
    json_error_t why;
    _cleanup_json_ json_t *document = json_loadb(text, n, 0, &why);
    int result = 0;
    if (!document && !why.text[0]) /* all that jansson says of its allocations */
        return error_set(err, E2BIG, "the JSON takes too much memory");
    if (!document)
        return error_set(err, EINVAL, "line %d: the JSON is broken: %s", why.line, why.text);
    const json_t *files = json_object_get(document, "testResults");
    if (json_is_array(files)) {
        for (size_t i = 0; result >= 0 && i < json_array_size(files); i++)
            result = jest_add_file(r, json_array_get(files, i));
        return result;
    }
    if (json_is_array(json_object_get(document, "passes")) &&
        json_is_array(json_object_get(document, "failures")))
        return mocha_add(r, document);
    return error_set(err, EINVAL,
                     "the JSON is neither jest's, vitest's nor mocha's: it has no \"testResults\"");
}

/* Its names are searched as text, since it may be longer than its head. */
static bool json_is_document(const char *head)
{
    const char *at = strncmp(head, "\xef\xbb\xbf", 3) == 0 ? head + 3 : head;
    if (at[strspn(at, " \t\r\n")] != '{')
        return false;
    return strstr(head, "\"testResults\"") || strstr(head, "\"numTotalTests\"") ||
           strstr(head, "\"fullTitle\"") ||
           (strstr(head, "\"stats\"") && strstr(head, "\"suites\""));
}

const struct report_format REPORT_JSON = {.is_document = json_is_document,
                                          .parse = json_report_parse};
