/* `hutch job submit`. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "job.h"
#include "json.h"
#include "banned.h"

#define LIST_MAX 100
#define FILE_MAX (16u << 20)

struct words {
    const char *items[LIST_MAX];
    size_t n;
};

struct submit_options {
    struct job_server server; /* first */
    const char *title, *workspace, *ref, *goal, *file, *model, *test, *priority, *timeout, *keep,
        *not_before, *memory_from;
    const char *net, *memory, *disk, *cpus, *image;
    const char *max_cost;
    uint64_t max_attempts, attempts, max_turns;
    struct words artifacts, after, labels, env;
    bool all, wait, json;
};

/* --- the submission --- */

static int words_parse(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    struct words *w = (struct words *)((char *)target + self->field);
    if (!*value || w->n == LIST_MAX)
        return error_set(err, EINVAL,
                         *value ? "it is given more than %d times" : "the value is empty",
                         LIST_MAX);
    w->items[w->n++] = value;
    return 0;
}

static void set_string(json_t *object, const char *name, const char *value)
{
    if (value)
        json_object_set_new(object, name, json_string(value));
}

static void set_list(json_t *object, const char *name, const struct words *w)
{
    json_t *list = w->n ? json_array() : NULL;
    for (size_t i = 0; i < w->n; i++)
        json_array_append_new(list, json_string(w->items[i]));
    if (list)
        json_object_set_new(object, name, list);
}

/* NAME=VALUE of an option, as a member of the object. */
static int set_pairs(json_t *object, const char *member, const char *option, const struct words *w,
                     struct error *err)
{
    _cleanup_json_ json_t *pairs = json_object();
    for (size_t i = 0; i < w->n; i++) {
        const char *equals = strchr(w->items[i], '=');
        _cleanup_free_ char *name =
            equals ? strndup(w->items[i], (size_t)(equals - w->items[i])) : NULL;
        if (!name || !*name)
            return error_set(err, EINVAL, "%s: '%s' is not NAME=VALUE", option, w->items[i]);
        if (json_object_set_new(pairs, name, json_string(equals + 1)) < 0)
            return error_set(err, EINVAL, "%s: '%s' is not UTF-8", option, w->items[i]);
    }
    if (w->n)
        json_object_set(object, member, pairs);
    return 0;
}

/* A command line of words, so that a shell reads the same words; one word is a script. */
static char *shell_line(int argc, char *const *argv)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=@%+,";
    _cleanup_buf_ struct buf line = BUF_INIT(FILE_MAX);
    if (argc == 1)
        return strdup(argv[0]);
    for (int i = 0; i < argc; i++) {
        bool plain = *argv[i] && argv[i][strspn(argv[i], PLAIN)] == 0;
        buf_append_str(&line, i ? " " : "");
        buf_append_str(&line, plain ? "" : "'");
        for (const char *c = argv[i]; *c; c++)
            if (*c == '\'')
                buf_append_str(&line, "'\\''");
            else
                buf_append(&line, c, 1);
        buf_append_str(&line, plain ? "" : "'");
    }
    const char *text = line.failed ? NULL : buf_cstr(&line);
    return text ? strdup(text) : NULL;
}

/* The file of -f: an object, or a list of steps. */
static int submission_read(const char *file, json_t **ret, struct error *err)
{
    bool in = strcmp(file, "-") == 0;
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    json_error_t where;
    int r = in ? io_read_all(STDIN_FILENO, &text) : io_read_file(AT_FDCWD, file, &text);
    if (r < 0)
        return error_errno(err, -r, "cannot read %s", in ? "standard input" : file);
    json_t *value = json_loadb((const char *)text.data, text.len, 0, &where);
    if (!value)
        return error_set(err, EINVAL, "%s:%d: not JSON: %s", file, where.line, where.text);
    *ret = json_is_array(value) ? json_pack("{s:o}", "steps", value) : value;
    return *ret ? 0 : error_set(err, ENOMEM, "no memory");
}

