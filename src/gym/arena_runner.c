/* Whether what runs a task's tests is there at all: without it every episode would be worth
 * nothing, and nobody would be told why. */
#include <errno.h>

#include "arena_private.h"
#include "thread.h"
#include "clock.h"
#include "grade.h"
#include "banned.h"

/* Looks for pytest without loading it, which takes ten times as long. */
#define LOOK                                                                                       \
    "import importlib.util, sys; s = importlib.util.find_spec('pytest'); sys.exit(not (s and "     \
    "s.origin))"

int arena_check_runner(const struct task *t, struct box *template, int cancel, struct error *err)
{
    if (t->tests.runner != TASK_PYTEST)
        return 0;
    const char *const argv[] = {"python3", "-s", "-B", "-c", LOOK, NULL};
    struct box_command c = {.argv = (char *const *)argv,
                            .env = (char *const *)GRADE_PYTHON_ENV,
                            .timeout_ns = 60 * NS_PER_S,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .cancel = cancel};
    struct box_result result = {0};
    int r = box_exec(template, &c, &result, err);
    if (r == 0)
        r = cancel_check(cancel, err);
    const char *where = t->image ? "in its image" : "on this host";
    if (r == 0 && result.failure[0])
        r = error_set(err, ENOENT, "its tests need python3, which cannot be started %s: %s", where,
                      result.failure);
    else if (r == 0 && result.exit_code == 1)
        r = error_set(err, ENOENT,
                      "its tests are run by pytest, which python3 does not have %s; Debian's "
                      "package is python3-pytest",
                      where);
    box_result_free(&result);
    return r;
}
