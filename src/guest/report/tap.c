/*
 * The Test Anything Protocol, versions 12 to 14.
 *
 *     TAP version 14
 *     1..2
 *     # Subtest: inner              names the subtest that follows, indented by four
 *         ok 1 - a
 *         1..1
 *     ok 1 - inner                  its sum: counts only if its tests do not
 *     not ok 2 - b # TODO later
 *       ---                         YAML, indented by two; and # comments: the message
 *       ...
 *
 * A level is one list of tests with its plan. What follows a test line belongs to it, so a test is
 * added when the next line of that kind comes. Several documents may follow each other, as when
 * make runs several programs: a plan that is full, followed by a new number 1 or another plan, ends
 * one. All other lines are output.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "report.h"
#include "banned.h"

#define PLAN_MAX 1000000000ul
#define INDENT   4u

struct tap_level {
    char *name;      /* of the subtest */
    char *announced; /* by a comment at this level: the subtest that comes next */
    bool planned;
    unsigned long plan, ran;
    unsigned long children; /* tests of a subtest that just ended */
    bool child_bad;
};

/* The test that was read last. */
struct tap_test {
    bool there;
    unsigned depth;
    enum wire_outcome outcome;
    char *name;
    struct clip message;
    int64_t duration_ns;
    char *file;
    uint64_t line;
};

struct tap {
    struct report *report;
    struct tap_level levels[REPORT_NEST_MAX];
    unsigned depth;
    struct tap_test test;
    size_t yaml; /* the indentation of the block we are in, 0 outside */
    bool bailed;
};

static void tap_level_reset(struct tap_level *l)
{
    free(l->name);
    free(l->announced);
    *l = (struct tap_level){0};
}

/* A test at some depth, named with the subtests it is in. */
static int tap_add(struct tap *t, unsigned depth, const struct report_test *test)
{
    _cleanup_clip_ struct clip name = CLIP_INIT;
    struct report_test named = *test;
    for (unsigned i = 1; i <= depth; i++)
        if (t->levels[i].name)
            clip_add_str(&name, t->levels[i].name, " > ");
    clip_add_str(&name, test->name);
    named.name = clip_text(&name);
    return report_add(t->report, &named);
}

static int tap_add_error(struct tap *t, unsigned depth, const char *name, const char *message)
{
    return tap_add(
        t, depth,
        &(struct report_test){.name = name, .outcome = WIRE_OUTCOME_ERROR, .message = message});
}

/* Adds the test that was read last. */
static int tap_flush(struct tap *t)
{
    struct tap_test *p = &t->test;
    if (!p->there)
        return 0;
    p->there = false;
    t->yaml = 0;
    return tap_add(t, p->depth,
                   &(struct report_test){
                       .name = p->name ? p->name : "",
                       .outcome = p->outcome,
                       .message = p->outcome == WIRE_OUTCOME_PASSED ? "" : clip_text(&p->message),
                       .file = p->file,
                       .line = p->line,
                       .duration_ns = p->duration_ns});
}

/* A list of tests has ended: were there as many as were planned? */
static int tap_check_plan(struct tap *t, unsigned depth)
{
    struct tap_level *l = &t->levels[depth];
    char message[96];
    if (t->bailed || (l->planned && l->plan == l->ran) || (!l->planned && l->ran == 0))
        return 0;
    if (l->planned)
        snprintf(message, sizeof message, "planned %lu, ran %lu", l->plan, l->ran);
    else
        snprintf(message, sizeof message,
                 "ran %lu and ended without a plan: the program may have crashed", l->ran);
    if (depth > 0)
        t->levels[depth - 1].child_bad = true;
    return tap_add_error(t, depth, "(plan)", message);
}

/* Goes to the list at this depth: leaves subtests, whose plans must hold, or enters new ones. */
static int tap_go_to(struct tap *t, unsigned depth)
{
    int r = tap_flush(t);
    while (r >= 0 && t->depth > depth) {
        r = tap_check_plan(t, t->depth);
        t->levels[t->depth - 1].children += t->levels[t->depth].ran;
        t->levels[t->depth - 1].child_bad |= t->levels[t->depth].child_bad;
        tap_level_reset(&t->levels[t->depth--]);
    }
    while (t->depth < depth) {
        struct tap_level *outer = &t->levels[t->depth], *inner = &t->levels[++t->depth];
        inner->name = TAKE_PTR(outer->announced);
        if (!inner->name)
            inner->name = TAKE_PTR(inner->announced);
    }
    return r;
}