static json_t *goal_of_options(const struct submit_options *o)
{
    json_t *goal = json_pack("{s:s}", "prompt", o->goal);
    set_string(goal, "model", o->model);
    set_string(goal, "test", o->test);
    if (o->attempts)
        json_object_set_new(goal, "attempts", json_integer((json_int_t)o->attempts));
    if (o->max_turns)
        json_object_set_new(goal, "max_turns", json_integer((json_int_t)o->max_turns));
    if (o->max_cost)
        json_object_set_new(goal, "max_cost", json_real(strtod(o->max_cost, NULL)));
    return goal;
}

/* Everything but the workspace. */
static int submission_of_options(const struct submit_options *o, int argc, char *const *argv,
                                 json_t **ret, struct error *err)
{
    _cleanup_json_ json_t *s = NULL;
    _cleanup_free_ char *command = argc ? shell_line(argc, argv) : NULL;
    int r = 0;
    if ((o->goal != NULL) + (o->file != NULL) + (argc > 0) != 1)
        return error_set(err, EINVAL, "give one of --goal, --file and a command");
    if (!o->goal && (o->model || o->test || o->attempts || o->max_turns || o->max_cost))
        return error_set(
            err, EINVAL,
            "--model, --test, --attempts, --max-turns and --max-cost belong to --goal");
    if (o->file)
        r = submission_read(o->file, &s, err);
    else if (o->goal)
        s = json_pack("{s:o}", "goal", goal_of_options(o));
    else if (command)
        s = json_pack("{s:[{s:s, s:s}]}", "steps", "tool", "shell", "command", command);
    if (r == 0 && !s)
        r = error_set(err, EINVAL, "the command or goal is not UTF-8");
    if (r < 0)
        return r;
    set_string(s, "title", o->title);
    set_string(s, "timeout", o->timeout);
    set_string(s, "keep", o->keep);
    set_string(s, "not_before", o->not_before);
    set_string(s, "memory_from", o->memory_from);
    set_list(s, "artifacts", &o->artifacts);
    set_list(s, "after", &o->after);
    if (o->max_attempts)
        json_object_set_new(s, "max_attempts", json_integer((json_int_t)o->max_attempts));
    if (o->priority) {
        char *end;
        long priority = strtol(o->priority, &end, 10);
        if (*end)
            return error_set(err, EINVAL, "--priority: '%s' is not a number", o->priority);
        json_object_set_new(s, "priority", json_integer(priority));
    }
    json_t *box = json_object_get(s, "box");
    box = box ? json_incref(box) : json_object();
    set_string(box, "net", o->net);
    set_string(box, "memory", o->memory);
    set_string(box, "disk", o->disk);
    set_string(box, "cpus", o->cpus);
    set_string(box, "image", o->image);
    r = set_pairs(box, "env", "--env", &o->env, err);
    if (r == 0)
        r = set_pairs(s, "labels", "--label", &o->labels, err);
    if (json_object_size(box))
        json_object_set(s, "box", box);
    json_decref(box);
    if (r == 0)
        *ret = TAKE_PTR(s);
    return r;
}

/* --- the workspace --- */

static int workspace_upload(struct api *a, int fd, uint64_t size, json_t **ret, struct error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    struct api_request q = {
        .method = "POST", .path = "/v1/uploads", .upload = fd, .upload_size = size};
    int r = api_json_call(a, &q, &answer, err);
    if (r < 0)
        return error_wrap(err, "cannot upload the workspace");
    *ret = json_pack("{s:s}", "upload", json_get_string_or(answer, "id", ""));
    return *ret ? 0 : error_set(err, ENOMEM, "no memory");
}

static int workspace_of_option(struct api *a, const struct submit_options *o, json_t **ret,
                               struct error *err)
{
    const char *given = o->workspace;
    _cleanup_fd_ int fd = -1;
    struct stat st;
    uint64_t size = 0;
    if (strstr(given, "://")) {
        *ret = json_pack("{s:s, s:s*}", "git", given, "ref", o->ref);
        return *ret ? 0 : error_set(err, EINVAL, "--workspace: the URL is not UTF-8");
    }
    if (o->ref)
        return error_set(err, EINVAL,
                         "--ref belongs to a workspace that is the URL of a git repository");
    if (strncmp(given, "job:", 4) == 0) {
        *ret = json_pack("{s:s}", "job", given + 4);
        return *ret ? 0 : error_set(err, EINVAL, "--workspace: the ID is not UTF-8");
    }
    if (stat(given, &st) < 0)
        return error_errno(err, errno, "cannot read the workspace '%s'", given);
    if (S_ISDIR(st.st_mode)) {
        int r = job_pack(given, o->all, &fd, &size, err);
        if (r < 0)
            return r;
    } else {
        fd = open(given, O_RDONLY | O_CLOEXEC);
        size = (uint64_t)st.st_size;
        if (fd < 0 || !S_ISREG(st.st_mode) || size == 0)
            return error_set(err, EINVAL, "the workspace '%s' is not a folder, a tar or a zip",
                             given);
    }
    return workspace_upload(a, fd, size, ret, err);
}

