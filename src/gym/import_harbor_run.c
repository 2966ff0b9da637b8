/*
 * The script that runs the tests of a Harbor or Terminal-Bench task, and leaves a number in
 * /logs/verifier/reward.txt.
 *
 * Many of these tests begin by fetching uv and running pytest with it. There is no network, so a stand-in for
 * uv is found last on the path: it runs the pytest that is installed, and knows nothing else.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "import_harbor.h"
#include "banned.h"

static const char BEGIN[] = "#!/bin/bash\n"
                            "export PATH=\"$PATH:/workspace/" HARBOR_FOLDER "/bin\"\n"
                            "export TEST_DIR=/tests PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1\n"
                            "export PYTEST_ADDOPTS='-p no:cacheprovider'\n"
                            "mkdir -p " HARBOR_LOGS "/verifier\n";

static const char HARBOR_END[] = "bash /tests/test.sh\n"
                                 "cd " HARBOR_LOGS "/verifier || exit 1\n"
                                 "if [ ! -e reward.txt ] && [ -e reward.json ]; then\n"
                                 "    tr -d '\\n' <reward.json | sed -n "
                                 "'s/.*\"reward\"[[:space:]]*:[[:space:]]*\\([0-9.eE+-]*\\).*/\\1/p' "
                                 ">reward.txt\n"
                                 "fi\n";

/* The pass rate, out of the counts in the first element of pytest's report. */
static const char OLD_END[] =
    "export PYTEST_ADDOPTS=\"$PYTEST_ADDOPTS --junitxml=" HARBOR_LOGS "/verifier/junit.xml\"\n"
    "bash /tests/run-tests.sh\n"
    "cd " HARBOR_LOGS "/verifier || exit 1\n"
    "count() { sed -n \"s/.*<testsuite [^>]*\\b$1=\\\"\\([0-9]*\\)\\\".*/\\1/p\" junit.xml | head -n 1; }\n"
    "all=$(count tests) failed=$(count failures) errors=$(count errors) skipped=$(count skipped)\n"
    "awk -v n=\"${all:-0}\" -v bad=\"$((${failed:-0} + ${errors:-0} + ${skipped:-0}))\" \\\n"
    "    'BEGIN { print (n > 0 && bad < n ? (n - bad) / n : 0) }' >reward.txt\n";

static const char UV[] =
    "#!/bin/bash\n"
    "# Stands in for uv and uvx where they are not installed: pytest, and nothing else.\n"
    "while [ $# -gt 0 ] && [ \"$1\" != pytest ]; do\n"
    "    case $1 in init|add|sync|venv|pip|lock|self) exit 0 ;; esac\n"
    "    shift\n"
    "done\n"
    "[ $# -gt 0 ] || { echo 'uv: is not installed, and there is no network' >&2; exit 127; }\n"
    "shift\n"
    "words=()\n"
    "while [ $# -gt 0 ]; do\n"
    "    case $1 in\n"
    "    --ctrf) shift ;;\n"
    "    --ctrf=*) ;;\n"
    "    *) words+=(\"$1\") ;;\n"
    "    esac\n"
    "    shift\n"
    "done\n"
    "for program in pytest pytest-3; do\n"
    "    command -v $program >/dev/null && exec $program \"${words[@]}\"\n"
    "done\n"
    "exec python3 -m pytest \"${words[@]}\"\n";

static int add(struct task *t, const char *path, const char *text, struct error *err)
{
    int r = task_tree_add(&t->hidden, path, S_IFREG | 0755, text, strlen(text));
    return r < 0 ? error_errno(err, -r, "%s", path) : 0;
}

int harbor_add_runner(struct harbor *h, struct task *t, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64u << 10);
    if (h->workdir[strspn(h->workdir, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")])
        return error_set(err, EINVAL, "its working folder %s has an unusual name", h->workdir);
    buf_append_str(&b, BEGIN);
    buf_printf(&b, "cd %s || exit 1\n", h->workdir);
    buf_append_str(&b, h->old ? OLD_END : HARBOR_END);
    const char *text = b.failed ? NULL : buf_cstr(&b);
    if (!text)
        return task_no_memory(err);
    int r = add(t, HARBOR_RUN, text, err);
    if (r == 0)
        r = add(t, HARBOR_FOLDER "/bin/uv", UV, err);
    return r == 0 ? add(t, HARBOR_FOLDER "/bin/uvx", UV, err) : r;
}
