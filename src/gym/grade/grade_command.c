/*
 * Tests by a command line of the task: it leaves a report that the guest parses, or a number, or
 * only its exit status counts. Report and status must agree: a report that cannot be read to its
 * end, that of a killed command, and one in which everything passed although the status says
 * otherwise are discarded.
 *
 * The report is where the task says, or at %R: a path in a folder made for this run with a random
 * name. Whatever is at that path before is removed. HOME is such a folder, too, so that the command
 * reads no configuration of the agent.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ask.h"
#include "grade.h"
#include "banned.h"

#define COMMAND_MAX       (256u << 10)
#define FOLDER_MAX        64
#define REPORT_TIMEOUT_MS 120000

#define REPORT_BAILED "(bail out)" /* the guest's name for where a TAP report was given up */

/* The report's absolute path in the box. */
static int report_path(const struct task *t, const char *folder, struct buf *b)
{
    const char *report = t->tests.report;
    if (!report)
        buf_printf(b, "%s/report", folder);
    else
        buf_printf(b, "%s%s", report[0] == '/' ? "" : "/workspace/", report);
    return buf_cstr(b) ? 0 : -ENAMETOOLONG;
}

/* Of a report that is a number, the folder is emptied and made: Harbor's tests expect that it
 * exists. */
static int report_clear(const struct task *t, struct task_list *ret)
{
    _cleanup_buf_ struct buf path = BUF_INIT(8192);
    if (!t->tests.report)
        return 0;
    if (report_path(t, "", &path) < 0)
        return -ENAMETOOLONG;
    char *text = (char *)path.data, *slash = strrchr(text, '/');
    if (t->tests.verdict == VERDICT_REWARD && slash > text)
        slash[1] = 0;
    return task_list_add(ret, text);
}

int grade_command_clear(const struct task *t, struct task_list *ret)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->tests.clear.count; i++)
        r = task_list_add(ret, t->tests.clear.items[i]);
    return r < 0 || t->tests.runner != TASK_COMMAND ? r : report_clear(t, ret);
}

/* Makes the run's own folder; a run of the tests as they are also removes an earlier report. */
static int command_make_folder(struct grade_run *r, char folder[FOLDER_MAX], struct error *err)
{
    uint64_t chance[2];
    char home[FOLDER_MAX + 8];
    struct task_list clear = {0};
    if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return error_errno(err, EIO, "cannot prepare the run");
    snprintf(folder, FOLDER_MAX, "/tmp/.hutch-run-%016llx%016llx", (unsigned long long)chance[0],
             (unsigned long long)chance[1]);
    snprintf(home, sizeof home, "%s/home/", folder);
    int code = task_list_add(&clear, home);
    if (code == 0 && r->options->as_is)
        code = report_clear(r->task, &clear);
    code = code < 0 ? error_errno(err, -code, "cannot prepare the run")
                    : grade_stage(r->box, r->options->cancel, NULL, NULL, &clear, NULL, err);
    task_list_free(&clear);
    return code;
}

static void command_keep_output(struct grade_run *r, const struct box_result *result)
{
    _cleanup_buf_ struct buf all = BUF_INIT(4 * GRADE_OUTPUT_MAX);
    const struct box_capture *from[] = {&result->out, &result->err};
    for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
        _cleanup_buf_ struct buf both = BUF_INIT(SIZE_MAX / 2);
        buf_append(&both, from[i]->head.data, from[i]->head.len);
        buf_append(&both, from[i]->tail.data, from[i]->tail.len);
        size_t keep = both.len < GRADE_OUTPUT_MAX ? both.len : GRADE_OUTPUT_MAX;
        if (keep)
            buf_append(&all, both.data + both.len - keep, keep);
    }
    grade_output(r->grade, all.data, all.len);
}

static int command_execute(struct grade_run *r, const char *command, const char *folder,
                           struct grade_end *ret, struct error *err)
{
    char home[FOLDER_MAX + 16];
    snprintf(home, sizeof home, "HOME=%s/home", folder);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    const char *const env[] = {home, NULL};
    struct box_command c = {.argv = (char *const *)argv,
                            .env = (char *const *)env,
                            .timeout_ns = r->task->test_timeout_ns,
                            .cpu_time_ns = r->task->test_cpu_ns,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .capture = true,
                            .cancel = r->options->cancel};
    struct box_result result = {0};
    int code = box_exec(r->box, &c, &result, err);
    if (code < 0)
        return code;
    r->grade->duration_ns = result.duration_ns;
    r->grade->cpu_ns = result.cpu_ns;
    command_keep_output(r, &result);
    *ret = (struct grade_end){result.exit_code, result.signal, result.limit, NULL};
    if (*result.failure)
        grade_trouble(r->grade, "cannot start the tests: %s", result.failure);
    box_result_free(&result);
    return 0;
}

static int report_take_entry(void *data, const struct wire_frame *f)
{
    static const enum grade_outcome OUTCOMES[] = {GRADE_ERROR, GRADE_PASSED, GRADE_FAILED,
                                                  GRADE_ERROR, GRADE_SKIPPED};
    struct wire_field name = {0}, text = {0};
    _cleanup_buf_ struct buf id = BUF_INIT(4 * OUTCOMES_ID_MAX),
                             message = BUF_INIT(4 * OUTCOMES_MESSAGE_MAX);
    uint64_t outcome = wire_find_u64(f, WIRE_K_OUTCOME, 0);
    if (f->type != WIRE_ENTRY || !wire_find(f, WIRE_K_NAME, &name) || name.size > OUTCOMES_ID_MAX)
        return -EPROTO;
    wire_find(f, WIRE_K_TEXT, &text);
    text_append(&id, name.data, name.size);
    text_append(&message, text.data,
                text.size < OUTCOMES_MESSAGE_MAX ? text.size : OUTCOMES_MESSAGE_MAX);
    if (!buf_cstr(&id) || !buf_cstr(&message))
        return -ENOMEM;
    return outcomes_note(data, (char *)id.data,
                         outcome < ARRAY_SIZE(OUTCOMES) ? OUTCOMES[outcome] : GRADE_ERROR,
                         (char *)message.data);
}

