/*
 * Jobs of kind `steps`: calls tools one after the other in one box.
 *
 * A finished step is durable (/step) before the next one begins, together with a checkpoint of what
 * the steps changed, so that another attempt continues behind it. The last step needs neither: its
 * result goes with /finish. A job without options and workspace takes a box that is ready; this and
 * one request at its end are all that a small job costs.
 *
 * What has been checked by the server is checked again here: a worker trusts its server with its
 * time, not with its host.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "job_files.h"
#include "job_report.h"
#include "json.h"
#include "thread.h"
#include "banned.h"

#define STEPS_MAX      1000
#define DATA_MAX       (1u << 20) /* of a result's data, as text */
#define RESULTS_MAX    (8u << 20) /* of all results; what comes later is cut to: */
#define RESULT_REST    (4u << 10)
#define EVENT_TEXT_MAX (16u << 10)
#define PROGRESS_NS    NS_PER_S
#define PYTHON_COMMAND "python3 -"

/* Node removes the types itself. The code goes to a file, since only files may have types in all
 * versions that can do it. */
#define TYPESCRIPT_COMMAND                                                                         \
    "(node --experimental-strip-types -e '' >/dev/null 2>&1 || { echo 'typescript needs Node.js "  \
    "22.6 or later in the box; python and shell need less' >&2; exit 127; }\n"                     \
    "folder=$(mktemp -d) && cat >\"$folder/step.mts\" && "                                         \
    "node --experimental-strip-types --disable-warning=ExperimentalWarning \"$folder/step.mts\"\n" \
    "status=$?; rm -rf \"$folder\"; exit $status)"

/* Steps that are no tools, but commands with the code as their input. */
static const struct {
    const char *name, *command;
} LANGUAGES[] = {{"python", PYTHON_COMMAND}, {"typescript", TYPESCRIPT_COMMAND}};

struct steps_run {
    struct job *job;
    const json_t *steps;
    struct box *box;
    bool pooled;
    bool no_box;          /* this worker could not make it */
    struct box_spec spec; /* of a box of its own */
    bool has_spec;
    char *workspace;
    struct tool_session *tools;
    size_t results_bytes;
    unsigned step;
    int64_t progress_ns; /* when the last progress was reported */
};

/* --- one step --- */

int step_call(const json_t *step, const char **ret_tool, json_t **ret_input, struct error *err)
{
    const char *name = json_get_string(step, "tool"), *code = json_get_string(step, "code");
    if (!name)
        return error_set(err, EINVAL, "a step has no tool");
    for (size_t i = 0; i < ARRAY_SIZE(LANGUAGES); i++)
        if (strcmp(name, LANGUAGES[i].name) == 0) {
            if (!code)
                return error_set(err, EINVAL, "a step of %s has no code", name);
            *ret_tool = "bash";
            *ret_input = json_pack("{s:s, s:O}", "command", LANGUAGES[i].command, "stdin",
                                   json_object_get(step, "code"));
            return *ret_input ? 0 : error_set(err, ENOMEM, "no memory");
        }
    *ret_input = json_copy((json_t *)step);
    if (!*ret_input)
        return error_set(err, ENOMEM, "no memory");
    json_object_del(*ret_input, "tool");
    *ret_tool = strcmp(name, "shell") == 0 ? "bash" : name;
    return 0;
}

static void step_progress(void *data, double seconds, const char *message)
{
    struct steps_run *s = data;
    int64_t now = clock_now();
    if (now - s->progress_ns < PROGRESS_NS)
        return;
    s->progress_ns = now;
    job_event(s->job, json_pack("{s:s, s:I, s:f, s:s}", "type", "progress", "step",
                                (json_int_t)s->step, "seconds", seconds, "text", message));
}

static bool step_failed(const char *tool, const struct tool_result *r)
{
    return r->failed || (strcmp(tool, "bash") == 0 && json_get_integer(r->data, "exit_code") != 0);
}

static json_t *text_cut_json(const struct buf *text, size_t max)
{
    size_t n = text->len < max ? text->len : max;
    if (n < text->len)
        n -= utf8_cut_end(text->data, n);
    return text_json(n ? (const char *)text->data : "", n);
}

/* {"tool", "failed", "text", "data", "seconds"}, bounded. */
static json_t *step_result(struct steps_run *s, const char *name, bool failed, double seconds,
                           const struct tool_result *r)
{
    bool rest = s->results_bytes > RESULTS_MAX;
    size_t n = r->data && !rest ? json_dumpb(r->data, NULL, 0, JSON_COMPACT) : 0;
    bool with_data = n > 0 && n <= DATA_MAX;
    s->results_bytes += (with_data ? n : 0) + r->text.len;
    return json_pack("{s:s, s:b, s:o, s:O?, s:f}", "tool", name, "failed", failed, "text",
                     text_cut_json(&r->text, rest ? RESULT_REST : RESULT_TEXT_MAX), "data",
                     with_data ? r->data : NULL, "seconds", seconds);
}

