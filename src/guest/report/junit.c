/*
 * JUnit XML, streamed through expat.
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

#include "junit.h"
#include "banned.h"

#define DEPTH_MAX 256u
#define PIECE     65536

static const char *attribute(const XML_Char **attributes, const char *name)
{
    for (size_t i = 0; attributes[i]; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1];
    return NULL;
}

static void set(char **at, const char *value)
{
    free(*at);
    *at = value ? strdup(value) : NULL;
}

static void stop(struct junit *j, int r)
{
    if (j->failure == 0)
        j->failure = r;
    XML_StopParser(j->xml, XML_FALSE);
}

static void doctype(void *data, const XML_Char *name, const XML_Char *system,
                    const XML_Char *public, int has_internal)
{
    struct junit *j = data;
    stop(j, error_set(j->err, EINVAL,
                      "the XML has a document type, which test reports have no use for"));
}

static void enter_suite(struct junit *j, const XML_Char **attributes)
{
    const char *name = attribute(attributes, "name");
    if (j->n_suites == REPORT_NEST_MAX) {
        stop(j, error_set(j->err, E2BIG, "more than %u test suites within each other",
                          REPORT_NEST_MAX));
        return;
    }
    j->pytest = name && strcmp(name, "pytest") == 0;
    j->suites[j->n_suites] = strdup(name ? name : "");
    if (!j->suites[j->n_suites++])
        stop(j, -ENOMEM);
}

static void begin_case(struct junit *j, const XML_Char **attributes)
{
    const char *line = attribute(attributes, "line"), *time = attribute(attributes, "time");
    set(&j->name, attribute(attributes, "name"));
    set(&j->class, attribute(attributes, "classname"));
    set(&j->file, attribute(attributes, "file"));
    set(&j->status, attribute(attributes, "status"));
    set(&j->result, attribute(attributes, "result"));
    set(&j->summary, NULL);
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
static void note_outcome(struct junit *j, enum wire_outcome outcome, const XML_Char **attributes)
{
    const char *message = attribute(attributes, "message"), *type = attribute(attributes, "type");
    if (outcome == WIRE_OUTCOME_SKIPPED && type && strcmp(type, "todo") == 0)
        j->todo = true;
    bool worse = j->outcome == 0 || j->outcome == WIRE_OUTCOME_SKIPPED ||
                 (j->outcome == WIRE_OUTCOME_FAILED && outcome == WIRE_OUTCOME_ERROR);
    if (!worse || (j->outcome && outcome == WIRE_OUTCOME_SKIPPED))
        return;
    j->outcome = outcome;
    if (message && *message)
        set(&j->summary, message);
    j->capture = BODY;
    j->capture_depth = j->depth;
}

static void begin_in_case(struct junit *j, const XML_Char *element, const XML_Char **attributes)
{
    if (strcmp(element, "failure") == 0) {
        note_outcome(j, WIRE_OUTCOME_FAILED, attributes);
    } else if (strcmp(element, "error") == 0) {
        note_outcome(j, WIRE_OUTCOME_ERROR, attributes);
    } else if (strcmp(element, "skipped") == 0) {
        note_outcome(j, WIRE_OUTCOME_SKIPPED, attributes);
    } else if (strncmp(element, "flaky", 5) == 0) {
        j->flaky = true;
    } else if (strcmp(element, "system-out") == 0 || strcmp(element, "system-err") == 0) {
        j->capture = OUTPUT;
        clip_add_str(&j->output, j->output.total ? "\n" : "");
        j->capture_depth = j->depth;
    }
}

/* A failure of a whole suite, such as one that could not be set up, is an error of that name. */
static void begin_in_suite(struct junit *j, const XML_Char *element, const XML_Char **attributes)
{
    if (strcmp(element, "failure") != 0 && strcmp(element, "error") != 0)
        return;
    const XML_Char *none[] = {NULL};
    begin_case(j, none);
    set(&j->name, j->suites[j->n_suites - 1]);
    note_outcome(j, WIRE_OUTCOME_ERROR, attributes);
}

