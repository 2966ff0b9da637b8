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
#include "runner.h"
#include "session.h"
#include "banned.h"

#define EDITED_MAX  (256u << 10)
#define PACKAGE_MAX (1u << 20)
#define RUNNERS_MAX 4
#define PYTEST_HOOK "--junitxml=%D/pytest.xml -o junit_family=xunit1"
#define NODE_HOOK                                                                                  \
    "--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "               \
    "--test-reporter-destination=%D/node.xml"

static void plan_forget_reports(struct tests_plan *p)
{
    for (size_t i = 0; i < p->n_reports; i++)
        free(p->reports[i].path);
    p->n_reports = 0;
}

void tests_plan_free(struct tests_plan *p)
{
    free(p->command);
    free(p->edited);
    free(p->target);
    buf_free(&p->env);
    buf_free(&p->after);
    plan_forget_reports(p);
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

/* Places where runners leave reports on their own, and last of all what was printed. */
static int plan_add_usual_places(struct tests_plan *p)
{
    static const struct {
        const char *path;
        enum wire_report_format format;
    } PLACES[] = {
        {"**/*.trs", WIRE_REPORT_AUTOMAKE},     {"**/TEST-*.xml", WIRE_REPORT_JUNIT},
        {"**/*junit*.xml", WIRE_REPORT_JUNIT},  {"**/meson-logs/testlog.json", WIRE_REPORT_MESON},
        {"%D/" TESTS_OUTPUT, WIRE_REPORT_AUTO},
    };
    p->keep_output = true;
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        int r = plan_add_report(p, PLACES[i].path, PLACES[i].format, TESTS_SEARCHED);
        if (r < 0)
            return r;
    }
    return 0;
}

static void plan_export(struct tests_plan *p, const char *name, const char *value, bool keep_old)
{
    buf_printf(&p->env, "export %s=\"", name);
    if (keep_old)
        buf_printf(&p->env, "${%s:+$%s }", name, name);
    plan_expand(p, value, 0, &p->env);
    buf_append_str(&p->env, "\"\n");
}

/* Reaches runners that the command starts somewhere beneath. An old node refuses to start with
 * options it does not know: it is asked first. */
static int plan_hook(struct tests_plan *p, bool node)
{
    plan_export(p, "PYTEST_ADDOPTS", PYTEST_HOOK, true);
    plan_export(p, "PERL_TEST_HARNESS_DUMP_TAP", "%D/tap", false);
    plan_export(p, "GTEST_OUTPUT", "xml:%D/gtest/", false);
    if (node) {
        buf_append_str(&p->env,
                       "if NODE_OPTIONS=--test-reporter=spec node -e 0 >/dev/null 2>&1; then\n");
        plan_export(p, "NODE_OPTIONS", NODE_HOOK, true);
        buf_append_str(&p->env, "fi\n: \"${CI:=1}\"\nexport CI\n");
    }
    int r = plan_add_report(p, "%D/pytest.xml", WIRE_REPORT_JUNIT, TESTS_OPTIONAL);
    if (r >= 0)
        r = plan_add_report(p, "%D/tap", WIRE_REPORT_TAP, TESTS_OPTIONAL);
    if (r >= 0)
        r = plan_add_report(p, "%D/gtest", WIRE_REPORT_JUNIT, TESTS_OPTIONAL);
    if (r >= 0 && node)
        r = plan_add_report(p, "%D/node.xml", WIRE_REPORT_JUNIT, TESTS_OPTIONAL);
    return r < 0 ? r : plan_add_usual_places(p);
}

/* Text that takes the place of a part of the command. */
struct edit {
    size_t begin, end;
    struct buf text;
};

struct edits {
    struct edit items[RUNNERS_MAX];
    size_t count;
};

/* Meson writes its log into the build folder: -C DIR, or wherever the command has gone before. */
static int plan_add_meson(struct tests_plan *p, const struct shell_line *l,
                          const struct shell_command *command)
{
    char path[4096];
    for (size_t i = command->first; i + 1 < command->first + command->count; i++) {
        if (strcmp(l->words[i].text, "-C") != 0)
            continue;
        const char *dir = l->words[i + 1].text;
        snprintf(path, sizeof path, "%s/meson-logs/%s", dir, p->id);
        buf_append_str(&p->after, "rm -f ");
        shell_quote(&p->after, path);
        buf_append_str(&p->after, ".*\n");
        snprintf(path, sizeof path, "%s/meson-logs/%s.json", dir, p->id);
        return plan_add_path(p, path, WIRE_REPORT_MESON, TESTS_REQUIRED);
    }
    return plan_add_report(p, "**/meson-logs/%I.json", WIRE_REPORT_MESON, TESTS_REQUIRED);
}

/* What make is told to make. */
static char *plan_make_target(const struct shell_line *l, const struct shell_command *command)
{
    const char *target = NULL;
    for (size_t i = command->first + 1; i < command->first + command->count; i++) {
        const char *word = l->words[i].text;
        if (strcmp(word, "-C") == 0 || strcmp(word, "-f") == 0)
            i++;
        else if (word[0] != '-' && !strchr(word, '='))
            target = word;
    }
    char *name = NULL;
    return asprintf(&name, "make%s%s", target ? " " : "", target ? target : "") < 0 ? NULL : name;
}

