/* See job_spec.h. A submission is copied, and each member that has several forms is replaced by its
 * stored one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "box_options.h"
#include "job_spec.h"
#include "json.h"
#include "jobs.h"
#include "schema.h"
#include "text.h"
#include "tool.h"
#include "banned.h"

#define TITLE_MAX 200
#define PATH_SIZE 64 /* of "steps[999]", "artifacts[99]" */

/* --- small things --- */

static bool text_has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            return true;
    return false;
}

static int spec_check_id(const json_t *value, const char *at, struct error *err)
{
    const char *id = json_string_value(value);
    if (!id || strlen(id) != JOB_ID_LEN ||
        strspn(id, "0123456789abcdefghjkmnpqrstvwxyz") != JOB_ID_LEN)
        return error_set(err, EINVAL, "%s: '%.40s' is not an ID of %d characters", at, id ? id : "",
                         JOB_ID_LEN);
    return 0;
}

/* --- steps --- */

#define CODE_INPUT                                                                                 \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["code"],                                                                     \
        "additionalProperties" : false,                                                            \
        "properties" : {                                                                           \
            "code" : {"type" : "string", "minLength" : 1},                                         \
            "timeout" : {"type" : "number", "exclusiveMinimum" : 0, "maximum" : 86400}             \
        }                                                                                          \
    })

/* Names that steps may use beside those of the table of tools. */
static const struct step_name {
    const char *name;
    const char *tool;  /* it is this tool; NULL: the worker knows it */
    const char *input; /* its schema, without a tool */
} STEP_NAMES[] = {
    {"shell", "bash", NULL}, {"python", NULL, CODE_INPUT}, {"typescript", NULL, CODE_INPUT}};

static int step_unknown(const char *name, const char *at, struct error *err)
{
    struct nearest near = nearest_to(name, strlen(name));
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            nearest_offer(&near, TOOLS[i]->name);
    for (size_t i = 0; i < ARRAY_SIZE(STEP_NAMES); i++)
        nearest_offer(&near, STEP_NAMES[i].name);
    return error_set(err, EINVAL, "%s.tool: there is no tool '%.60s'%s%s%s", at, name,
                     near.best ? "; did you mean '" : "; see GET /v1/tools",
                     near.best ? near.best : "", near.best ? "'?" : "");
}

