/* Runs the project's tests and reports the outcome of each as data. See run_tests.h for the
 * steps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box.h"
#include "run_tests.h"
#include "session.h"
#include "thread.h"
#include "tool_text.h"
#include "banned.h"

#define OUTPUT_MAX  (16u << 10) /* bytes of the output's end in a result */
#define SCRIPT_MAX  (1u << 20)
#define OUTPUT_KEPT (1u << 20)
#define PATH_BYTES  8192

/* --- the box as run_tests sees it --- */

/* Output while it comes: kept, and its last line shown as progress. */
struct watched {
    struct box_capture kept;
    struct ticker ticker;
};

static void watched_take_output(void *data, const void *bytes, size_t n)
{
    capture_add(&((struct watched *)data)->kept, bytes, n);
}

static void watched_tick(void *data)
{
    struct watched *w = data;
    ticker_tick(&w->ticker, &w->kept);
}

int tests_shell(struct tool_call *c, const char *cwd, const char *script, int64_t timeout_ns,
                struct box_result *ret, struct error *err)
{
    struct watched w = {0};
    struct box_sink sink = {
        .write = watched_take_output, .tick = c->progress ? watched_tick : NULL, .data = &w};
    struct box_command command = {.shell = TOOL_SHELL,
                                  .script = script,
                                  .cwd = cwd,
                                  .timeout_ns = timeout_ns,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .sink = &sink,
                                  .cancel = c->cancel};
    capture_init(&w.kept, OUTPUT_KEPT);
    ticker_start(&w.ticker, c);
    int r = box_exec(tool_session_box(c->session), &command, ret, err);
    capture_finish(&w.kept);
    if (r >= 0) {
        ret->out = w.kept;
    } else {
        buf_free(&w.kept.head);
        buf_free(&w.kept.tail);
    }
    return r;
}

/* Size and time of a file; either may be NULL. */
static int tests_stat(struct tool_call *c, const char *path, uint64_t *ret_size, int64_t *ret_ns,
                      struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame f;
    ask_begin(&a, c, WIRE_STAT);
    ask_path(&a, path);
    int r = ask_result(&a, &f, err);
    if (r >= 0 && ret_size)
        *ret_size = wire_find_u64(&f, WIRE_K_SIZE, 0);
    if (r >= 0 && ret_ns)
        *ret_ns = (int64_t)wire_find_u64(&f, WIRE_K_MTIME_NS, 0);
    return r;
}

/* As much of a file as the buffer takes, from `offset` on, with a NUL behind. */
static int tests_read_from(struct tool_call *c, const char *path, uint64_t offset, struct buf *b,
                           struct error *err)
{
    _cleanup_ask_ struct ask a;
    struct wire_frame f;
    ask_begin(&a, c, WIRE_READ);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_OFFSET, offset);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, b->max - 1);
    int r = ask_collect(&a, b, &f, err);
    return r < 0 ? r : buf_cstr(b) ? 0 : error_set(err, ENOMEM, "no memory");
}

int tests_read_file(struct tool_call *c, const char *here, const char *path, struct buf *b,
                    struct error *err)
{
    char full[PATH_BYTES];
    snprintf(full, sizeof full, "%s%s%s", path[0] == '/' ? "" : here, path[0] == '/' ? "" : "/",
             path);
    return tests_read_from(c, full, 0, b, err);
}

bool tests_exists(struct tool_call *c, const char *here, const char *path)
{
    char full[PATH_BYTES];
    return snprintf(full, sizeof full, "%s/%s", here, path) < (int)sizeof full &&
           tests_stat(c, full, NULL, NULL, NULL) >= 0;
}

/* --- the steps --- */

/* Which command is run: the given one, or the first that the project suggests. 1: the input is
 * wrong or nothing was recognised, and the result says so. */
static int tests_choose(struct tool_call *c, struct tests_run *run, struct error *err)
{
    const char *command = input_string(c, "command"), *framework = input_string(c, "framework");
    const char *path = input_string(c, "path"), *filter = input_string(c, "filter");
    if (command && (path || filter)) {
        tool_fail(c, "input.%s: is for a run without `command`; put it into the command",
                  path ? "path" : "filter");
        return 1;
    }
    if (!command) {
        int r = tests_detect(c, run->here, framework, &run->choices, err);
        if (r < 0)
            return r;
        if (run->choices.count == 0 && framework)
            tool_fail(c,
                      "input.framework: nothing here looks like %s. Give `command`, the command"
                      " that runs the tests, or leave `framework` out to see what is recognised.",
                      framework);
        else if (run->choices.count == 0)
            tool_fail(c, "no tests were recognised here. Give `command`, the command that runs"
                         " them (any that writes JUnit XML or TAP, or whose runner is known), or"
                         " `cwd`, the folder of the project. Looked for: pytest and unittest files,"
                         " Cargo.toml, go.mod, package.json, meson.build, CMakeLists.txt, t/*.t, a"
                         " Makefile with check or test.");
        if (run->choices.count == 0)
            return 1;
        if (path || filter)
            r = tests_select(&run->choices.items[0], path, filter, err);
        if (r < 0)
            return r;
        command = run->choices.items[0].command;
        framework = NULL;
    }
    return tests_plan_make(c, &run->plan, run->here, command, framework, input_string(c, "report"),
                           err);
}