/* The text of a script of package.json; empty if it has none. */
static int plan_read_script(struct tool_call *c, const struct tests_plan *p, const char *name,
                            struct buf *script)
{
    _cleanup_buf_ struct buf text = BUF_INIT(PACKAGE_MAX);
    struct error ignored = {0};
    if (tests_read_file(c, p->cwd, "package.json", &text, &ignored) < 0)
        return 0;
    json_t *package = json_loadb((const char *)text.data, text.len, 0, NULL);
    const char *found = json_get_string(json_object_get(package, "scripts"), name);
    if (found && strlen(found) < EDITED_MAX / 2)
        buf_append_str(script, found);
    json_decref(package);
    return buf_cstr(script) ? 0 : -ENOMEM;
}

static struct edit *plan_add_edit(struct edits *e, size_t begin, size_t end)
{
    struct edit *edit = &e->items[e->count++];
    *edit = (struct edit){.begin = begin, .end = end, .text = BUF_INIT(EDITED_MAX)};
    return edit;
}

/* A script of package.json. Where its last command is a runner that takes options anywhere, they
 * are passed on through npm; else the environment must do. */
static int plan_script(struct tool_call *c, struct tests_plan *p, const struct shell_line *l,
                       const struct shell_command *command, size_t behind, struct edits *e)
{
    _cleanup_buf_ struct buf script = BUF_INIT(EDITED_MAX);
    _cleanup_shell_line_ struct shell_line *inner = NULL;
    const char *verb = l->words[behind - 1].text, *manager = l->words[command->first].text;
    bool named = strncmp(verb, "run", 3) == 0,
         npm = strstr(manager, "yarn") == NULL && strstr(manager, "pnpm") == NULL;
    const char *name = !named                                     ? "test"
                       : behind < command->first + command->count ? l->words[behind].text
                                                                  : "";
    int r = plan_read_script(c, p, name, &script);
    if (r < 0 || !script.len || shell_line_parse((const char *)script.data, &inner) < 0 ||
        inner->n_commands == 0)
        return r < 0 ? r : plan_hook(p, true);
    size_t inner_behind;
    const struct runner *runner =
        runner_find(inner, &inner->commands[inner->n_commands - 1], &inner_behind);
    if (runner)
        p->framework = runner->framework;
    if (!runner || !(runner->flags & RUNNER_AT_END))
        return plan_hook(p, true);
    bool dashes = false;
    for (size_t i = command->first; i < command->first + command->count; i++)
        dashes |= strcmp(l->words[i].text, "--") == 0;
    struct edit *edit = plan_add_edit(e, command->end, command->end);
    buf_append_str(&edit->text, npm && !dashes ? " -- " : " ");
    plan_expand(p, runner->options, p->n_reports, &edit->text);
    buf_append_str(&p->env, ": \"${CI:=1}\"\nexport CI\n");
    return plan_add_report(p, runner->report, runner->format, TESTS_REQUIRED);
}

static bool command_has_word(const struct shell_line *l, const struct shell_command *command,
                             const char *word)
{
    for (size_t i = command->first; i < command->first + command->count; i++)
        if (strcmp(l->words[i].text, word) == 0)
            return true;
    return false;
}

/* Puts the runner's options in. */
static void plan_edit_command(struct tests_plan *p, const struct shell_line *l,
                              const struct shell_command *command, const struct runner *runner,
                              size_t behind, struct edits *e)
{
    if (!runner->options ||
        (runner->flags & RUNNER_SPLIT && command_has_word(l, command, runner->options)))
        return;
    size_t last = behind - 1;
    size_t at = runner->flags & RUNNER_AT_END ? l->words[command->first + command->count - 1].end
                                              : l->words[last].end;
    size_t begin = runner->replace ? l->words[behind - runner->replace].begin : at;
    struct edit *edit = plan_add_edit(e, begin, at);
    buf_append_str(&edit->text, runner->replace ? "" : " ");
    plan_expand(p, runner->options, p->n_reports, &edit->text);
}

static int plan_runner(struct tool_call *c, struct tests_plan *p, const struct shell_line *l,
                       const struct shell_command *command, const struct runner *runner,
                       size_t behind, struct edits *e)
{
    p->piped |= command->piped;
    p->unittest |= strcmp(runner->framework, "unittest") == 0;
    p->nextest |= strcmp(runner->framework, "nextest") == 0;
    if (runner->flags & RUNNER_SCRIPT)
        return plan_script(c, p, l, command, behind, e);
    if (runner->flags & RUNNER_MAKE) {
        p->by_exit = true;
        p->target = plan_make_target(l, command);
        return p->target ? plan_hook(p, tests_exists(c, p->cwd, "package.json")) : -ENOMEM;
    }
    if (runner->flags & RUNNER_LEAVES)
        return plan_add_report(p, "**/TEST-*.xml", runner->format, TESTS_REQUIRED);
    plan_edit_command(p, l, command, runner, behind, e);
    if (runner->flags & RUNNER_STDOUT) {
        p->keep_output = true;
        p->split = runner->flags & RUNNER_SPLIT;
    }
    if (runner->flags & RUNNER_PROVE)
        plan_export(p, "PERL_TEST_HARNESS_DUMP_TAP", "%D/tap", false);
    if (runner->flags & RUNNER_MESON)
        return plan_add_meson(p, l, command);
    return plan_add_report(p, runner->report, runner->format, TESTS_REQUIRED);
}

