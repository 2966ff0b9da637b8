/*
 * The Test Anything Protocol, versions 12 to 14.
 *
 *     TAP version 14
 *     1..2
 *     # Subtest: inner              names the subtest that follows, indented by four
 *         ok 1 - a
 *         1..1
 *     ok 1 - inner                  its sum: told only when its tests do not tell it
 *     not ok 2 - b # TODO later
 *       ---                         YAML, indented by two; and # comments: what there is to say
 * about the test
 *       ...
 *
 * A level is one list of tests with its plan. What follows a test line belongs to it, so a test is
 * told when the next line of that kind comes. Several documents may follow each other, as when make
 * runs several programs: a plan that is full, followed by a new number 1 or another plan, ends one.
 * All other lines are somebody's output.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "report.h"
#include "tap_levels.h"
#include "banned.h"

#define LINE_LONG 65536u
#define PLAN_MAX  1000000000ul
#define INDENT    4u

static void set_text(char **at, const char *s, size_t n)
{
    free(*at);
    *at = s ? strndup(s, n) : NULL;
}

static int take_plan(struct tap *t, unsigned depth, const char *line)
{
    int r = tap_go_to(t, depth);
    if (r >= 0 && depth == 0 && t->levels[0].planned)
        r = tap_restart(t);
    struct level *l = &t->levels[depth];
    char *end;
    l->plan = strtoul(line + 3, &end, 10);
    l->planned = true;
    if (l->plan > PLAN_MAX)
        l->plan = PLAN_MAX;
    end += strspn(end, " #");
    if (r < 0 || l->plan > 0 || depth > 0 || strncasecmp(end, "skip", 4) != 0)
        return r;
    end += strspn(end, "SKIPskip:edED");
    return tap_tell(t, 0,
                    &(struct report_test){.name = t->report->label ? "" : "(all tests)",
                                          .outcome = WIRE_OUTCOME_SKIPPED,
                                          .message = end + strspn(end, " ")});
}

/* Where the directive of a description begins, or NULL: a # that is not escaped, with SKIP or TODO
 * behind. */
static char *find_directive(char *s)
{
    for (char *hash = strchr(s, '#'); hash; hash = strchr(hash + 1, '#')) {
        const char *word = hash + 1 + strspn(hash + 1, " \t");
        bool escaped = hash > s && hash[-1] == '\\';
        if (!escaped && (strncasecmp(word, "skip", 4) == 0 || strncasecmp(word, "todo", 4) == 0))
            return hash;
    }
    return NULL;
}

/* Cuts the description off its directive and says what becomes of the test. */
static enum wire_outcome apply_directive(struct pending *p, char *description, bool ok)
{
    char *directive = find_directive(description);
    enum wire_outcome plain = ok ? WIRE_OUTCOME_PASSED : WIRE_OUTCOME_FAILED;
    if (!directive)
        return plain;
    *directive++ = 0;
    directive += strspn(directive, " \t");
    bool todo = strncasecmp(directive, "todo", 4) == 0;
    clip_add_str(&p->message, directive);
    clip_add_str(&p->message, "\n");
    return todo && ok ? WIRE_OUTCOME_PASSED : WIRE_OUTCOME_SKIPPED;
}

/* In a description \# and \\ stand for # and \. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '\\' && (s[1] == '#' || s[1] == '\\'))
            s++;
        *to++ = *s;
    }
    *to = 0;
}

static void trim_end(char *s)
{
    for (size_t n = strlen(s); n > 0 && isspace((unsigned char)s[n - 1]); n--)
        s[n - 1] = 0;
}

/* The sum of a subtest is told if its tests have not told it: when it failed and none of them did.
 */
static bool is_told(struct level *l, enum wire_outcome outcome)
{
    bool told = l->children > 0 && (outcome != WIRE_OUTCOME_FAILED || l->child_bad);
    l->children = 0;
    l->child_bad = false;
    return told;
}

static int take_test(struct tap *t, unsigned depth, char *line)
{
    bool ok = line[0] == 'o';
    char *rest = line + (ok ? 2 : 6), *end;
    rest += strspn(rest, " \t");
    unsigned long number = strtoul(rest, &end, 10);
    bool numbered = isdigit((unsigned char)*rest) && (*end == 0 || isspace((unsigned char)*end));
    int r = tap_go_to(t, depth);
    struct level *l = &t->levels[depth];
    if (r >= 0 && depth == 0 && l->planned && l->ran == l->plan && numbered && number == 1)
        r = tap_restart(t);
    if (r < 0)
        return r;
    l->ran++;
    set_text(&l->announced, NULL, 0);
    rest = numbered ? end : rest;
    rest += strspn(rest, " \t");
    if (rest[0] == '-' && isspace((unsigned char)rest[1]))
        rest += 2;
    clip_reset(&t->test.message);
    enum wire_outcome outcome = apply_directive(&t->test, rest, ok);
    trim_end(rest);
    unescape(rest);
    if (outcome == WIRE_OUTCOME_FAILED && depth > 0)
        t->levels[depth - 1].child_bad = true;
    if (is_told(l, outcome))
        return 0;
    char unnamed[32];
    snprintf(unnamed, sizeof unnamed, "%lu", l->ran);
    const char *name = *rest ? rest : unnamed;
    set_text(&t->test.name, name, strlen(name));
    set_text(&t->test.file, NULL, 0);
    t->test.line = 0;
    t->test.duration_ns = 0;
    t->test.outcome = outcome;
    t->test.depth = depth;
    t->test.there = true;
    return 0;
}

