/*
 * Automake's tests: .trs files, one for each test program, and what `make check` prints.
 *
 *     :test-result: FAIL 2 - b            in a .trs file
 *     FAIL: tests/foo                     printed; with TAP inside: FAIL: tests/foo 2 - b
 */
#include <string.h>

#include "report.h"
#include "banned.h"

static const struct {
    const char *word;
    enum wire_outcome outcome;
    const char *message;
} WORDS[] = {
    {"PASS", WIRE_OUTCOME_PASSED, ""},
    {"XFAIL", WIRE_OUTCOME_PASSED, ""},
    {"FAIL", WIRE_OUTCOME_FAILED, ""},
    {"XPASS", WIRE_OUTCOME_FAILED, "passed, although it was expected to fail"},
    {"SKIP", WIRE_OUTCOME_SKIPPED, ""},
    {"ERROR", WIRE_OUTCOME_ERROR, ""},
};

/* The result that a line begins with, and what follows it. */
static int automake_find_word(const char *line, const char *behind, const char **ret_rest)
{
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
        size_t n = strlen(WORDS[i].word);
        if (strncmp(line, WORDS[i].word, n) != 0 ||
            (line[n] && strncmp(line + n, behind, strlen(behind)) != 0))
            continue;
        *ret_rest = line + n + (line[n] ? strlen(behind) : 0);
        return (int)i;
    }
    return -1;
}

/* In a .trs file every test of a program is listed; a program that is one test has no name
 * there. */
static int automake_take_line(void *data, char *line, size_t n)
{
    struct report *r = data;
    static const char RESULT[] = ":test-result: ";
    bool listed = strncmp(line, RESULT, sizeof RESULT - 1) == 0;
    const char *name;
    int i =
        automake_find_word(listed ? line + sizeof RESULT - 1 : line, listed ? " " : ": ", &name);
    if (i < 0 || (!listed && !*name))
        return 0;
    return report_add(r, &(struct report_test){.name = name,
                                               .outcome = WORDS[i].outcome,
                                               .message = WORDS[i].message});
}

static int automake_parse(struct report *r, char *text, size_t n, struct error *err)
{
    return report_each_line(text, n, automake_take_line, r);
}

static bool automake_is_line(const char *line)
{
    const char *rest;
    if (strncmp(line, ":test-result: ", 14) == 0)
        return true;
    if (strncmp(line, "# TOTAL:", 8) == 0) {
        const char *digits = line + 8 + strspn(line + 8, " ");
        return *digits && digits[strspn(digits, "0123456789")] == 0;
    }
    return automake_find_word(line, ": ", &rest) >= 0 && rest[-1] == ' ';
}

const struct report_format REPORT_AUTOMAKE = {.is_line = automake_is_line, .parse = automake_parse};
