/*
 * JUnit XML, parsed by expat.
 *
 * There is no standard, only what runners write: pytest, CTest, surefire, jest-junit, vitest,
 * go-junit-report, cargo nextest, googletest, node. What they share is <testcase name classname
 * time> within <testsuite>s, with <failure>, <error> or <skipped> inside. A document type is
 * refused, and with it all entities but the five of XML, so that nothing in a report can grow.
 */
#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "banned.h"

#define DEPTH_MAX    256u
#define SUMMARY_LOOK 300u

enum capture { CAPTURE_NOTHING, CAPTURE_BODY, CAPTURE_OUTPUT };

struct junit {
    XML_Parser xml;
    struct report *report;
    struct error *err;
    int failure; /* negative errno that stopped the parser */
    unsigned depth;
    char *suites[REPORT_NEST_MAX]; /* names of the suites we are in */
    unsigned n_suites;
    bool pytest;
    bool in_case;
    unsigned case_depth, capture_depth; /* where the elements began */
    enum capture capture;
    char *name, *class, *file, *status, *result, *summary;
    uint64_t line;
    int64_t duration_ns;
    enum wire_outcome outcome; /* 0 until an element says one */
    bool todo;
    bool flaky;
    struct clip body, output;
};

static const char *junit_attribute(const XML_Char **attributes, const char *name)
{
    for (size_t i = 0; attributes[i]; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1];
    return NULL;
}

static void junit_set(char **at, const XML_Char **attributes, const char *name)
{
    const char *value = junit_attribute(attributes, name);
    report_set_string(at, value, value ? strlen(value) : 0);
}

static void junit_stop(struct junit *j, int r)
{
    if (j->failure == 0)
        j->failure = r;
    XML_StopParser(j->xml, XML_FALSE);
}

static void junit_doctype(void *data, const XML_Char *name, const XML_Char *system,
                          const XML_Char *public, int has_internal)
{
    struct junit *j = data;
    junit_stop(
        j, error_set(j->err, EINVAL,
                     "the XML has a document type (DOCTYPE), which test reports must not have"));
}

static void junit_begin_case(struct junit *j, const XML_Char **attributes)
{
    const char *line = junit_attribute(attributes, "line"),
               *time = junit_attribute(attributes, "time");
    junit_set(&j->name, attributes, "name");
    junit_set(&j->class, attributes, "classname");
    junit_set(&j->file, attributes, "file");
    junit_set(&j->status, attributes, "status");
    junit_set(&j->result, attributes, "result");
    report_set_string(&j->summary, NULL, 0);
    j->line = line ? strtoul(line, NULL, 10) : 0;
    /* pytest counts lines from 0. */
    if (line && j->pytest)
        j->line++;
    j->duration_ns = time ? report_seconds(time) : 0;
    j->outcome = 0;
    j->todo = j->flaky = false;
    clip_reset(&j->body);
    clip_reset(&j->output);
    j->in_case = true;
    j->case_depth = j->depth;
}

/* The worst outcome counts: an error over a failure over a skip. */
static void junit_note_outcome(struct junit *j, enum wire_outcome outcome,
                               const XML_Char **attributes)
{
    const char *message = junit_attribute(attributes, "message");
    const char *type = junit_attribute(attributes, "type");
    if (outcome == WIRE_OUTCOME_SKIPPED && type && strcmp(type, "todo") == 0)
        j->todo = true;
    bool worse = j->outcome == 0 || j->outcome == WIRE_OUTCOME_SKIPPED ||
                 (j->outcome == WIRE_OUTCOME_FAILED && outcome == WIRE_OUTCOME_ERROR);
    if (!worse || (j->outcome && outcome == WIRE_OUTCOME_SKIPPED))
        return;
    j->outcome = outcome;
    if (message && *message)
        junit_set(&j->summary, attributes, "message");
    j->capture = CAPTURE_BODY;
    j->capture_depth = j->depth;
}