/* The document ends, and the next one begins. */
static int tap_restart(struct tap *t)
{
    int r = tap_go_to(t, 0);
    if (r >= 0)
        r = tap_check_plan(t, 0);
    tap_level_reset(&t->levels[0]);
    return r;
}

static int tap_take_plan(struct tap *t, unsigned depth, const char *line)
{
    int r = tap_go_to(t, depth);
    if (r >= 0 && depth == 0 && t->levels[0].planned)
        r = tap_restart(t);
    struct tap_level *l = &t->levels[depth];
    char *end;
    l->plan = strtoul(line + 3, &end, 10);
    l->planned = true;
    if (l->plan > PLAN_MAX)
        l->plan = PLAN_MAX;
    end += strspn(end, " #");
    if (r < 0 || l->plan > 0 || depth > 0 || strncasecmp(end, "skip", 4) != 0)
        return r;
    end += strspn(end, "SKIPskip:edED");
    return tap_add(t, 0,
                   &(struct report_test){.name = t->report->label ? "" : "(all tests)",
                                         .outcome = WIRE_OUTCOME_SKIPPED,
                                         .message = end + strspn(end, " ")});
}

static int tap_take_test(struct tap *t, unsigned depth, char *line)
{
    bool ok = line[0] == 'o';
    char *rest = line + (ok ? 2 : 6), *end;
    rest += strspn(rest, " \t");
    unsigned long number = strtoul(rest, &end, 10);
    bool numbered = isdigit((unsigned char)*rest) && (*end == 0 || isspace((unsigned char)*end));
    int r = tap_go_to(t, depth);
    struct tap_level *l = &t->levels[depth];
    if (r >= 0 && depth == 0 && l->planned && l->ran == l->plan && numbered && number == 1)
        r = tap_restart(t);
    if (r < 0)
        return r;
    l->ran++;
    report_set_string(&l->announced, NULL, 0);
    rest = numbered ? end : rest;
    rest += strspn(rest, " \t");
    if (rest[0] == '-' && isspace((unsigned char)rest[1]))
        rest += 2;
    clip_reset(&t->test.message);
    enum wire_outcome outcome = ok ? WIRE_OUTCOME_PASSED : WIRE_OUTCOME_FAILED;
    /* A directive begins with a # that is not escaped, with SKIP or TODO behind. */
    char *directive = strchr(rest, '#');
    for (; directive; directive = strchr(directive + 1, '#')) {
        const char *word = directive + 1 + strspn(directive + 1, " \t");
        bool escaped = directive > rest && directive[-1] == '\\';
        if (!escaped && (strncasecmp(word, "skip", 4) == 0 || strncasecmp(word, "todo", 4) == 0))
            break;
    }
    if (directive) {
        *directive++ = 0;
        directive += strspn(directive, " \t");
        bool todo = strncasecmp(directive, "todo", 4) == 0;
        outcome = todo && ok ? WIRE_OUTCOME_PASSED : WIRE_OUTCOME_SKIPPED;
        clip_add_str(&t->test.message, directive, "\n");
    }
    for (size_t n = strlen(rest); n > 0 && isspace((unsigned char)rest[n - 1]); n--)
        rest[n - 1] = 0;
    char *to = rest; /* \# and \\ stand for # and \ */
    for (const char *from = rest; *from; from++) {
        if (*from == '\\' && (from[1] == '#' || from[1] == '\\'))
            from++;
        *to++ = *from;
    }
    *to = 0;
    if (outcome == WIRE_OUTCOME_FAILED && depth > 0)
        t->levels[depth - 1].child_bad = true;
    /* The sum of a subtest only counts if its tests do not: when it failed and none of them did. */
    bool counted = l->children > 0 && (outcome != WIRE_OUTCOME_FAILED || l->child_bad);
    l->children = 0;
    l->child_bad = false;
    if (counted)
        return 0;
    char unnamed[32];
    snprintf(unnamed, sizeof unnamed, "%lu", l->ran);
    const char *name = *rest ? rest : unnamed;
    report_set_string(&t->test.name, name, strlen(name));
    report_set_string(&t->test.file, NULL, 0);
    t->test.line = 0;
    t->test.duration_ns = 0;
    t->test.outcome = outcome;
    t->test.depth = depth;
    t->test.there = true;
    return 0;
}

