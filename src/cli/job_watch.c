/* Following a job: `hutch job submit --wait`, `wait` and `logs -f`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "json.h"
#include "text.h"
#include "banned.h"

#define LINE_MAX_BYTES 400

struct watch {
    const char *id;
    unsigned steps; /* 0: not known */
    bool quiet_output, line_open;
};

/* Text of a box on stdout; a terminal gets it without control characters. */
static int watch_put_text(struct watch *w, const char *text)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(HARMLESS_GROWTH * (strlen(text) + 4));
    struct harmless h = {0};
    size_t n = strlen(text);
    if (w->quiet_output || n == 0)
        return 0;
    if (isatty(STDOUT_FILENO) && harmless_append(&h, text, n, &clean) == 0) {
        text = (const char *)clean.data;
        n = clean.len;
    }
    w->line_open = text[n - 1] != '\n';
    return output_write(text, n);
}

static void watch_end_line(struct watch *w)
{
    if (w->line_open)
        output_write("\n", 1);
    w->line_open = false;
}

static void watch_say_step(struct watch *w, const json_t *event)
{
    const char *status = json_get_string_or(event, "status", "");
    char number[64], tool[64];
    int n = snprintf(number, sizeof number, "step %" JSON_INTEGER_FORMAT,
                     json_get_integer(event, "step") + 1);
    if (w->steps)
        snprintf(number + n, sizeof number - (size_t)n, "/%u", w->steps);
    say_clean(json_get_string_or(event, "tool", ""), tool, sizeof tool);
    if (strcmp(status, "started") == 0) {
        say("%s %s", number, tool);
        return;
    }
    watch_put_text(w, json_get_string_or(event, "text", ""));
    watch_end_line(w);
    say("%s %s %s after %.1f s", number, tool, status,
        json_number_value(json_object_get(event, "seconds")));
}

static void watch_say_plan(const json_t *items)
{
    size_t i, done = 0;
    json_t *item;
    char text[LINE_MAX_BYTES] = "";
    json_array_foreach(items, i, item)
    {
        const char *state = json_get_string_or(item, "state", "");
        done += strcmp(state, "done") == 0;
        if (strcmp(state, "active") == 0)
            say_clean(json_get_string_or(item, "text", ""), text, sizeof text);
    }
    say("plan: %zu of %zu done%s%s", done, json_array_size(items), *text ? "; " : "", text);
}

static int watch_show(void *data, const json_t *event)
{
    struct watch *w = data;
    const char *type = json_get_string_or(event, "type", ""),
               *text = json_get_string_or(event, "text", "");
    char name[LINE_MAX_BYTES];
    if (!event)
        return 0;
    if (strcmp(type, "text") == 0)
        return watch_put_text(w, text) == 0 ? 0 : -EIO;
    if (strcmp(type, "progress") == 0 || strcmp(type, "thinking") == 0 ||
        strcmp(type, "usage") == 0 || strcmp(type, "tool_result") == 0)
        return 0;
    watch_end_line(w);
    if (strcmp(type, "state") == 0) {
        const char *error = json_get_string(event, "error");
        say("job %s %s%s%s", w->id, json_get_string_or(event, "state", ""), error ? ": " : "",
            error ? error : "");
    } else if (strcmp(type, "step") == 0) {
        watch_say_step(w, event);
    } else if (strcmp(type, "plan") == 0) {
        watch_say_plan(json_object_get(event, "items"));
    } else if (strcmp(type, "artifact") == 0) {
        say("artifact %s (%" JSON_INTEGER_FORMAT " bytes)",
            say_clean(json_get_string_or(event, "path", ""), name, sizeof name),
            json_get_integer(event, "size"));
    } else if (strcmp(type, "tool_call") == 0) {
        say("%s", say_clean(json_get_string_or(event, "name", ""), name, sizeof name));
    } else if (strcmp(type, "log") == 0 || strcmp(type, "error") == 0) {
        say("%s", say_clean(text, name, sizeof name));
    }
    return 0;
}

static int watch_nothing(void *data, const json_t *event)
{
    return 0;
}

int job_watch(struct api *a, const char *id, bool progress, bool quiet_output, json_t **ret,
              struct error *err)
{
    struct watch w = {.id = id, .quiet_output = quiet_output};
    _cleanup_json_ json_t *job = NULL;
    char path[JOB_PATH_MAX];
    int r = job_path(id, "/events", path, err);
    if (r == 0)
        r = job_get(a, id, &job, err);
    w.steps = (unsigned)json_get_integer(job, "steps_total");
    if (r == 0 && (progress || json_is_null(json_object_get(job, "finished_at")))) {
        json_decref(job);
        job = NULL;
        r = api_follow(a, path, progress ? watch_show : watch_nothing, &w, err);
        watch_end_line(&w);
        if (r == 0)
            r = job_get(a, id, &job, err);
    }
    if (r < 0)
        return err && err->code ? r : error_errno(err, -r, "cannot follow job %s", id);
    *ret = TAKE_PTR(job);
    return 0;
}

/* --- the log --- */

struct log_tail {
    struct api *api;
    char path[JOB_PATH_MAX];
    uint64_t printed; /* bytes of agent.log */
    struct error failure;
};

/* Prints what was added. */
static int log_read(struct log_tail *l, struct error *err)
{
    uint64_t size = 0;
    struct error failure = {0};
    int r = api_download(l->api, l->path, l->printed, STDOUT_FILENO, &size, &failure);
    l->printed += size;
    if (r == -ENOENT || r == -ERANGE) /* nothing (yet) */
        return 0;
    if (r < 0 && err)
        *err = failure;
    return r;
}

static int log_on_event(void *data, const json_t *event)
{
    struct log_tail *l = data;
    return event ? 0 : log_read(l, &l->failure);
}

int job_print_log(struct api *a, const char *id, bool follow, struct error *err)
{
    struct log_tail l = {.api = a};
    _cleanup_json_ json_t *job = NULL;
    char path[JOB_PATH_MAX];
    int r = job_path(id, "/log", l.path, err);
    if (r == 0)
        r = job_path(id, "/events", path, err);
    if (r == 0)
        r = job_get(a, id, &job, err); /* no log is no error, no job is one */
    if (r == 0)
        r = log_read(&l, err);
    if (r < 0 || !follow || !json_is_null(json_object_get(job, "finished_at")))
        return r;
    r = api_follow(a, path, log_on_event, &l, err);
    if (r < 0 && l.failure.code && err)
        *err = l.failure;
    return r < 0 ? r : log_read(&l, err);
}