static int step_check(const json_t *given, const char *at, json_t **ret, struct error *err)
{
    const char *name = json_get_string(given, "tool"), *tool = name, *schema = NULL;
    if (!name)
        return error_set(err, EINVAL, "%s: must be an object with a member 'tool'", at);
    for (size_t i = 0; i < ARRAY_SIZE(STEP_NAMES); i++)
        if (strcmp(name, STEP_NAMES[i].name) == 0) {
            tool = STEP_NAMES[i].tool ? STEP_NAMES[i].tool : name;
            schema = STEP_NAMES[i].input;
        }
    const struct tool *row = schema ? NULL : tool_builtin(tool);
    if (!row && !schema)
        return step_unknown(name, at, err);
    if (row && row->flags & TOOL_HOST)
        return error_set(err, EINVAL,
                         "%s.tool: '%s' works on the host of a person, so jobs cannot use it", at,
                         name);
    _cleanup_json_ json_t *input = json_copy((json_t *)given);
    json_object_del(input, "tool");
    int r = schema_check_text(schema ? schema : row->input, input, at, err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *step = json_pack("{s:s}", "tool", tool);
    if (!step || json_object_update(step, input) < 0)
        return error_set(err, ENOMEM, "no memory");
    *ret = TAKE_PTR(step);
    return 0;
}

static int steps_check(json_t *spec, const json_t *given, struct error *err)
{
    json_t *steps = json_array(), *one;
    size_t i;
    int r = json_object_set_new(spec, "steps", steps) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
    if (r == 0 && (json_array_size(given) < 1 || json_array_size(given) > JOB_STEPS_MAX))
        return error_set(err, EINVAL, "steps: must be a list of 1 to %d steps", JOB_STEPS_MAX);
    json_array_foreach(given, i, one)
    {
        char at[PATH_SIZE];
        json_t *step = NULL;
        snprintf(at, sizeof at, "steps[%zu]", i);
        if (r == 0)
            r = step_check(one, at, &step, err);
        if (r == 0 && json_array_append_new(steps, step) < 0)
            r = error_set(err, ENOMEM, "no memory");
    }
    return r;
}

/* --- goal, workspace, box --- */

/* Recordings are files of the worker's host. */
int job_spec_check_model(const char *model, const char *at, struct error *err)
{
    if (!model)
        return 0;
    if (!*model || text_has_control(model) || strncmp(model, "replay/", 7) == 0)
        return error_set(err, EINVAL, "%s: must be a model like anthropic/NAME or openai/NAME", at);
    return 0;
}

static int goal_check(json_t *spec, const json_t *given, struct error *err)
{
    json_t *goal =
        json_is_string(given) ? json_pack("{s:O}", "prompt", given) : json_copy((json_t *)given);
    if (!goal || json_object_set_new(spec, "goal", goal) < 0)
        return error_set(err, ENOMEM, "no memory");
    const char *prompt = json_get_string(goal, "prompt");
    if (!prompt || !*prompt)
        return error_set(err, EINVAL, "goal.prompt: must be a text");
    if (json_get_integer(goal, "attempts") > 1 && !json_get_string(goal, "test"))
        return error_set(err, EINVAL,
                         "goal.attempts: several attempts need goal.test, the command that chooses "
                         "between them");
    return job_spec_check_model(json_get_string(goal, "model"), "goal.model", err);
}

/* The worker's git fetches it, so: no local files, no remote helpers (ext::), no options. */
static int git_check(const char *url, const char *ref, struct error *err)
{
    static const char *const SCHEMES[] = {"https://", "http://", "ssh://"};
    bool known = false;
    for (size_t i = 0; i < ARRAY_SIZE(SCHEMES); i++)
        known |= strncasecmp(url, SCHEMES[i], strlen(SCHEMES[i])) == 0;
    if (!known || text_has_control(url))
        return error_set(err, EINVAL,
                         "workspace.git: must be a URL that begins with https://, http:// or "
                         "ssh://");
    if (ref && (!*ref || *ref == '-' || text_has_control(ref) || strpbrk(ref, " ~^:?*[\\") ||
                strstr(ref, "..")))
        return error_set(err, EINVAL, "workspace.ref: must be a branch, a tag or a commit");
    return 0;
}

int job_spec_check_workspace(const json_t *workspace, struct error *err)
{
    const char *git = json_get_string(workspace, "git"), *ref = json_get_string(workspace, "ref");
    const json_t *upload = json_object_get(workspace, "upload"),
                 *job = json_object_get(workspace, "job");
    if ((git != NULL) + (upload != NULL) + (job != NULL) != 1)
        return error_set(err, EINVAL, "workspace: must have one of upload, git and job");
    if (ref && !git)
        return error_set(err, EINVAL, "workspace.ref: belongs to workspace.git only");
    return git      ? git_check(git, ref, err)
           : upload ? spec_check_id(upload, "workspace.upload", err)
                    : spec_check_id(job, "workspace.job", err);
}

/* Numbers may be written as such: {"pids": 100, "cpus": 1.5}. */
static json_t *box_value_text(const json_t *value)
{
    char text[64];
    if (json_is_string(value))
        return json_incref((json_t *)value);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value) && json_real_value(value) < 1e6)
        snprintf(text, sizeof text, "%.3f", json_real_value(value));
    else
        return NULL;
    return json_string(text);
}

static int box_env_check(struct box_spec *spec, json_t *ret, const json_t *env, const char *at,
                         struct error *err)
{
    const char *name;
    json_t *value;
    json_t *texts = json_object();
    int r = json_object_set_new(ret, "env", texts) < 0 ? error_set(err, ENOMEM, "no memory") : 0;
    if (r == 0 && !json_is_object(env))
        return error_set(err, EINVAL, "%s.env: must be an object of strings", at);
    json_object_foreach((json_t *)env, name, value)
    {
        json_t *text = r == 0 ? box_value_text(value) : NULL;
        if (r == 0 &&
            (!text || json_object_set_new(texts, name, text) < 0 || !*name || strchr(name, '=')))
            r = error_set(err, EINVAL, "%s.env: '%.60s' must be a name with a string", at, name);
        if (r == 0) {
            const char *pair =
                box_spec_keep(spec, str_printf("%s=%s", name, json_string_value(text)));
            r = pair ? box_spec_set(spec, "env", pair, err)
                     : error_set(err, EINVAL, "too many variables");
            if (r < 0)
                error_wrap(err, "%s", at);
        }
    }
    return r;
}