static void begin(void *data, const XML_Char *element, const XML_Char **attributes)
{
    struct junit *j = data;
    if (++j->depth > DEPTH_MAX) {
        stop(j, error_set(j->err, E2BIG, "more than %u elements within each other", DEPTH_MAX));
    } else if (j->depth == 1 && strcmp(element, "testsuites") != 0 &&
               strcmp(element, "testsuite") != 0 && strcmp(element, "testcase") != 0) {
        stop(j, error_set(j->err, EINVAL,
                          "<%.60s> is not a JUnit report: <testsuites> or <testsuite> was expected",
                          element));
    } else if (j->in_case) {
        if (j->capture == NOTHING)
            begin_in_case(j, element, attributes);
    } else if (strcmp(element, "testsuite") == 0) {
        enter_suite(j, attributes);
    } else if (strcmp(element, "testcase") == 0) {
        begin_case(j, attributes);
    } else if (j->n_suites) {
        begin_in_suite(j, element, attributes);
    }
}

static void end_case(struct junit *j)
{
    struct clip name = CLIP_INIT, message = CLIP_INIT;
    enum wire_outcome outcome = junit_outcome(j);
    junit_name(j, &name);
    junit_message(j, outcome, &message);
    j->in_case = false;
    int r = report_add(j->report, &(struct report_test){.name = clip_text(&name),
                                                        .outcome = outcome,
                                                        .message = clip_text(&message),
                                                        .file = j->file,
                                                        .line = j->line,
                                                        .duration_ns = j->duration_ns});
    clip_free(&name);
    clip_free(&message);
    if (r < 0)
        stop(j, r);
}

static void end(void *data, const XML_Char *element)
{
    struct junit *j = data;
    if (j->capture != NOTHING && j->depth == j->capture_depth)
        j->capture = NOTHING;
    if (j->in_case && j->depth == j->case_depth)
        end_case(j);
    else if (!j->in_case && j->n_suites && strcmp(element, "testsuite") == 0)
        free(j->suites[--j->n_suites]);
    j->depth--;
}

static void text(void *data, const XML_Char *s, int n)
{
    struct junit *j = data;
    if (j->capture != NOTHING)
        clip_add(j->capture == BODY ? &j->body : &j->output, s, (size_t)n);
}

static int parse_error(struct junit *j)
{
    if (j->failure < 0)
        return j->failure;
    return error_set(j->err, EINVAL, "line %lu: the XML is broken: %s",
                     XML_GetCurrentLineNumber(j->xml), XML_ErrorString(XML_GetErrorCode(j->xml)));
}

static ssize_t read_full(struct report_source *s, uint8_t *data, size_t n)
{
    size_t have = 0;
    while (have < n) {
        ssize_t got = report_read(s, data + have, n - have);
        if (got < 0)
            return got;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

/* expat looks at a token that is not complete again from its beginning each time there is more: of
 * one that stays incomplete the next piece is twice as long, so that the whole stays linear in
 * time. */
static int feed(struct junit *j, struct report_source *s)
{
    size_t piece = PIECE;
    XML_Index last = -1;
    ssize_t n;
    do {
        void *data = XML_GetBuffer(j->xml, (int)piece);
        if (!data)
            return -ENOMEM;
        n = read_full(s, data, piece);
        if (n < 0)
            return (int)n;
        if (XML_ParseBuffer(j->xml, (int)n, n == 0) != XML_STATUS_OK)
            return parse_error(j);
        XML_Index at = XML_GetCurrentByteIndex(j->xml);
        if (at != last)
            piece = PIECE;
        else if (piece < REPORT_SIZE_MAX / 2)
            piece *= 2;
        last = at;
    } while (n > 0);
    return 0;
}

static void junit_free(struct junit *j)
{
    char *owned[] = {j->name, j->class, j->file, j->status, j->result, j->summary};
    for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
        free(owned[i]);
    while (j->n_suites)
        free(j->suites[--j->n_suites]);
    clip_free(&j->body);
    clip_free(&j->output);
    XML_ParserFree(j->xml);
}

int report_parse_junit(struct report *r, struct report_source *s, struct error *err)
{
    struct junit j = {.xml = XML_ParserCreate(NULL),
                      .report = r,
                      .err = err,
                      .body = CLIP_INIT,
                      .output = CLIP_INIT};
    if (!j.xml)
        return -ENOMEM;
    XML_SetUserData(j.xml, &j);
    XML_SetElementHandler(j.xml, begin, end);
    XML_SetCharacterDataHandler(j.xml, text);
    XML_SetStartDoctypeDeclHandler(j.xml, doctype);
    int result = feed(&j, s);
    junit_free(&j);
    return result;
}
