/*
 * From a command to one that writes a report: options are put behind the runners that are found in
 * it, and variables of the environment reach runners somewhere beneath.
 *
 * In templates of options and paths, %D is the run's folder, %N the number of the report and %I the
 * run's name.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "run_tests.h"
#include "session.h"
#include "banned.h"

#define EDITED_MAX  (256u << 10)
#define PACKAGE_MAX (1u << 20)
#define RUNNERS_MAX 4
#define PYTEST_HOOK "--junitxml=%D/pytest.xml -o junit_family=xunit1"
#define NODE_HOOK                                                                                  \
    "--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "               \
    "--test-reporter-destination=%D/node.xml"

/* A plan while it is made. */
struct planning {
    struct tool_call *call;
    const char *here; /* the project's folder */
    struct tests_plan *plan;
    struct shell_line *line;
    struct edit {
        size_t begin, end; /* the part of the command that the text replaces */
        struct buf text;
    } edits[RUNNERS_MAX];
    size_t n_edits;
};

/* A runner that was found in the command. */
struct found_runner {
    const struct runner *runner;
    const struct shell_command *command;
    size_t behind; /* the word behind those that it was recognised by */
};

void tests_plan_free(struct tests_plan *p)
{
    for (size_t i = 0; i < p->n_reports; i++)
        free(p->reports[i].path);
    free(p->command);
    free(p->edited);
    free(p->target);
    buf_free(&p->env);
    buf_free(&p->after);
}

/* Appends the template with the run's folder, name and the runner's number put in. */
static void plan_expand(const struct tests_plan *p, const char *form, size_t number,
                        struct buf *out)
{
    for (; *form; form++) {
        if (form[0] != '%') {
            buf_append(out, form, 1);
            continue;
        }
        form++;
        if (*form == 'D')
            buf_append_str(out, p->dir);
        else if (*form == 'I')
            buf_append_str(out, p->id);
        else
            buf_printf(out, "%zu", number);
    }
}

static int plan_add_path(struct tests_plan *p, const char *path, enum wire_report_format format,
                         enum tests_need need)
{
    for (size_t i = 0; i < p->n_reports; i++)
        if (strcmp(p->reports[i].path, path) == 0)
            return 0;
    if (p->n_reports == TESTS_REPORTS_MAX)
        return -ENOBUFS;
    char *text = strdup(path);
    if (!text)
        return -ENOMEM;
    p->reports[p->n_reports++] =
        (struct tests_report){.path = text, .format = format, .need = need};
    return 0;
}

static int plan_add_report(struct tests_plan *p, const char *path, enum wire_report_format format,
                           enum tests_need need)
{
    _cleanup_buf_ struct buf full = BUF_INIT(8192);
    plan_expand(p, path, p->n_reports, &full);
    const char *text = buf_cstr(&full);
    return text ? plan_add_path(p, text, format, need) : -ENOMEM;
}

static void plan_export(struct tests_plan *p, const char *name, const char *value, bool keep_old)
{
    buf_printf(&p->env, "export %s=\"", name);
    if (keep_old)
        buf_printf(&p->env, "${%s:+$%s }", name, name);
    plan_expand(p, value, 0, &p->env);
    buf_append_str(&p->env, "\"\n");
}

/* Reaches runners that the command starts somewhere beneath; then the places where runners leave
 * reports on their own, and last of all what was printed. */