/* --- the command --- */

/* However often the submission is sent, it is one job. */
static int submission_send(struct api *a, const json_t *submission, json_t **ret, struct error *err)
{
    unsigned char random[16];
    char key[2 * sizeof random + 1];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return error_errno(err, errno, "cannot make a random key");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(key + 2 * i, 3, "%02x", random[i]);
    _cleanup_free_ char *body = json_dumps(submission, JSON_COMPACT);
    struct api_request q = {.method = "POST", .path = "/v1/jobs", .body = body, .idempotency = key};
    return body ? api_json_call(a, &q, ret, err) : error_set(err, ENOMEM, "no memory");
}

static int submit_wait(struct api *a, const char *id, bool json)
{
    struct error err = {0};
    json_t *job = NULL;
    if (job_watch(a, id, true, json, &job, &err) < 0) {
        if (interrupt_signal())
            say("the job goes on: 'hutch job wait %s' waits for it, 'hutch job cancel %s' ends it",
                id, id);
        return job_failure(&err);
    }
    int status = job_exit_status(job);
    if (json)
        output_json(TAKE_PTR(job), JSON_INDENT(2));
    json_decref(job);
    return status;
}

static int submit_run(const struct command *self, int argc, char **argv)
{
    struct submit_options o = {0};
    struct error err = {0};
    _cleanup_json_ json_t *submission = NULL, *workspace = NULL, *job = NULL;
    _cleanup_api_ struct api a = {0};
    int used = 0;
    int r = options_parse(self->body->options, argc, argv, &o, &used, &err);
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r == 0)
        r = submission_of_options(&o, argc - used, argv + used, &submission, &err);
    if (r < 0)
        return err.code == EINVAL ? say_usage(&err) : say_failure(&err);
    r = job_server_open(&o.server, &a, &err);
    if (r == 0 && o.workspace)
        r = workspace_of_option(&a, &o, &workspace, &err);
    if (r == 0 && workspace)
        json_object_set(submission, "workspace", workspace);
    if (r == 0)
        r = submission_send(&a, submission, &job, &err);
    const char *id = json_get_string(job, "id");
    if (r == 0 && !id)
        r = error_set(&err, EPROTO, "the answer of %s has no job: is it a hutch server?", a.name);
    if (r < 0)
        return job_failure(&err);
    if (o.wait)
        return submit_wait(&a, id, o.json);
    if (o.json)
        output_json(json_incref(job), JSON_INDENT(2));
    else
        printf("%s\n", id);
    return 0;
}

#define AT(member) offsetof(struct submit_options, member)