/* Code under test that kills the command, or ends it early, may have written the report. */
static void report_compare_with_status(struct grade_run *r, const struct grade_end *end,
                                       bool killed)
{
    const struct outcomes *o = &r->outcomes;
    bool all_passed = o->count > 0;
    const char *why = NULL;
    for (size_t i = 0; i < o->count; i++)
        if (o->items[i].outcome != GRADE_PASSED && o->items[i].outcome != GRADE_SKIPPED)
            all_passed = false;
    if (killed)
        why = "the command was killed; its report is discarded";
    else if (outcomes_find(o, REPORT_BAILED))
        why = "the report ends early; it is discarded";
    else if (end->exit_code != 0 && all_passed)
        why = "the report says that all tests passed, but the command's exit status says they did "
              "not; the report is discarded";
    if (!why)
        return;
    grade_trouble(r->grade, "%s", why);
    outcomes_doubt(&r->outcomes, why);
}

static int report_read(struct grade_run *r, const char *path, struct error *err)
{
    struct wire_frame f;
    struct error why = {0};
    _cleanup_ask_ struct ask a;
    ask_begin_box(&a, r->box, r->options->cancel, WIRE_REPORT);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_FORMAT, r->task->tests.format);
    a.patience_ms = REPORT_TIMEOUT_MS;
    int code = ask_each(&a, report_take_entry, &r->outcomes, &f, &why);
    if (code == -ENOENT)
        grade_trouble(r->grade, "the tests wrote no report");
    else if (code < 0) {
        grade_trouble(r->grade, "cannot read the test report: %s", why.text);
        outcomes_doubt(&r->outcomes, "the report is incomplete");
    }
    if (code != -EPIPE && code != -ECANCELED && code != -ENOMEM)
        return 0;
    if (err)
        *err = why;
    return code;
}

/* The reward file: a decimal number from 0 to 1, with blanks around it, and nothing else. */
static int reward_read(struct grade_run *r, const char *path, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    struct error why = {0};
    struct wire_frame f;
    struct wire_field data;
    _cleanup_ask_ struct ask a;
    ask_begin_box(&a, r->box, r->options->cancel, WIRE_READ);
    ask_path(&a, path);
    wire_put_u64(&a.out, WIRE_K_LIMIT_BYTES, b.max - 1);
    int code = ask_send(&a, &why);
    while (code >= 0 && (code = ask_next(&a, &f, &why)) > 0)
        if (f.type == WIRE_DATA && wire_find(&f, WIRE_K_DATA, &data))
            buf_append(&b, data.data, data.size);
    if (code == -EPIPE || code == -ECANCELED) {
        if (err)
            *err = why;
        return code;
    }
    if (code < 0) {
        grade_trouble(r->grade, "the tests wrote no reward: %s", why.text);
        return 0;
    }
    char *text = b.len + 1 < b.max ? buf_cstr(&b) : NULL, *end = text;
    text += text ? strspn(text, " \t\r\n") : 0;
    double v = text && *text >= '0' && *text <= '9' ? strtod(text, &end) : NAN;
    if (isnan(v) || end != text + strspn(text, "0123456789.eE+-") || end[strspn(end, " \t\r\n")] ||
        v < 0 || v > 1)
        grade_trouble(r->grade, "the reward that the tests wrote is not a number from 0 to 1");
    else
        r->reward = v;
    return 0;
}

int grade_command(struct grade_run *r, struct error *err)
{
    char folder[FOLDER_MAX];
    struct grade_end end = {0};
    _cleanup_buf_ struct buf report = BUF_INIT(8192), command = BUF_INIT(COMMAND_MAX);
    int code = command_make_folder(r, folder, err);
    if (code < 0)
        return code;
    const char *at = r->task->tests.command, *path = NULL;
    if (report_path(r->task, folder, &report) == 0)
        path = (char *)report.data;
    for (const char *mark; path && (mark = strstr(at, "%R")); at = mark + 2) {
        buf_append(&command, at, (size_t)(mark - at));
        buf_append_str(&command, path);
    }
    buf_append_str(&command, at);
    if (!path || !buf_cstr(&command))
        return error_set(err, E2BIG, "the command is too long");
    code = command_execute(r, (char *)command.data, folder, &end, err);
    if (code < 0)
        return code;

    /* a shell's exit code above 128 means that a signal ended its command */
    bool killed = end.signal || end.limit || end.exit_code > 128;
    bool good = end.exit_code == 0 && !end.signal && !end.limit;
    grade_ended(r, &end);
    if (killed)
        grade_trouble(r->grade, "the command was killed");
    switch (r->task->tests.verdict) {
    case VERDICT_EXIT:
        return outcomes_note(&r->outcomes, "command", good ? GRADE_PASSED : GRADE_FAILED,
                             good ? NULL : r->grade->output);
    case VERDICT_REWARD:
        return killed ? 0 : reward_read(r, path, err);
    default:
        code = report_read(r, path, err);
        if (code == 0)
            report_compare_with_status(r, &end, killed);
        return code;
    }
}