static void junit_begin(void *data, const XML_Char *element, const XML_Char **attributes)
{
    struct junit *j = data;
    bool suite = strcmp(element, "testsuite") == 0, test = strcmp(element, "testcase") == 0;
    bool failure = strcmp(element, "failure") == 0, error = strcmp(element, "error") == 0;
    if (++j->depth > DEPTH_MAX || (suite && j->n_suites == REPORT_NEST_MAX)) {
        junit_stop(j, error_set(j->err, E2BIG, "XML elements are nested deeper than %u levels",
                                suite ? REPORT_NEST_MAX : DEPTH_MAX));
    } else if (j->depth == 1 && !suite && !test && strcmp(element, "testsuites") != 0) {
        junit_stop(
            j, error_set(j->err, EINVAL,
                         "<%.60s> is not a JUnit report: <testsuites> or <testsuite> was expected",
                         element));
    } else if (j->in_case && j->capture != CAPTURE_NOTHING) {
        return; /* within a message */
    } else if (j->in_case && (failure || error || strcmp(element, "skipped") == 0)) {
        junit_note_outcome(j,
                           failure ? WIRE_OUTCOME_FAILED
                           : error ? WIRE_OUTCOME_ERROR
                                   : WIRE_OUTCOME_SKIPPED,
                           attributes);
    } else if (j->in_case && strncmp(element, "flaky", 5) == 0) {
        j->flaky = true;
    } else if (j->in_case &&
               (strcmp(element, "system-out") == 0 || strcmp(element, "system-err") == 0)) {
        j->capture = CAPTURE_OUTPUT;
        clip_add_str(&j->output, j->output.total ? "\n" : "");
        j->capture_depth = j->depth;
    } else if (j->in_case) {
        return;
    } else if (suite) {
        const char *name = junit_attribute(attributes, "name");
        j->pytest = name && strcmp(name, "pytest") == 0;
        j->suites[j->n_suites] = strdup(name ? name : "");
        if (!j->suites[j->n_suites++])
            junit_stop(j, -ENOMEM);
    } else if (test) {
        junit_begin_case(j, attributes);
    } else if (j->n_suites && (failure || error)) {
        /* A failure of a whole suite, such as one that could not be set up, is an error of that
         * name. */
        const char *name = j->suites[j->n_suites - 1];
        junit_begin_case(j, (const XML_Char *[]){NULL});
        report_set_string(&j->name, name, strlen(name));
        junit_note_outcome(j, WIRE_OUTCOME_ERROR, attributes);
    }
}

/* The class makes a name unique; where there is none, or node's meaningless one, the suites do. */
static void junit_name(const struct junit *j, struct clip *name)
{
    bool class = j->class && *j->class && strcmp(j->class, "test") != 0;
    size_t n = j->file ? strlen(j->file) : 0, same = 0;
    if (!j->name) {
        clip_add_str(name, "(no name)");
        return;
    }
    /* pytest's own way to write a test: tests/test_a.py::TestX::test_y. */
    if (j->pytest && j->class && n > 3 && strcmp(j->file + n - 3, ".py") == 0) {
        n -= 3;
        while (same < n && j->class[same] == (j->file[same] == '/' ? '.' : j->file[same]))
            same++;
    }
    if (same > 0 && same == n) {
        clip_add_str(name, j->file);
        for (const char *rest = j->class[n] == '.' ? j->class + n + 1 : ""; *rest;) {
            size_t part = strcspn(rest, ".");
            clip_add_str(name, "::");
            clip_add(name, rest, part);
            rest += part + (rest[part] != 0);
        }
        clip_add_str(name, "::", j->name);
        return;
    }
    if (class && strncmp(j->name, j->class, strlen(j->class)) != 0)
        clip_add_str(name, j->class,
                     strstr(j->class, "::")  ? "::"
                     : strchr(j->class, '/') ? " > "
                                             : ".");
    for (unsigned i = 0; !class && i < j->n_suites; i++)
        if (*j->suites[i] && strcmp(j->suites[i], j->name) != 0)
            clip_add_str(name, j->suites[i], " > ");
    clip_add_str(name, j->name);
}