int job_spec_check_box(const json_t *box, bool admin, const char *at, json_t **ret,
                       struct error *err)
{
    /* Not: workspace, mode, ro and rw, which name files of the worker's host. */
    static const char *const NAMES[] = {"net",  "memory",  "disk",     "pids", "files",
                                        "cpus", "timeout", "cpu_time", "image"};
    const char *name;
    json_t *value;
    if (!box || json_is_null(box)) {
        *ret = NULL;
        return 0;
    }
    _cleanup_json_ json_t *texts = json_object();
    _cleanup_box_spec_ struct box_spec spec;
    box_spec_init(&spec, "");
    json_object_foreach((json_t *)box, name, value)
    {
        bool known = strcmp(name, "env") == 0;
        for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
            known |= strcmp(name, NAMES[i]) == 0;
        if (!known)
            return error_set(err, EINVAL,
                             "%s.%.40s: there is no such option; there are net, memory, disk, "
                             "pids, files, cpus, timeout, cpu_time, image and env",
                             at, name);
        if (strcmp(name, "env") == 0) {
            int r = box_env_check(&spec, texts, value, at, err);
            if (r < 0)
                return r;
            continue;
        }
        json_t *text = box_value_text(value);
        if (!text || json_object_set_new(texts, name, text) < 0)
            return error_set(err, EINVAL, "%s.%s: must be a string or a number", at, name);
        if (strcmp(name, "net") == 0 && strcmp(json_string_value(text), "host") == 0 && !admin)
            return error_set(err, EINVAL,
                             "%s.net: only an admin may give a box the network of its worker; use "
                             "allow:HOST",
                             at);
        int r = box_spec_set(&spec, name, json_string_value(text), err);
        if (r < 0)
            return error_wrap(err, "%s", at);
    }
    *ret = TAKE_PTR(texts);
    return *ret ? 0 : error_set(err, ENOMEM, "no memory");
}

/* --- the rest --- */

/* Globs of paths in the workspace. */
static int artifacts_check(const json_t *globs, struct error *err)
{
    size_t i;
    json_t *one;
    json_array_foreach(globs, i, one)
    {
        const char *s = json_string_value(one);
        if (!s || !*s || *s == '/' || text_has_control(s) || strcmp(s, "..") == 0 ||
            strncmp(s, "../", 3) == 0 || strstr(s, "/../"))
            return error_set(err, EINVAL,
                             "artifacts[%zu]: must be a pattern of paths in the workspace, like "
                             "out/**",
                             i);
    }
    return 0;
}

/* What a list shows: the first line of the goal, of the first command or of its code. */
static int title_set(json_t *spec, struct error *err)
{
    const json_t *step = json_array_get(json_object_get(spec, "steps"), 0);
    const char *from = json_get_string(spec, "title");
    if (!from || !*from)
        from = json_get_string(json_object_get(spec, "goal"), "prompt");
    if (!from)
        from = json_get_string(step, "command");
    if (!from)
        from = json_get_string(step, "code");
    if (!from)
        from = json_get_string_or(step, "tool", "");
    from += strspn(from, " \t\r\n");
    _cleanup_free_ char *title = foreign_text(from, strcspn(from, "\r\n"), TITLE_MAX);
    if (!title || json_object_set_new(spec, "title", json_string(title)) < 0)
        return error_set(err, ENOMEM, "no memory");
    return 0;
}

static int ids_check(const json_t *spec, struct error *err)
{
    const json_t *memory = json_object_get(spec, "memory_from");
    size_t i;
    json_t *id;
    int r = memory ? spec_check_id(memory, "memory_from", err) : 0;
    json_array_foreach(json_object_get(spec, "after"), i, id)
    {
        char at[PATH_SIZE];
        snprintf(at, sizeof at, "after[%zu]", i);
        if (r == 0)
            r = spec_check_id(id, at, err);
    }
    return r;
}

/* The copy is shallow: what it has from the submission lives as long as that. */
int job_spec_check(const json_t *submission, bool admin, json_t **ret_spec, const char **ret_kind,
                   struct error *err)
{
    bool list = json_is_array(submission);
    _cleanup_json_ json_t *spec = list ? json_object() : json_copy((json_t *)submission);
    const char *name;
    json_t *member, *box = NULL;
    void *next;
    json_object_foreach_safe(spec, next, name, member)
    {
        if (json_is_null(member))
            json_object_del(spec, name);
    }
    const json_t *steps = list ? submission : json_object_get(spec, "steps");
    const json_t *goal = json_object_get(spec, "goal");
    const json_t *workspace = json_object_get(spec, "workspace");
    if (!spec)
        return error_set(err, ENOMEM, "no memory");
    if (!steps == !goal)
        return error_set(err, EINVAL, "a job has either steps or a goal");
    int r = steps ? steps_check(spec, steps, err) : goal_check(spec, goal, err);
    if (r == 0 && workspace)
        r = job_spec_check_workspace(workspace, err);
    if (r == 0)
        r = job_spec_check_box(json_object_get(spec, "box"), admin, "box", &box, err);
    if (r == 0 && box && json_object_set_new(spec, "box", box) < 0)
        r = error_set(err, ENOMEM, "no memory");
    if (r == 0)
        r = artifacts_check(json_object_get(spec, "artifacts"), err);
    if (r == 0)
        r = ids_check(spec, err);
    if (r == 0)
        r = title_set(spec, err);
    if (r < 0)
        return r;
    *ret_kind = steps ? "steps" : "goal";
    *ret_spec = TAKE_PTR(spec);
    return 0;
}
