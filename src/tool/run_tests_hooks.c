/* What a plan is made of: where reports are, and variables that reach runners beneath the command.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run_tests_plan.h"
#include "banned.h"

#define PYTEST_HOOK "--junitxml=%D/pytest.xml -o junit_family=xunit1"
#define NODE_HOOK                                                                                  \
    "--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "               \
    "--test-reporter-destination=%D/node.xml"

void tests_plan_forget_reports(struct tests_plan *p)
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
    tests_plan_forget_reports(p);
}

/* Appends the template with the run's folder, name and the runner's number put in. */
void tests_plan_expand(const struct tests_plan *p, const char *form, size_t number, struct buf *out)
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

int tests_plan_add_path(struct tests_plan *p, const char *path, enum wire_report_format format,
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

int tests_plan_add(struct tests_plan *p, const char *path, enum wire_report_format format,
                   enum tests_need need)
{
    _cleanup_buf_ struct buf full = BUF_INIT(8192);
    tests_plan_expand(p, path, p->n_reports, &full);
    const char *text = buf_cstr(&full);
    return text ? tests_plan_add_path(p, text, format, need) : -ENOMEM;
}

/* Places where runners leave reports on their own, and last of all what was printed. */
static int add_usual_places(struct tests_plan *p)
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
        int r = tests_plan_add(p, PLACES[i].path, PLACES[i].format, TESTS_SEARCHED);
        if (r < 0)
            return r;
    }
    return 0;
}

void tests_plan_export(struct tests_plan *p, const char *name, const char *value, bool keep_old)
{
    buf_printf(&p->env, "export %s=\"", name);
    if (keep_old)
        buf_printf(&p->env, "${%s:+$%s }", name, name);
    tests_plan_expand(p, value, 0, &p->env);
    buf_append_str(&p->env, "\"\n");
}

/* Reaches runners that the command starts somewhere beneath. An old node refuses to start with
 * options it does not know: it is asked first. */
int tests_plan_hook(struct tests_plan *p, bool node)
{
    tests_plan_export(p, "PYTEST_ADDOPTS", PYTEST_HOOK, true);
    tests_plan_export(p, "PERL_TEST_HARNESS_DUMP_TAP", "%D/tap", false);
    tests_plan_export(p, "GTEST_OUTPUT", "xml:%D/gtest/", false);
    if (node) {
        buf_append_str(&p->env,
                       "if NODE_OPTIONS=--test-reporter=spec node -e 0 >/dev/null 2>&1; then\n");
        tests_plan_export(p, "NODE_OPTIONS", NODE_HOOK, true);
        buf_append_str(&p->env, "fi\n: \"${CI:=1}\"\nexport CI\n");
    }
    int r = tests_plan_add(p, "%D/pytest.xml", WIRE_REPORT_JUNIT, TESTS_OPTIONAL);
    if (r >= 0)
        r = tests_plan_add(p, "%D/tap", WIRE_REPORT_TAP, TESTS_OPTIONAL);
    if (r >= 0)
        r = tests_plan_add(p, "%D/gtest", WIRE_REPORT_JUNIT, TESTS_OPTIONAL);
    if (r >= 0 && node)
        r = tests_plan_add(p, "%D/node.xml", WIRE_REPORT_JUNIT, TESTS_OPTIONAL);
    return r < 0 ? r : add_usual_places(p);
}