static int tests_write(struct tool_call *c, const struct tests_plan *p, const char *name,
                       const char *text, struct error *err)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    int r = guestfile_write(c, path, 0644, text, strlen(text), err);
    return r < 0 ? error_wrap(err, "cannot prepare the test run") : 0;
}

/* Fills the run's folder, where the time of a file is the moment it began, and runs the command in
 * a shell of its own beneath the session's, so that nothing it sets stays. */
static int tests_execute(struct tool_call *c, struct tests_run *run, int64_t *ret_began_ns,
                         struct error *err)
{
    const struct tests_plan *p = &run->plan;
    const json_t *timeout = json_object_get(c->input, "timeout");
    _cleanup_buf_ struct buf script = BUF_INIT(SCRIPT_MAX);
    char path[128], config[256];
    snprintf(path, sizeof path, "%s/began", p->dir);
    snprintf(config, sizeof config, "[profile.default.junit]\npath = \"%s/nextest.xml\"\n", p->dir);
    int r = tests_write(c, p, "began", "", err);
    if (r >= 0)
        r = tests_stat(c, path, NULL, ret_began_ns, err);
    if (r >= 0 && p->unittest)
        r = tests_write(c, p, "run_unittest.py", TESTS_UNITTEST, err);
    if (r >= 0 && p->nextest)
        r = tests_write(c, p, "nextest.toml", config, err);
    if (r < 0)
        return r;
    buf_printf(&script, "pwd >%s/cwd\n(\n", p->dir);
    buf_append(&script, p->env.data, p->env.len);
    buf_append_str(&script, "eval ");
    shell_quote(&script, p->edited);
    buf_append_str(&script, "\n)");
    if (p->keep_output)
        buf_printf(&script, " >%s/" TESTS_OUTPUT, p->dir);
    buf_append_str(&script, p->split ? "\n" : " 2>&1\n");
    const char *text = buf_cstr(&script);
    if (!text)
        return error_set(err, E2BIG, "the command is too long");
    int64_t ns = timeout ? (int64_t)(json_number_value(timeout) * (double)NS_PER_S) : 0;
    return tests_shell(c, input_string(c, "cwd") ? run->here : NULL, text, ns, &run->result, err);
}

/* What it printed: from the file, where it went to one, and what was captured. Only the end is
 * kept. */
static int tests_take_output(struct tool_call *c, struct tests_run *run, struct error *err)
{
    const struct box_capture *streams[] = {&run->result.out, &run->result.err};
    char path[128];
    uint64_t size = 0;
    run->output = BUF_INIT(16u << 20);
    snprintf(path, sizeof path, "%s/" TESTS_OUTPUT, run->plan.dir);
    if (run->plan.keep_output && tests_stat(c, path, &size, NULL, NULL) >= 0) {
        _cleanup_buf_ struct buf tail = BUF_INIT(OUTPUT_MAX + 1);
        int r = tests_read_from(c, path, size > OUTPUT_MAX ? size - OUTPUT_MAX : 0, &tail, err);
        if (r < 0)
            return r;
        run->output_cut |= size > OUTPUT_MAX;
        buf_append(&run->output, tail.data, tail.len);
    }
    for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
        const struct box_capture *s = streams[i];
        buf_append(&run->output, s->head.data, s->head.len);
        buf_append(&run->output, s->tail.data, s->tail.len);
        run->output_cut |= s->total > s->head.len + s->tail.len;
    }
    if (run->output.len > OUTPUT_MAX) {
        buf_consume(&run->output, run->output.len - OUTPUT_MAX);
        run->output_cut = true;
    }
    return run->output.failed ? error_set(err, ENOMEM, "no memory") : 0;
}

static uint64_t found_total(const struct tests_found *f)
{
    return f->passed + f->failed + f->errors + f->skipped;
}

/* All reports; those that are searched for only until one is found. Counts those that a runner
 * should have written. */
