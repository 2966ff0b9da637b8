/* The tests of a JUnit report: each runner has a way of its own to say what is meant. */
#include <string.h>

#include "junit.h"
#include "banned.h"

#define SUMMARY_LOOK 300u

/* CTest counts a test that it could not run as failed, but writes <skipped>; those it was told to
 * skip say so. */
static bool could_not_run(const struct junit *j)
{
    return j->outcome == WIRE_OUTCOME_SKIPPED && j->status && strcmp(j->status, "notrun") == 0 &&
           j->summary && strncmp(j->summary, "SKIP_", 5) != 0;
}

static bool is_one_of(const char *s, const char *a, const char *b, const char *c)
{
    return s && (strcmp(s, a) == 0 || strcmp(s, b) == 0 || strcmp(s, c) == 0);
}

enum wire_outcome junit_outcome(const struct junit *j)
{
    if (j->todo)
        return WIRE_OUTCOME_SKIPPED;
    if (could_not_run(j))
        return WIRE_OUTCOME_ERROR;
    if (j->outcome)
        return j->outcome;
    if (is_one_of(j->status, "notrun", "disabled", "skipped") ||
        is_one_of(j->result, "skipped", "suppressed", "disabled"))
        return WIRE_OUTCOME_SKIPPED;
    if (is_one_of(j->status, "fail", "failed", "failure"))
        return WIRE_OUTCOME_FAILED;
    return is_one_of(j->status, "error", "timeout", "crashed") ? WIRE_OUTCOME_ERROR
                                                               : WIRE_OUTCOME_PASSED;
}

/* pytest's own way to write a test: tests/test_a.py::TestX::test_y. */
static bool put_node_id(const struct junit *j, struct clip *name)
{
    size_t n = j->file ? strlen(j->file) : 0;
    if (!j->pytest || n < 4 || strcmp(j->file + n - 3, ".py") != 0 || !j->class)
        return false;
    n -= 3;
    for (size_t i = 0; i < n; i++)
        if (j->class[i] != (j->file[i] == '/' ? '.' : j->file[i]))
            return false;
    clip_add_str(name, j->file);
    const char *rest = j->class[n] == '.' ? j->class + n + 1 : "";
    while (*rest) {
        size_t part = strcspn(rest, ".");
        clip_add_str(name, "::");
        clip_add(name, rest, part);
        rest += part + (rest[part] != 0);
    }
    clip_add_str(name, "::");
    clip_add_str(name, j->name);
    return true;
}

/* The class tells tests of one name apart; where there is none, or node's meaningless one, the
 * suites do. */
void junit_name(const struct junit *j, struct clip *name)
{
    if (!j->name || put_node_id(j, name)) {
        clip_add_str(name, j->name ? "" : "(no name)");
        return;
    }
    bool class = j->class && *j->class && strcmp(j->class, "test") != 0;
    if (class && strncmp(j->name, j->class, strlen(j->class)) != 0) {
        clip_add_str(name, j->class);
        clip_add_str(name, strstr(j->class, "::") ? "::" : strchr(j->class, '/') ? " > " : ".");
    }
    for (unsigned i = 0; !class && i < j->n_suites; i++) {
        if (!*j->suites[i] || strcmp(j->suites[i], j->name) == 0)
            continue;
        clip_add_str(name, j->suites[i]);
        clip_add_str(name, " > ");
    }
    clip_add_str(name, j->name);
}

/* What the failure says: its summary, unless the body begins with it, then the body. A failure
 * without a word has what the test printed. */
void junit_message(struct junit *j, enum wire_outcome outcome, struct clip *message)
{
    const char *body = clip_text(&j->body), *summary = j->summary ? j->summary : "";
    size_t first = strcspn(summary, "\n"), look = strnlen(body, SUMMARY_LOOK);
    bool empty = body[strspn(body, " \t\r\n")] == 0;
    if (outcome == WIRE_OUTCOME_PASSED) {
        clip_add_str(message, j->flaky ? "flaky: failed first, passed when it was run again" : "");
        return;
    }
    if (*summary && (first > look || !memmem(body, look, summary, first))) {
        clip_add_str(message, summary);
        clip_add_str(message, "\n");
    }
    clip_add_str(message, body);
    if (empty && (outcome != WIRE_OUTCOME_SKIPPED || !*summary))
        clip_add_str(message, clip_text(&j->output));
}
