/*
 * The scripts of a Harbor or Terminal-Bench task: the one that runs its tests and leaves a number
 * in /logs/verifier/reward.txt, the solution's, and the one that sets up its box.
 *
 * Many of them begin by fetching packages. There is no network, so they find stand-ins (foreign/):
 * what installs does nothing, and uv runs what is there.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "import_harbor.h"
#include "import_texts.h"
#include "banned.h"

#define SCRIPT_MAX (256u << 10)

static const char BEGIN[] = "export PATH=/workspace/" HARBOR_FOLDER "/bin:$PATH\n"
                            "export TEST_DIR=/tests PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1\n"
                            "export PYTEST_ADDOPTS='-p no:cacheprovider'\n"
                            "mkdir -p " HARBOR_LOGS "/verifier ~/.local/bin\n"
                            ": >~/.local/bin/env\n";

/* reward.json is an object of numbers: "reward", or the mean of all of them. */
static const char HARBOR_END[] =
    "bash /tests/test.sh\n"
    "cd " HARBOR_LOGS "/verifier || exit 1\n"
    "if [ ! -e reward.txt ] && [ -e reward.json ]; then\n"
    "    tr -d '\\n' <reward.json | sed -n "
    "'s/.*\"reward\"[[:space:]]*:[[:space:]]*\\([0-9.eE+-]*\\).*/\\1/p' >reward.txt\n"
    "    [ -s reward.txt ] || tr ',{}' '\\n' <reward.json |\n"
    "        awk -F: 'NF == 2 && $2 + 0 == $2 { sum += $2; n++ } END { if (n) print sum / n }' "
    ">reward.txt\n"
    "fi\n";

/* The pass rate, out of the counts in the first element of pytest's report. */
static const char OLD_END[] =
    "export PYTEST_ADDOPTS=\"$PYTEST_ADDOPTS --junitxml=" HARBOR_LOGS "/verifier/junit.xml\"\n"
    "bash /tests/run-tests.sh\n"
    "cd " HARBOR_LOGS "/verifier || exit 1\n"
    "count() { sed -n \"s/.*<testsuite [^>]*\\b$1=\\\"\\([0-9]*\\)\\\".*/\\1/p\" junit.xml | head "
    "-n 1; }\n"
    "all=$(count tests) failed=$(count failures) errors=$(count errors) skipped=$(count skipped)\n"
    "awk -v n=\"${all:-0}\" -v bad=\"$((${failed:-0} + ${errors:-0} + ${skipped:-0}))\" \\\n"
    "    'BEGIN { print (n > 0 && bad < n ? (n - bad) / n : 0) }' >reward.txt\n";

static void put_exports(struct buf *b, const struct task_list *env)
{
    for (size_t i = 0; i < env->count; i++) {
        const char *value = strchr(env->items[i], '=') + 1;
        buf_printf(b, "export %.*s'", (int)(value - env->items[i]), env->items[i]);
        for (; *value; value++)
            if (*value == '\'')
                buf_append_str(b, "'\\''");
            else
                buf_append(b, value, 1);
        buf_append_str(b, "'\n");
    }
}

static int add(struct task *t, const char *path, const char *text, struct error *err)
{
    int r = task_tree_add(&t->hidden, path, S_IFREG | 0755, text, strlen(text));
    return r < 0 ? error_errno(err, -r, "%s", path) : 0;
}

int harbor_add_runner(struct harbor *h, struct task *t, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SCRIPT_MAX);
    buf_append_str(&b, "#!/bin/bash\n");
    buf_append_str(&b, HARBOR_STAND_INS);
    buf_append_str(&b, BEGIN);
    put_exports(&b, &h->checks);
    buf_printf(&b, "mkdir -p %s && cd %s || exit 1\n", h->workdir, h->workdir);
    buf_append_str(&b, h->old ? OLD_END : HARBOR_END);
    const char *text = b.failed ? NULL : buf_cstr(&b);
    if (!text)
        return task_no_memory(err);
    int r = add(t, HARBOR_RUN, text, err);
    if (r == 0)
        r = add(t, HARBOR_FOLDER "/bin/uv", HARBOR_UV, err);
    if (r == 0)
        r = add(t, HARBOR_FOLDER "/bin/uvx", HARBOR_UV, err);
    return r == 0 ? add(t, HARBOR_FOLDER "/python/hutch_ctrf.py", HARBOR_CTRF, err) : r;
}

int harbor_solution_script(struct harbor *h, struct task *t, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SCRIPT_MAX);
    buf_append_str(&b, HARBOR_STAND_INS);
    put_exports(&b, &h->solves);
    buf_printf(&b, "mkdir -p %s && cd %s && bash /solution/solve.sh", h->workdir, h->workdir);
    const char *text = b.failed ? NULL : buf_cstr(&b);
    return text ? import_text(&t->solution_script, err, "%s", text) : task_no_memory(err);
}

int harbor_setup_script(struct task *t, const struct buf *runs, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SCRIPT_MAX);
    if (runs->len == 0)
        return 0;
    buf_append_str(&b, HARBOR_STAND_INS);
    buf_append_str(&b, HARBOR_SETUP);
    buf_append(&b, runs->data, runs->len);
    const char *text = b.failed ? NULL : buf_cstr(&b);
    return text ? import_text(&t->setup, err, "%s", text) : task_no_memory(err);
}