static int tests_collect_all(struct tool_call *c, struct tests_run *run, int64_t began_ns,
                             struct error *err)
{
    _cleanup_buf_ struct buf cwd = BUF_INIT(PATH_BYTES);
    struct tests_found *f = &run->found;
    char path[128];
    snprintf(path, sizeof path, "%s/cwd", run->plan.dir); /* where the command ran */
    int r = tests_read_file(c, "", path, &cwd, err);
    if (r < 0)
        return r;
    char *folder = (char *)cwd.data;
    folder[strcspn(folder, "\n")] = 0;
    for (size_t i = 0; r >= 0 && i < run->plan.n_reports; i++) {
        const struct tests_report *report = &run->plan.reports[i];
        uint64_t before = f->files;
        if (report->need != TESTS_SEARCHED || found_total(f) == 0)
            r = tests_collect(c, folder, report, began_ns, f, err);
        run->missing += report->need == TESTS_REQUIRED && f->files == before;
    }
    return r;
}

/* What the run means. A run that reported nothing is no result, whatever it printed, unless its
 * exit status is all there can be. A runner that fails although nothing failed in its report has
 * more to say. */
static int tests_judge(struct tests_run *run)
{
    const struct tests_plan *p = &run->plan;
    const struct tests_found *f = &run->found;
    bool good = run->result.exit_code == 0, timed_out = run->result.limit == WIRE_LIMIT_TIMEOUT;
    bool any = found_total(f) > 0;
    char message[256], name[64];
    if (!any && !timed_out && p->by_exit && !f->files)
        return tests_add(&run->found, p->target, good ? WIRE_OUTCOME_PASSED : WIRE_OUTCOME_FAILED,
                         good ? "" : buf_cstr(&run->output));
    run->failure =
        any && timed_out ? "The tests did not end in time: what follows is only a part of them."
        : any            ? NULL
        : timed_out      ? "The tests did not end in time and wrote no report. Raise "
                           "`timeout`, or run "
                           "fewer of them."
        : f->files       ? "No tests were run: the report has none."
        : f->stale       ? "There is no report of this run: the existing one is older than the run."
        : p->named       ? "There is no report at the path that `report` names."
        : p->piped       ? "There is no report of the tests. Their output goes through a "
                           "pipe: run the "
                           "tests alone, without it."
        : strcmp(p->framework, "command") == 0
            ? "There is no report of the tests: the command's runner is not known, and "
              "it left "
              "neither JUnit XML nor TAP. Name its report with `report`, or take its "
              "exit code as "
              "the result with `framework`: \"exit_code\"."
            : "There is no report of the tests: the runner ended before it wrote one.";
    if (run->failure || f->failed || f->errors || (good && !run->missing))
        return 0;
    snprintf(name, sizeof name, "(%s)", p->framework);
    if (run->missing)
        snprintf(message, sizeof message, "of the runners in the command, %u left no report",
                 run->missing);
    else
        snprintf(message, sizeof message,
                 "exit code %d, although no test failed in the report%s%s; its output "
                 "says why",
                 run->result.exit_code, *p->also ? "; the command also runs " : "", p->also);
    return tests_add(&run->found, name, WIRE_OUTCOME_ERROR, message);
}

static int run_tests_run(struct tool_call *c, struct error *err)
{
    struct tests_run run = {0};
    const char *cwd = input_string(c, "cwd");
    int64_t began_ns = 0;
    snprintf(run.here, sizeof run.here, "%s%s%s", cwd && cwd[0] == '/' ? "" : "/workspace",
             cwd && cwd[0] != '/' ? "/" : "", cwd ? cwd : "");
    int r = tests_choose(c, &run, err);
    if (r == 0) {
        r = tests_execute(c, &run, &began_ns, err);
        if (r >= 0)
            r = tests_take_output(c, &run, err);
        if (r >= 0)
            r = tests_collect_all(c, &run, began_ns, err);
        /* Removes what the run left, whatever came of it. */
        _cleanup_buf_ struct buf script = BUF_INIT(SCRIPT_MAX);
        struct box_result result = {0};
        buf_append(&script, run.plan.after.data, run.plan.after.len);
        buf_printf(&script, "rm -rf %s\n", run.plan.dir);
        if (buf_cstr(&script))
            tests_shell(c, cwd ? run.here : NULL, (const char *)script.data, 0, &result, NULL);
        box_result_free(&result);
        if (r >= 0)
            r = tests_judge(&run);
        if (r >= 0)
            r = tests_show(c, &run, err);
    }
    tests_found_free(&run.found);
    tests_plan_free(&run.plan);
    tests_choices_free(&run.choices);
    box_result_free(&run.result);
    buf_free(&run.output);
    return r < 0 ? r : 0;
}