static int bail_out(struct tap *t, const char *why)
{
    int r = tap_flush(t);
    t->bailed = true;
    return r < 0 ? r
                 : tap_tell(t, 0,
                            &(struct report_test){.name = "(bail out)",
                                                  .outcome = WIRE_OUTCOME_ERROR,
                                                  .message = *why ? why : "Bail out!"});
}

static void take_comment(struct tap *t, unsigned depth, const char *line)
{
    if (strncmp(line, "# Subtest: ", 11) == 0) {
        set_text(&t->levels[depth].announced, line + 11, strlen(line + 11));
    } else if (t->test.there) {
        clip_add_str(&t->test.message, line + 1 + (line[1] == ' '));
        clip_add_str(&t->test.message, "\n");
    }
}

/* Of the YAML only three scalars are understood; all of it is the message. */
static void take_yaml(struct tap *t, const char *line)
{
    struct pending *p = &t->test;
    if (strncmp(line, "duration_ms: ", 13) == 0) {
        p->duration_ns = report_seconds(line + 13) / 1000;
        return;
    }
    if (strncmp(line, "file: ", 6) == 0)
        set_text(&p->file, line + 6 + strspn(line + 6, "'\""),
                 strcspn(line + 6 + strspn(line + 6, "'\""), "'\""));
    else if (strncmp(line, "line: ", 6) == 0)
        p->line = strtoul(line + 6, NULL, 10);
    clip_add_str(&p->message, line);
    clip_add_str(&p->message, "\n");
}

/* True if the line was of a YAML block. */
static bool in_yaml(struct tap *t, const char *line, size_t indent)
{
    const char *text = line + indent;
    if (!t->yaml) {
        bool begins =
            t->test.there && strcmp(text, "---") == 0 && indent >= t->test.depth * INDENT + 1;
        t->yaml = begins ? indent : 0;
        return begins;
    }
    if (indent >= t->yaml && strcmp(text, "...") != 0) {
        take_yaml(t, line + t->yaml);
        return true;
    }
    t->yaml = 0;
    return strcmp(text, "...") == 0;
}

static bool is_test_line(const char *s)
{
    if (strncmp(s, "not ", 4) == 0)
        s += 4;
    return strncmp(s, "ok", 2) == 0 && (s[2] == 0 || isspace((unsigned char)s[2]));
}

static bool is_plan_line(const char *s)
{
    return strncmp(s, "1..", 3) == 0 && isdigit((unsigned char)s[3]);
}

static int take_line(struct tap *t, char *line)
{
    size_t indent = strspn(line, " ");
    if (in_yaml(t, line, indent) || indent / INDENT >= REPORT_NEST_MAX || indent % INDENT)
        return 0;
    unsigned depth = (unsigned)(indent / INDENT);
    char *text = line + indent;
    if (is_plan_line(text))
        return take_plan(t, depth, text);
    if (is_test_line(text))
        return take_test(t, depth, text);
    if (*text == '#')
        take_comment(t, depth, text);
    else if (strncasecmp(text, "Bail out!", 9) == 0)
        return bail_out(t, text + 9 + strspn(text + 9, " "));
    else if (depth == 0 && strncmp(text, "TAP version ", 12) == 0 &&
             (t->levels[0].planned || t->levels[0].ran))
        return tap_restart(t);
    return 0;
}

static void tap_free(struct tap *t)
{
    for (size_t i = 0; i < REPORT_NEST_MAX; i++)
        tap_level_reset(&t->levels[i]);
    free(t->test.name);
    free(t->test.file);
    clip_free(&t->test.message);
}

int report_parse_tap(struct report *r, struct report_source *s, struct error *err)
{
    _cleanup_lines_ struct lines l = LINES_INIT(s, LINE_LONG);
    struct tap t = {.report = r, .test.message = CLIP_INIT};
    char *line;
    size_t n;
    int result;
    while ((result = lines_next(&l, &line, &n)) > 0) {
        result = take_line(&t, line);
        if (result < 0)
            break;
    }
    if (result >= 0)
        result = tap_restart(&t);
    tap_free(&t);
    return result;
}

int tap_parse_text(struct report *r, const char *text)
{
    struct tap t = {.report = r, .test.message = CLIP_INIT};
    int result = 0;
    while (*text && result >= 0) {
        size_t n = strcspn(text, "\n");
        _cleanup_free_ char *line = strndup(text, n < LINE_LONG ? n : LINE_LONG);
        result = line ? take_line(&t, line) : -ENOMEM;
        text += n + (text[n] != 0);
    }
    if (result >= 0)
        result = tap_restart(&t);
    tap_free(&t);
    return result;
}

bool tap_looks_like(const char *text)
{
    bool plan = false, test = false;
    while (*text && !(plan && test)) {
        plan |= is_plan_line(text) || strncmp(text, "TAP version ", 12) == 0;
        test |= is_test_line(text);
        text += strcspn(text, "\n");
        text += *text != 0;
    }
    return plan && test;
}