static void junit_end_case(struct junit *j)
{
    _cleanup_clip_ struct clip name = CLIP_INIT, message = CLIP_INIT;
    static const struct report_word RESULTS[] = {{"skipped", WIRE_OUTCOME_SKIPPED},
                                                 {"suppressed", WIRE_OUTCOME_SKIPPED},
                                                 {"disabled", WIRE_OUTCOME_SKIPPED},
                                                 {NULL, WIRE_OUTCOME_PASSED}};
    static const struct report_word STATUSES[] = {
        {"notrun", WIRE_OUTCOME_SKIPPED},  {"disabled", WIRE_OUTCOME_SKIPPED},
        {"skipped", WIRE_OUTCOME_SKIPPED}, {"fail", WIRE_OUTCOME_FAILED},
        {"failed", WIRE_OUTCOME_FAILED},   {"failure", WIRE_OUTCOME_FAILED},
        {"error", WIRE_OUTCOME_ERROR},     {"timeout", WIRE_OUTCOME_ERROR},
        {"crashed", WIRE_OUTCOME_ERROR},   {NULL, WIRE_OUTCOME_PASSED}};
    enum wire_outcome outcome = j->outcome;
    const char *body = clip_text(&j->body), *summary = j->summary ? j->summary : "";
    size_t first = strcspn(summary, "\n"), look = strnlen(body, SUMMARY_LOOK);
    /* CTest counts a test that it could not run as failed, but writes <skipped>; one that it was
     * asked to skip says so. */
    if (j->todo)
        outcome = WIRE_OUTCOME_SKIPPED;
    else if (outcome == WIRE_OUTCOME_SKIPPED && j->status && strcmp(j->status, "notrun") == 0 &&
             j->summary && !report_after(summary, "SKIP_"))
        outcome = WIRE_OUTCOME_ERROR;
    else if (!outcome)
        outcome = report_outcome(RESULTS, j->result);
    if (!j->outcome && outcome == WIRE_OUTCOME_PASSED)
        outcome = report_outcome(STATUSES, j->status);
    junit_name(j, &name);
    if (outcome == WIRE_OUTCOME_PASSED) {
        clip_add_str(&message, j->flaky ? "flaky: failed first, passed when it was run again" : "");
    } else {
        /* The summary, unless the body begins with it, then the body. A failure without a word has
         * what the test printed. */
        bool empty = body[strspn(body, " \t\r\n")] == 0;
        if (*summary && (first > look || !memmem(body, look, summary, first)))
            clip_add_str(&message, summary, "\n");
        clip_add_str(&message, body);
        if (empty && (outcome != WIRE_OUTCOME_SKIPPED || !*summary))
            clip_add_str(&message, clip_text(&j->output));
    }
    j->in_case = false;
    int r = report_add(j->report, &(struct report_test){.name = clip_text(&name),
                                                        .outcome = outcome,
                                                        .message = clip_text(&message),
                                                        .file = j->file,
                                                        .line = j->line,
                                                        .duration_ns = j->duration_ns});
    if (r < 0)
        junit_stop(j, r);
}

static void junit_end(void *data, const XML_Char *element)
{
    struct junit *j = data;
    if (j->capture != CAPTURE_NOTHING && j->depth == j->capture_depth)
        j->capture = CAPTURE_NOTHING;
    if (j->in_case && j->depth == j->case_depth)
        junit_end_case(j);
    else if (!j->in_case && j->n_suites && strcmp(element, "testsuite") == 0)
        free(j->suites[--j->n_suites]);
    j->depth--;
}

static void junit_text(void *data, const XML_Char *s, int n)
{
    struct junit *j = data;
    if (j->capture != CAPTURE_NOTHING)
        clip_add(j->capture == CAPTURE_BODY ? &j->body : &j->output, s, (size_t)n);
}

static int junit_parse(struct report *r, char *text, size_t n, struct error *err)
{
    struct junit j = {.xml = XML_ParserCreate(NULL),
                      .report = r,
                      .err = err,
                      .body = CLIP_INIT,
                      .output = CLIP_INIT};
    int result = 0;
    if (!j.xml)
        return -ENOMEM;
    XML_SetUserData(j.xml, &j);
    XML_SetElementHandler(j.xml, junit_begin, junit_end);
    XML_SetCharacterDataHandler(j.xml, junit_text);
    XML_SetStartDoctypeDeclHandler(j.xml, junit_doctype);
    if (XML_Parse(j.xml, text, (int)n, XML_TRUE) != XML_STATUS_OK)
        result = j.failure < 0 ? j.failure
                               : error_set(err, EINVAL, "line %lu: invalid XML: %s",
                                           XML_GetCurrentLineNumber(j.xml),
                                           XML_ErrorString(XML_GetErrorCode(j.xml)));
    char *owned[] = {j.name, j.class, j.file, j.status, j.result, j.summary};
    for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
        free(owned[i]);
    while (j.n_suites)
        free(j.suites[--j.n_suites]);
    clip_free(&j.body);
    clip_free(&j.output);
    XML_ParserFree(j.xml);
    return result;
}

/* XML, also in UTF-16, begins with its first bytes. */
static bool junit_is_document(const char *head)
{
    const char *mark = report_after(head, "\xef\xbb\xbf"), *at = mark ? mark : head;
    at += strspn(at, " \t\r\n");
    return *at == '<' || report_after(head, "\xff\xfe") || report_after(head, "\xfe\xff");
}

const struct report_format REPORT_JUNIT = {.is_document = junit_is_document, .parse = junit_parse};