static int plan_hook(struct tests_plan *p, bool node)
{
    static const struct {
        const char *path;
        enum wire_report_format format;
        enum tests_need need;
    } REPORTS[] = {
        {"%D/pytest.xml", WIRE_REPORT_JUNIT, TESTS_OPTIONAL},
        {"%D/tap", WIRE_REPORT_TAP, TESTS_OPTIONAL},
        {"%D/gtest", WIRE_REPORT_JUNIT, TESTS_OPTIONAL},
        {"%D/node.xml", WIRE_REPORT_JUNIT, TESTS_OPTIONAL},
        {"**/*.trs", WIRE_REPORT_AUTOMAKE, TESTS_SEARCHED},
        {"**/TEST-*.xml", WIRE_REPORT_JUNIT, TESTS_SEARCHED},
        {"**/*junit*.xml", WIRE_REPORT_JUNIT, TESTS_SEARCHED},
        {"**/meson-logs/testlog.json", WIRE_REPORT_MESON, TESTS_SEARCHED},
        {"%D/" TESTS_OUTPUT, WIRE_REPORT_AUTO, TESTS_SEARCHED},
    };
    plan_export(p, "PYTEST_ADDOPTS", PYTEST_HOOK, true);
    plan_export(p, "PERL_TEST_HARNESS_DUMP_TAP", "%D/tap", false);
    plan_export(p, "GTEST_OUTPUT", "xml:%D/gtest/", false);
    if (node) { /* an old node refuses to start with options it does not know: it is asked first */
        buf_append_str(&p->env,
                       "if NODE_OPTIONS=--test-reporter=spec node -e 0 >/dev/null 2>&1; then\n");
        plan_export(p, "NODE_OPTIONS", NODE_HOOK, true);
        buf_append_str(&p->env, "fi\n: \"${CI:=1}\"\nexport CI\n");
    }
    p->keep_output = true;
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(REPORTS); i++)
        if (node || strcmp(REPORTS[i].path, "%D/node.xml") != 0)
            r = plan_add_report(p, REPORTS[i].path, REPORTS[i].format, REPORTS[i].need);
    return r;
}

/* Meson writes its log into the build folder: -C DIR, or wherever the command has gone before. */
static int plan_meson(struct planning *g, const struct found_runner *f)
{
    struct tests_plan *p = g->plan;
    const struct shell_word *words = g->line->words;
    char path[4096];
    for (size_t i = f->command->first; i + 1 < f->command->first + f->command->count; i++) {
        if (strcmp(words[i].text, "-C") != 0)
            continue;
        const char *dir = words[i + 1].text;
        snprintf(path, sizeof path, "%s/meson-logs/%s", dir, p->id);
        buf_append_str(&p->after, "rm -f ");
        shell_quote(&p->after, path);
        buf_append_str(&p->after, ".*\n");
        snprintf(path, sizeof path, "%s/meson-logs/%s.json", dir, p->id);
        return plan_add_path(p, path, WIRE_REPORT_MESON, TESTS_REQUIRED);
    }
    return plan_add_report(p, "**/meson-logs/%I.json", WIRE_REPORT_MESON, TESTS_REQUIRED);
}

/* make may run anything; without any report, its exit status is the result of its target. */
static int plan_make(struct planning *g, const struct found_runner *f)
{
    const char *target = NULL;
    for (size_t i = f->command->first + 1; i < f->command->first + f->command->count; i++) {
        const char *word = g->line->words[i].text;
        if (strcmp(word, "-C") == 0 || strcmp(word, "-f") == 0)
            i++;
        else if (word[0] != '-' && !strchr(word, '='))
            target = word;
    }
    g->plan->by_exit = true;
    g->plan->target = str_printf("make%s%s", target ? " " : "", target ? target : "");
    return g->plan->target ? plan_hook(g->plan, tests_exists(g->call, g->here, "package.json"))
                           : -ENOMEM;
}

static struct buf *plan_add_edit(struct planning *g, size_t begin, size_t end)
{
    struct edit *edit = &g->edits[g->n_edits++];
    *edit = (struct edit){.begin = begin, .end = end, .text = BUF_INIT(EDITED_MAX)};
    return &edit->text;
}

/* A script of package.json. Where its last command is a runner that takes options anywhere, they
 * are passed on through npm; else the environment must do. */