static int run_tests_view_call(const json_t *input, struct buf *b)
{
    const char *command = json_get_string(input, "command");
    const char *path = json_get_string(input, "path"), *filter = json_get_string(input, "filter");
    if (command)
        return buf_append_str(b, command);
    return buf_printf(b, "%s%s%s", path ? path : "", path && filter ? " " : "",
                      filter ? filter : "");
}

static int run_tests_view_result(const json_t *data, struct buf *b)
{
    json_int_t failed = json_get_integer(data, "failed"), errors = json_get_integer(data, "errors");
    int r = buf_printf(b, "%" JSON_INTEGER_FORMAT " passed", json_get_integer(data, "passed"));
    if (r == 0 && failed)
        r = buf_printf(b, ", %" JSON_INTEGER_FORMAT " failed", failed);
    if (r == 0 && errors)
        r = buf_printf(b, ", %" JSON_INTEGER_FORMAT " error%s", errors, errors == 1 ? "" : "s");
    return r;
}

/* clang-format off */
const struct tool TOOL_RUN_TESTS = {
    .name = "run_tests",
    .title = "Run tests",
    .summary = "Runs the project's tests and returns which passed and which failed, with messages"
               " and places, taken from the runner's own report. Without input it recognises the"
               " project (pytest, unittest, CTest, Meson, make, cargo, go, npm, node, prove) and"
               " builds what must be built; `path` and `filter` select tests. Or give `command`:"
               " the report option of its runner is added for you. Prefer this over running tests"
               " with bash.",
    .input = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "command": {"type": "string", "minLength": 1, "maxLength": 65536,
            "description": "Shell command that runs the tests; do not pipe its output."},
        "path": {"type": "string", "minLength": 1, "maxLength": 4096,
            "description": "Without command: run only this file, folder or package."},
        "filter": {"type": "string", "minLength": 1, "maxLength": 4096,
            "description": "Without command: only tests whose name matches (runner's syntax)."},
        "framework": {
            "enum": ["pytest", "unittest", "ctest", "meson", "make", "cargo", "nextest", "go",
                "npm", "jest", "vitest", "mocha", "node", "bun", "deno", "phpunit", "prove",
                "maven", "gradle", "tap", "junit", "exit_code"],
            "description": "Runner to use. exit_code: no report, the exit code is the result."},
        "report": {"type": "string", "minLength": 1, "maxLength": 4096,
            "description": "With command: its report (JUnit XML, TAP, JSON); may be a pattern."},
        "cwd": {"type": "string", "minLength": 1, "maxLength": 4096,
            "description": "The project's folder (default: the workspace)."},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400,
            "description": "Seconds until the run is ended (default: the box's limit)."}},
        "dependentRequired": {"report": ["command"]}}),
    .output = SCHEMA({"type": "object",
        "required": ["passed", "failed", "errors", "skipped", "duration", "tests", "framework",
            "command", "exit_code", "timed_out", "report", "output", "truncated"], "properties": {
        "passed": {"type": "integer"},
        "failed": {"type": "integer"},
        "errors": {"type": "integer",
            "description": "Tests, or parts of the run, that ended with an error."},
        "skipped": {"type": "integer"},
        "duration": {"type": "number", "description": "Seconds."},
        "tests": {"type": "array", "description": "Those that failed first.", "items": {
                "type": "object", "required": ["name", "outcome", "message", "file", "line"],
                "properties": {
                    "name": {"type": "string"},
                    "outcome": {"enum": ["passed", "failed", "error", "skipped"]},
                    "message": {"type": ["string", "null"]},
                    "file": {"type": ["string", "null"]},
                    "line": {"type": ["integer", "null"]}}}},
        "framework": {"type": "string"},
        "command": {"type": "string"},
        "exit_code": {"type": "integer"},
        "timed_out": {"type": "boolean"},
        "report": {"enum": ["junit", "json", "tap", "text", "exit code"],
            "description": "Where the results are from."},
        "output": {"type": "string", "description": "The end of what the run printed."},
        "truncated": {"type": "boolean", "description": "Tests or output were left out."},
        "why": {"type": "string", "description": "What the framework was recognised by."},
        "alternatives": {"type": "array", "description": "What else was recognised.", "items": {
                "type": "object"}}}}),
    .flags = TOOL_RUNS,
    .run = run_tests_run,
    .view = &(const struct tool_view){
        .call = run_tests_view_call, .result = run_tests_view_result, .quiet = true, .head = 8,
    },
};
/* clang-format on */