/* Runs the step. 0 with its result, also if it failed; -ECANCELED; or a mistake in it. */
static int step_run(struct steps_run *s, const json_t *step, json_t **ret, struct error *err)
{
    struct job *j = s->job;
    const char *tool = NULL, *name = json_get_string_or(step, "tool", "");
    const struct tool_progress progress = {.say = step_progress, .data = s};
    _cleanup_json_ json_t *input = NULL;
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    int r = step_call(step, &tool, &input, err);
    if (r < 0)
        return r;
    job_event(j, json_pack("{s:s, s:I, s:s, s:s}", "type", "step", "step", (json_int_t)s->step,
                           "tool", name, "status", "started"));
    const struct tool_request q = {
        .name = tool, .input = input, .cancel = j->lease.cancel, .progress = &progress};
    int64_t began = clock_now();
    tool_call(s->tools, &q, &result); /* why it could not be called is in the result */
    double seconds = (double)(clock_now() - began) / NS_PER_S;
    if (cancel_asked(j->lease.cancel))
        return error_set(err, ECANCELED, "interrupted");
    bool failed = step_failed(tool, &result);
    *ret = step_result(s, name, failed, seconds, &result);
    if (!*ret)
        return error_set(err, ENOMEM, "no memory");
    job_event_of_post(j, json_pack("{s:s, s:I, s:s, s:s, s:f, s:o}", "type", "step", "step",
                                   (json_int_t)s->step, "tool", name, "status",
                                   failed ? "failed" : "completed", "seconds", seconds, "text",
                                   text_cut_json(&result.text, EVENT_TEXT_MAX)));
    job_action(j, name, step, seconds, failed,
               result.text.len ? (const char *)result.text.data : "", result.text.len);
    return 0;
}

/* --- the box --- */

static int steps_open_own_box(struct steps_run *s, struct error *err)
{
    struct job *j = s->job;
    int r = job_make_folder(j, err);
    if (r == 0)
        r = workspace_prepare(j->worker, &j->lease, &s->workspace, err);
    if (r < 0)
        return r;
    s->has_spec = true;
    r = job_box_spec(&j->lease, s->workspace, false, &s->spec, err);
    if (r == 0) {
        r = box_open(&s->spec.box, &s->box, err);
        s->no_box = r < 0;
    }
    return r;
}

static int steps_open(struct steps_run *s, struct error *err)
{
    struct job *j = s->job;
    const json_t *spec = j->lease.spec;
    s->pooled = json_object_size(json_object_get(spec, "box")) == 0 &&
                !json_is_object(json_object_get(spec, "workspace"));
    int r = s->pooled ? worker_take_box(j->worker, &s->box, err) : steps_open_own_box(s, err);
    s->no_box |= s->pooled && r < 0;
    if (r == 0 && j->lease.has_checkpoint)
        r = checkpoint_restore(j, s->box, err);
    if (r == 0 && json_get_string(spec, "memory_from"))
        r = memory_install(j, s->box, err);
    return r == 0 ? tool_session_new(s->box, &s->tools, err) : r;
}

static void steps_close(struct steps_run *s)
{
    tool_session_free(s->tools);
    if (s->box && s->pooled && !cancel_asked(s->job->lease.cancel))
        worker_give_box(s->job->worker, s->box);
    else
        box_close(s->box); /* of a cancelled job at once */
    if (s->has_spec)
        box_spec_free(&s->spec);
    free(s->workspace);
}

/* --- the job --- */

/* Stores the result of a step that is not the last, with the files as they are now. */
static int steps_store(struct steps_run *s, const json_t *result, struct error *err)
{
    _cleanup_free_ char *checkpoint = NULL;
    int r = checkpoint_save(s->job, s->box, s->tools, &checkpoint, err);
    if (r < 0)
        return r;
    return job_report_post(s->job, "step",
                           json_pack("{s:I, s:O, s:s?}", "step", (json_int_t)s->step, "result",
                                     result, "checkpoint", checkpoint),
                           err);
}

static void steps_run_all(struct steps_run *s, struct job_outcome *o)
{
    struct job_lease *l = &s->job->lease;
    size_t n = json_array_size(s->steps);
    o->steps = json_array();
    for (s->step = l->steps_done; s->step < n && !o->failed; s->step++) {
        struct error err = {0};
        _cleanup_json_ json_t *result = NULL;
        int r = step_run(s, json_array_get(s->steps, s->step), &result, &err);
        if (r < 0) {
            job_fail(o, &err, job_error_is_fault(err.code));
            return;
        }
        /* Sending artifacts may take long: a crash meanwhile must not repeat the last step. */
        bool last = s->step + 1 == n && !json_array_size(json_object_get(l->spec, "artifacts"));
        if (json_get_bool(result, "failed")) {
            o->failed = true;
            o->exit_reason = "step_failed";
            error_set(&o->error, EIO, "step %u (%s) failed", s->step,
                      json_get_string_or(result, "tool", ""));
        }
        if (last || o->failed)
            json_array_append(o->steps, result);
        else if (steps_store(s, result, &err) < 0)
            job_fail(o, &err, job_error_is_fault(err.code));
    }
}

void job_run_steps(struct job *j, struct job_outcome *ret)
{
    struct steps_run s = {.job = j, .steps = json_object_get(j->lease.spec, "steps")};
    struct error err = {0};
    size_t n = json_array_size(s.steps);
    if (n < 1 || n > STEPS_MAX) {
        error_set(&err, EINVAL, "the job has no steps, or more than %d", STEPS_MAX);
        job_fail(ret, &err, false);
        return;
    }
    int r = steps_open(&s, &err);
    if (r < 0)
        job_fail(ret, &err, s.no_box || job_error_is_fault(err.code));
    else
        steps_run_all(&s, ret);
    bool ended = r == 0 && ret->steps && !ret->retry && !cancel_asked(j->lease.cancel);
    if (ended && job_send_files(j, s.box, s.tools, &err) < 0 && !ret->failed)
        job_fail(ret, &err, false);
    steps_close(&s);
}