static int plan_script(struct planning *g, const struct found_runner *f)
{
    struct tests_plan *p = g->plan;
    const struct shell_word *words = g->line->words;
    _cleanup_buf_ struct buf text = BUF_INIT(PACKAGE_MAX);
    _cleanup_shell_line_ struct shell_line *inner = NULL;
    size_t end = f->command->first + f->command->count, behind;
    const char *manager = words[f->command->first].text;
    bool named = strncmp(words[f->behind - 1].text, "run", 3) == 0;
    const char *name = !named ? "test" : f->behind < end ? words[f->behind].text : "";
    if (tests_read_file(g->call, g->here, "package.json", &text, NULL) < 0)
        return plan_hook(p, true);
    _cleanup_json_ json_t *package = json_loadb((const char *)text.data, text.len, 0, NULL);
    const char *script = json_get_string(json_object_get(package, "scripts"), name);
    if (!script || !*script || strlen(script) >= EDITED_MAX / 2 ||
        shell_line_parse(script, &inner) < 0 || inner->n_commands == 0)
        return plan_hook(p, true);
    const struct runner *runner =
        runner_find(inner, &inner->commands[inner->n_commands - 1], &behind);
    if (runner)
        p->framework = runner->framework;
    if (!runner || !(runner->flags & RUNNER_AT_END))
        return plan_hook(p, true);
    bool dashes = strstr(manager, "yarn") || strstr(manager, "pnpm");
    for (size_t i = f->command->first; i < end; i++)
        dashes |= strcmp(words[i].text, "--") == 0;
    struct buf *options = plan_add_edit(g, f->command->end, f->command->end);
    buf_append_str(options, dashes ? " " : " -- ");
    plan_expand(p, runner->options, p->n_reports, options);
    buf_append_str(&p->env, ": \"${CI:=1}\"\nexport CI\n");
    return plan_add_report(p, runner->report, runner->format, TESTS_REQUIRED);
}

/* A runner of the table: its options are put in, and its report is looked for. */
static int plan_runner(struct planning *g, const struct found_runner *f)
{
    struct tests_plan *p = g->plan;
    const struct runner *r = f->runner;
    const struct shell_word *words = g->line->words;
    size_t end = f->command->first + f->command->count;
    p->piped |= f->command->piped;
    p->unittest |= strcmp(r->framework, "unittest") == 0;
    p->nextest |= strcmp(r->framework, "nextest") == 0;
    if (r->flags & RUNNER_SCRIPT)
        return plan_script(g, f);
    if (r->flags & RUNNER_MAKE)
        return plan_make(g, f);
    if (r->flags & RUNNER_LEAVES)
        return plan_add_report(p, "**/TEST-*.xml", r->format, TESTS_REQUIRED);
    bool has_options = !r->options;
    for (size_t i = f->command->first; r->options && r->flags & RUNNER_SPLIT && i < end; i++)
        has_options |= strcmp(words[i].text, r->options) == 0;
    if (!has_options) {
        size_t at = words[r->flags & RUNNER_AT_END ? end - 1 : f->behind - 1].end;
        struct buf *text =
            plan_add_edit(g, r->replace ? words[f->behind - r->replace].begin : at, at);
        buf_append_str(text, r->replace ? "" : " ");
        plan_expand(p, r->options, p->n_reports, text);
    }
    if (r->flags & RUNNER_STDOUT) {
        p->keep_output = true;
        p->split = r->flags & RUNNER_SPLIT;
    }
    if (r->flags & RUNNER_PROVE)
        plan_export(p, "PERL_TEST_HARNESS_DUMP_TAP", "%D/tap", false);
    return r->flags & RUNNER_MESON ? plan_meson(g, f)
                                   : plan_add_report(p, r->report, r->format, TESTS_REQUIRED);
}

/* All runners of the command. One that hides others (make, npm) is the last that is looked at. */
static int plan_runners(struct planning *g)
{
    struct tests_plan *p = g->plan;
    for (size_t i = 0; i < g->line->n_commands && g->n_edits < RUNNERS_MAX; i++) {
        struct found_runner f = {.command = &g->line->commands[i]};
        f.runner = runner_find(g->line, f.command, &f.behind);
        bool hides = f.runner && f.runner->flags & (RUNNER_SCRIPT | RUNNER_MAKE | RUNNER_LEAVES);
        if (!f.runner || (hides && p->framework))
            continue;
        size_t n = strlen(p->also);
        if (!p->framework)
            p->framework = f.runner->framework;
        else if (strcmp(p->framework, f.runner->framework) != 0)
            snprintf(p->also + n, sizeof p->also - n, "%s%s", n ? ", " : "", f.runner->framework);
        int r = plan_runner(g, &f);
        if (r < 0 || hides)
            return r;
    }
    return 0;
}