static const struct option SUBMIT_OPTIONS[] = {
    {"title", 0, "TEXT", "title in lists", "the command or goal", OPTION_ALWAYS, AT(title),
     option_parse_string},
    {"workspace", 'w', "SOURCE",
     "what /workspace begins with: a folder, a tar or zip, the URL of a git repository, or job:ID "
     "for the result of a job",
     "empty", OPTION_ALWAYS, AT(workspace), option_parse_string},
    {"all", 0, NULL, "also send what git ignores, and .git", NULL, OPTION_ALWAYS, AT(all),
     option_parse_flag},
    {"ref", 0, "REF", "branch, tag or commit of the git repository", "its default branch",
     OPTION_ALWAYS, AT(ref), option_parse_string},
    {"goal", 0, "TEXT", "let an agent carry out this goal", NULL, OPTION_ALWAYS, AT(goal),
     option_parse_string},
    {"file", 'f', "FILE", "read the submission, or a list of steps, from a JSON file; - is stdin",
     NULL, OPTION_ALWAYS, AT(file), option_parse_string},
    {"model", 0, "MODEL", "model of the agent", "the worker's", OPTION_ALWAYS, AT(model),
     option_parse_string},
    {"test", 0, "CMD", "command that scores an attempt of the agent", NULL, OPTION_ALWAYS, AT(test),
     option_parse_string},
    {"attempts", 0, "N", "let the agent try N times and keep the best", "1", OPTION_ALWAYS,
     AT(attempts), option_parse_count},
    {"max-turns", 0, "N", "requests to the model at most", NULL, OPTION_ALWAYS, AT(max_turns),
     option_parse_count},
    {"max-cost", 0, "DOLLARS", "cost of the agent at most", NULL, OPTION_ALWAYS, AT(max_cost),
     option_parse_string},
    {"artifact", 0, "GLOB", "keep these files of the workspace", NULL,
     OPTION_ALWAYS | OPTION_REPEATS, AT(artifacts), words_parse},
    {"after", 0, "ID", "start after this job has completed", NULL, OPTION_ALWAYS | OPTION_REPEATS,
     AT(after), words_parse},
    {"memory-from", 0, "ID", "load the memory of this job", NULL, OPTION_ALWAYS, AT(memory_from),
     option_parse_string},
    {"label", 0, "K=V", "label to find the job by", NULL, OPTION_ALWAYS | OPTION_REPEATS,
     AT(labels), words_parse},
    {"priority", 0, "N", "jobs with a higher priority start first, -100 to 100", "0", OPTION_ALWAYS,
     AT(priority), option_parse_string},
    {"timeout", 0, "T", "time limit of the job", NULL, OPTION_ALWAYS, AT(timeout),
     option_parse_string},
    {"not-before", 0, "TIME", "start no earlier, as 2026-11-18T20:00:00Z", NULL, OPTION_ALWAYS,
     AT(not_before), option_parse_string},
    {"keep", 0, "T", "keep the ended job for this long", "the server's", OPTION_ALWAYS, AT(keep),
     option_parse_string},
    {"max-attempts", 0, "N", "attempts when a worker is lost or cannot start the job", "3",
     OPTION_ALWAYS, AT(max_attempts), option_parse_count},
    {"net", 0, "off|allow:H[:P]", "network of the box", "off", OPTION_ALWAYS, AT(net),
     option_parse_string},
    {"memory", 0, "S", "memory of the box", NULL, OPTION_ALWAYS, AT(memory), option_parse_string},
    {"disk", 0, "S", "bytes that the box can write", NULL, OPTION_ALWAYS, AT(disk),
     option_parse_string},
    {"cpus", 0, "F", "processors of the box", NULL, OPTION_ALWAYS, AT(cpus), option_parse_string},
    {"image", 0, "NAME", "root filesystem of the box, on the worker", NULL, OPTION_ALWAYS,
     AT(image), option_parse_string},
    {"env", 0, "K=V", "set this variable in the box", NULL, OPTION_ALWAYS | OPTION_REPEATS, AT(env),
     words_parse},
    {"wait", 0, NULL, "follow the job and end with its status", NULL, OPTION_ALWAYS, AT(wait),
     option_parse_flag},
    {"json", 0, NULL, "print the job as JSON", NULL, OPTION_ALWAYS, AT(json), option_parse_flag},
    {0},
};

const struct command_body COMMAND_JOB_SUBMIT = {
    .usage = "[OPTIONS] (--goal TEXT | --file FILE | [--] COMMAND [ARG...])",
    .options = {{SUBMIT_OPTIONS, OPTION_ALWAYS}, {JOB_SERVER_OPTIONS, OPTION_ALWAYS}},
    .notes =
        "Prints the ID of the job. With --wait the exit status is 0 if the job completed, 1 if "
        "it failed, 124 after a time limit, 130 if it was cancelled, 125 if hutch failed. A "
        "single COMMAND word is a shell script; several are one command. Of a folder in a git "
        "repository everything is sent that git does not ignore, without .git.",
    .run = submit_run};
