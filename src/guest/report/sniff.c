/*
 * Which format a report has. XML and JSON tell by their first bytes; of what a runner prints, the
 * first line that only one of the formats has decides, since anything may be printed before.
 */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "banned.h"

#define LOOK_MAX  65536u
#define LINE_LONG 4096u

static bool all_digits(const char *s)
{
    return *s && s[strspn(s, "0123456789")] == 0;
}

static bool is_tap(const char *line)
{
    if (strncmp(line, "TAP version ", 12) == 0)
        return true;
    if (strncmp(line, "1..", 3) == 0)
        return isdigit((unsigned char)line[3]) != 0;
    if (strncmp(line, "not ", 4) == 0)
        line += 4;
    return strncmp(line, "ok ", 3) == 0 && isdigit((unsigned char)line[3]);
}

static bool is_libtest(const char *line)
{
    if (strncmp(line, "running ", 8) != 0)
        return false;
    size_t digits = strspn(line + 8, "0123456789");
    const char *rest = line + 8 + digits;
    return digits && (strcmp(rest, " test") == 0 || strcmp(rest, " tests") == 0);
}

static bool is_automake(const char *line)
{
    static const char *const WORDS[] = {
        "PASS: ", "FAIL: ", "SKIP: ", "XFAIL: ", "XPASS: ", "ERROR: "};
    if (strncmp(line, ":test-result: ", 14) == 0)
        return true;
    if (strncmp(line, "# TOTAL:", 8) == 0)
        return all_digits(line + 8 + strspn(line + 8, " "));
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strncmp(line, WORDS[i], strlen(WORDS[i])) == 0)
            return true;
    return false;
}

/* The records of a stream of JSON objects, one per line, tell by the names they have. */
static enum wire_report_format sniff_record(const char *line)
{
    json_t *o = json_loads(line, 0, NULL);
    enum wire_report_format format = WIRE_REPORT_AUTO;
    if (json_is_string(json_object_get(o, "Action")))
        format = WIRE_REPORT_GO;
    else if (json_is_string(json_object_get(o, "result")) && json_object_get(o, "name"))
        format = WIRE_REPORT_MESON;
    json_decref(o);
    return format;
}

static enum wire_report_format sniff_line(const char *line)
{
    if (*line == '{')
        return sniff_record(line);
    if (is_tap(line))
        return WIRE_REPORT_TAP;
    if (is_libtest(line))
        return WIRE_REPORT_LIBTEST;
    return is_automake(line) ? WIRE_REPORT_AUTOMAKE : WIRE_REPORT_AUTO;
}

static enum wire_report_format sniff_lines(struct report_source *s)
{
    _cleanup_lines_ struct lines l = LINES_INIT(s, LOOK_MAX);
    enum wire_report_format format = WIRE_REPORT_AUTO;
    char *line;
    size_t n;
    while (!format && lines_next(&l, &line, &n) > 0)
        format = sniff_line(line);
    return format;
}

static int rewind_source(struct report_source *s)
{
    s->total = 0;
    return lseek(s->fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* One document: its names are looked for as text, since it may be longer than what is looked at. */
static bool is_document(const char *head)
{
    return strstr(head, "\"testResults\"") || strstr(head, "\"numTotalTests\"") ||
           strstr(head, "\"fullTitle\"") ||
           (strstr(head, "\"stats\"") && strstr(head, "\"suites\""));
}

enum wire_report_format report_sniff(struct report_source *s)
{
    char head[LINE_LONG + 1];
    ssize_t n = report_read(s, head, LINE_LONG);
    if (n <= 0 || rewind_source(s) < 0)
        return WIRE_REPORT_AUTO;
    for (ssize_t i = 0; i < n; i++)
        if (head[i] == 0)
            head[i] = ' ';
    head[n] = 0;
    const char *at = strncmp(head, "\xef\xbb\xbf", 3) == 0 ? head + 3 : head;
    at += strspn(at, " \t\r\n");
    if (*at == '<' || strncmp(head, "\xff\xfe", 2) == 0 || strncmp(head, "\xfe\xff", 2) == 0)
        return WIRE_REPORT_JUNIT;
    if (*at == '{' && is_document(head))
        return WIRE_REPORT_JSON;
    enum wire_report_format format = sniff_lines(s);
    rewind_source(s);
    return format;
}

report_parse report_parser(enum wire_report_format format)
{
    static const report_parse PARSERS[] = {
        [WIRE_REPORT_JUNIT] = report_parse_junit,
        [WIRE_REPORT_JSON] = report_parse_json,
        [WIRE_REPORT_GO] = report_parse_go,
        [WIRE_REPORT_MESON] = report_parse_meson,
        [WIRE_REPORT_TAP] = report_parse_tap,
        [WIRE_REPORT_LIBTEST] = report_parse_libtest,
        [WIRE_REPORT_AUTOMAKE] = report_parse_automake,
    };
    return (size_t)format < ARRAY_SIZE(PARSERS) ? PARSERS[format] : NULL;
}