/* No runner was found in the command, or the caller knows better what it gives. */
static int plan_otherwise(struct planning *g, const char *framework)
{
    struct tests_plan *p = g->plan;
    const struct runner *runner = framework ? runner_named(framework) : NULL;
    p->framework = framework ? framework : "command";
    if (framework && strcmp(framework, "exit_code") == 0) {
        p->by_exit = true;
        p->target = strdup(p->command);
        return p->target ? 0 : -ENOMEM;
    }
    bool tap = framework && strcmp(framework, "tap") == 0;
    if (tap || (runner && runner->flags & RUNNER_STDOUT)) {
        p->keep_output = true;
        p->split = runner && runner->flags & RUNNER_SPLIT;
        return plan_add_report(p, "%D/" TESTS_OUTPUT, tap ? WIRE_REPORT_TAP : runner->format,
                               TESTS_REQUIRED);
    }
    return plan_hook(p, strstr(p->command, "node") || strstr(p->command, "npx") ||
                            tests_exists(g->call, g->here, "package.json"));
}

/* A name that no other run has, and a new plan of that name. */
static int plan_begin(struct planning *g, const char *command)
{
    struct tests_plan *p = g->plan;
    uint8_t random[10];
    uint64_t serial = tool_session_serial_now(g->call->session);
    *p = (struct tests_plan){.env = BUF_INIT(EDITED_MAX), .after = BUF_INIT(EDITED_MAX)};
    size_t at = (size_t)snprintf(p->id, sizeof p->id, "hutch-");
    if (serial)
        snprintf(p->id + at, sizeof p->id - at, "%" PRIu64, serial);
    else if (getrandom(random, sizeof random, 0) != sizeof random)
        return -errno;
    for (size_t i = 0; !serial && i < sizeof random; i++)
        at += (size_t)snprintf(p->id + at, sizeof p->id - at, "%02x", random[i]);
    snprintf(p->dir, sizeof p->dir, "/tmp/.hutch/%s", p->id);
    p->command = strdup(command);
    return p->command ? 0 : -ENOMEM;
}

int tests_plan_make(struct tool_call *c, struct tests_plan *p, const char *here,
                    const char *command, const char *framework, const char *report,
                    struct error *err)
{
    struct planning g = {.call = c, .here = here, .plan = p};
    int r = plan_begin(&g, command);
    if (r >= 0 && report) {
        p->framework = framework ? framework : "command";
        p->named = true;
        r = plan_add_path(p, report, WIRE_REPORT_AUTO, TESTS_REQUIRED);
    } else if (r >= 0 && shell_line_parse(command, &g.line) >= 0) {
        r = plan_runners(&g);
        /* Does the caller force something else than what was found? */
        const char *found = p->framework;
        if (r >= 0 && framework && found && strcmp(found, framework) != 0 &&
            strcmp(framework, "npm") != 0) {
            bool piped = p->piped;
            tests_plan_free(p);
            r = plan_begin(&g, command);
            p->piped = piped;
            for (; g.n_edits; g.n_edits--)
                buf_free(&g.edits[g.n_edits - 1].text);
        }
    }
    if (r >= 0 && !p->framework)
        r = plan_otherwise(&g, framework);

    _cleanup_buf_ struct buf out = BUF_INIT(EDITED_MAX);
    size_t at = 0;
    for (size_t i = 0; i < g.n_edits; i++) {
        buf_append(&out, command + at, g.edits[i].begin - at);
        buf_append(&out, g.edits[i].text.data, g.edits[i].text.len);
        at = g.edits[i].end;
        buf_free(&g.edits[i].text);
    }
    buf_append_str(&out, command + at);
    p->edited = buf_cstr(&out) ? strdup((const char *)out.data) : NULL;
    shell_line_free(g.line);
    if (r >= 0 && !p->edited)
        r = -ENOMEM;
    return r < 0 ? error_errno(err, -r, "cannot prepare the command") : 0;
}