/* True if the line is of a YAML block. Of the YAML three scalars are understood; all of it is the
 * message. */
static bool tap_take_yaml(struct tap *t, const char *line, size_t indent)
{
    struct tap_test *p = &t->test;
    const char *text = line + indent;
    if (!t->yaml) {
        bool begins = p->there && strcmp(text, "---") == 0 && indent >= p->depth * INDENT + 1;
        t->yaml = begins ? indent : 0;
        return begins;
    }
    if (indent < t->yaml || strcmp(text, "...") == 0) {
        t->yaml = 0;
        return strcmp(text, "...") == 0;
    }
    line += t->yaml;
    const char *value = report_after(line, "duration_ms: ");
    if (value) {
        p->duration_ns = report_seconds(value) / 1000;
        return true;
    }
    if ((value = report_after(line, "file: "))) {
        value += strspn(value, "'\"");
        report_set_string(&p->file, value, strcspn(value, "'\""));
    } else if ((value = report_after(line, "line: "))) {
        p->line = strtoul(value, NULL, 10);
    }
    clip_add_str(&p->message, line, "\n");
    return true;
}

static bool tap_is_test(const char *s)
{
    const char *negated = report_after(s, "not ");
    const char *rest = report_after(negated ? negated : s, "ok");
    return rest && (*rest == 0 || isspace((unsigned char)*rest));
}

static bool tap_is_plan(const char *s)
{
    return report_after(s, "1..") && isdigit((unsigned char)s[3]);
}

static int tap_take_line(void *data, char *line, size_t n)
{
    struct tap *t = data;
    size_t indent = strspn(line, " ");
    if (tap_take_yaml(t, line, indent) || indent / INDENT >= REPORT_NEST_MAX || indent % INDENT)
        return 0;
    unsigned depth = (unsigned)(indent / INDENT);
    char *text = line + indent;
    if (tap_is_plan(text))
        return tap_take_plan(t, depth, text);
    if (tap_is_test(text))
        return tap_take_test(t, depth, text);
    const char *subtest = report_after(text, "# Subtest: ");
    if (subtest) {
        report_set_string(&t->levels[depth].announced, subtest, strlen(subtest));
    } else if (*text == '#' && t->test.there) {
        clip_add_str(&t->test.message, text + 1 + (text[1] == ' '), "\n");
    } else if (strncasecmp(text, "Bail out!", 9) == 0) {
        const char *why = text + 9 + strspn(text + 9, " ");
        int r = tap_flush(t);
        t->bailed = true;
        return r < 0 ? r : tap_add_error(t, 0, "(bail out)", *why ? why : "Bail out!");
    } else if (depth == 0 && report_after(text, "TAP version ") &&
               (t->levels[0].planned || t->levels[0].ran)) {
        return tap_restart(t);
    }
    return 0;
}

static int tap_parse(struct report *r, char *text, size_t n, struct error *err)
{
    struct tap t = {.report = r, .test.message = CLIP_INIT};
    int result = report_each_line(text, n, tap_take_line, &t);
    if (result >= 0)
        result = tap_restart(&t);
    for (size_t i = 0; i < REPORT_NEST_MAX; i++)
        tap_level_reset(&t.levels[i]);
    free(t.test.name);
    free(t.test.file);
    clip_free(&t.test.message);
    return result;
}

int tap_parse_text(struct report *r, const char *text)
{
    _cleanup_free_ char *copy = strdup(text);
    return copy ? tap_parse(r, copy, strlen(copy), NULL) : -ENOMEM;
}

bool tap_looks_like(const char *text)
{
    bool plan = false, test = false;
    while (*text && !(plan && test)) {
        plan |= tap_is_plan(text) || report_after(text, "TAP version ");
        test |= tap_is_test(text);
        text += strcspn(text, "\n");
        text += *text != 0;
    }
    return plan && test;
}

static bool tap_is_line(const char *line)
{
    const char *negated = report_after(line, "not ");
    const char *rest = report_after(negated ? negated : line, "ok ");
    return report_after(line, "TAP version ") || tap_is_plan(line) ||
           (rest && isdigit((unsigned char)*rest));
}

const struct report_format REPORT_TAP = {.is_line = tap_is_line, .parse = tap_parse};