/* All runners of the command. One that hides others (make, npm) is the last that is looked at. */
static int plan_runners(struct tool_call *c, struct tests_plan *p, const struct shell_line *l,
                        struct edits *e)
{
    for (size_t i = 0; i < l->n_commands && e->count < RUNNERS_MAX; i++) {
        size_t behind;
        const struct runner *runner = runner_find(l, &l->commands[i], &behind);
        bool hides = runner && runner->flags & (RUNNER_SCRIPT | RUNNER_MAKE | RUNNER_LEAVES);
        if (!runner || (hides && p->framework))
            continue;
        if (!p->framework)
            p->framework = runner->framework;
        else if (strcmp(p->framework, runner->framework) != 0)
            snprintf(p->also + strlen(p->also), sizeof p->also - strlen(p->also), "%s%s",
                     *p->also ? ", " : "", runner->framework);
        int r = plan_runner(c, p, l, &l->commands[i], runner, behind, e);
        if (r < 0 || hides)
            return r;
    }
    return 0;
}

static int plan_apply_edits(struct tests_plan *p, struct edits *e)
{
    _cleanup_buf_ struct buf out = BUF_INIT(EDITED_MAX);
    size_t at = 0;
    for (size_t i = 0; i < e->count; i++) {
        buf_append(&out, p->command + at, e->items[i].begin - at);
        buf_append(&out, e->items[i].text.data, e->items[i].text.len);
        at = e->items[i].end;
    }
    buf_append_str(&out, p->command + at);
    p->edited = buf_cstr(&out) ? strdup((const char *)out.data) : NULL;
    return p->edited ? 0 : -ENOMEM;
}

static int plan_name_run(struct tool_call *c, struct tests_plan *p)
{
    uint8_t random[10];
    uint64_t serial = tool_session_serial_now(c->session);
    size_t at = (size_t)snprintf(p->id, sizeof p->id, "hutch-");
    if (serial)
        snprintf(p->id + at, sizeof p->id - at, "%" PRIu64, serial);
    else if (getrandom(random, sizeof random, 0) != sizeof random)
        return -errno;
    for (size_t i = 0; !serial && i < sizeof random; i++)
        at += (size_t)snprintf(p->id + at, sizeof p->id - at, "%02x", random[i]);
    snprintf(p->dir, sizeof p->dir, "/tmp/.hutch/%s", p->id);
    return 0;
}

/* No runner was found in the command, or the caller knows better what it gives. */
static int plan_otherwise(struct tool_call *c, struct tests_plan *p, const char *framework)
{
    const struct runner *runner = framework ? runner_named(framework) : NULL;
    bool node = strstr(p->command, "node") || strstr(p->command, "npx") ||
                tests_exists(c, p->cwd, "package.json");
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
    return plan_hook(p, node);
}

/* Does the caller force something else than what was found? */
static bool plan_is_overruled(const struct tests_plan *p, const char *framework)
{
    return framework && (!p->framework || strcmp(p->framework, framework) != 0) &&
           !(p->framework && strcmp(framework, "npm") == 0);
}

static void plan_forget(struct tests_plan *p)
{
    plan_forget_reports(p);
    p->framework = NULL;
    p->keep_output = p->split = p->by_exit = p->unittest = p->nextest = false;
    p->env.len = p->after.len = 0;
    free(p->target);
    p->target = NULL;
}

int tests_plan_make(struct tool_call *c, struct tests_plan *p, const char *command,
                    const char *framework, const char *report, struct error *err)
{
    _cleanup_shell_line_ struct shell_line *line = NULL;
    struct edits edits = {0};
    p->env = BUF_INIT(EDITED_MAX);
    p->after = BUF_INIT(EDITED_MAX);
    p->command = strdup(command);
    int r = p->command ? plan_name_run(c, p) : -ENOMEM;
    if (r >= 0 && report) {
        p->framework = framework ? framework : "command";
        p->named = true;
        r = plan_add_path(p, report, WIRE_REPORT_AUTO, TESTS_REQUIRED);
    } else if (r >= 0 && shell_line_parse(command, &line) >= 0) {
        r = plan_runners(c, p, line, &edits);
    }
    if (r >= 0 && !report && plan_is_overruled(p, framework)) {
        plan_forget(p);
        edits.count = 0;
    }
    if (r >= 0 && !p->framework)
        r = plan_otherwise(c, p, framework);
    if (r >= 0)
        r = plan_apply_edits(p, &edits);
    for (size_t i = 0; i < RUNNERS_MAX; i++)
        buf_free(&edits.items[i].text);
    return r < 0 && !(err && err->code) ? error_errno(err, -r, "cannot prepare the command") : r;
}
