/* `hutch job` but for submit (job_submit.c): reads, lists and ends jobs. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "job.h"
#include "json.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define LIST_DEFAULT 50
#define PAGE_MAX     500
#define QUERY_MAX    4096
#define KEY_MAX      4096

struct job_options {
    struct job_server server; /* first */
    const char *state, *search, *label, *output;
    uint64_t count;
    bool json, follow;
};

#define AT(member) offsetof(struct job_options, member)

const struct option JOB_SERVER_OPTIONS[] = {
    {"server", 0, "URL", "server, as http://HOST:PORT, https://HOST:PORT or unix:PATH",
     "HUTCH_SERVER, or http://127.0.0.1:8642", OPTION_ALWAYS, offsetof(struct job_server, server),
     option_parse_string},
    {"key", 0, "FILE", "file with the key (or HUTCH_API_KEY, the key itself)", NULL, OPTION_ALWAYS,
     offsetof(struct job_server, key_file), option_parse_string},
    {0},
};

int job_server_open(const struct job_server *o, struct api *ret, struct error *err)
{
    _cleanup_buf_ struct buf key = BUF_INIT(KEY_MAX);
    int r = o->key_file ? ownfile_read(o->key_file, &key, err) : 0;
    if (r < 0)
        return r;
    if (o->key_file && key.len == 0)
        return error_set(err, EINVAL, "%s holds no key", o->key_file);
    char *text = key.len ? buf_cstr(&key) : NULL;
    if (text)
        text[strcspn(text, "\r\n")] = 0;
    r = interrupt_watch(err);
    return r < 0 ? r : api_open(o->server, text, ret, err);
}

int job_failure(const struct error *err)
{
    return interrupt_signal() ? 128 + interrupt_signal() : say_failure(err);
}

int job_path(const char *id, const char *below, char path[JOB_PATH_MAX], struct error *err)
{
    if (!*id || strlen(id) > 40 || strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz") != strlen(id))
        return error_set(err, EINVAL, "'%s' is not the ID of a job", id);
    snprintf(path, JOB_PATH_MAX, "/v1/jobs/%s%s", id, below);
    return 0;
}

int job_get(struct api *a, const char *id, json_t **ret, struct error *err)
{
    char path[JOB_PATH_MAX];
    int r = job_path(id, "", path, err);
    return r < 0 ? r : api_json(a, "GET", path, NULL, ret, err);
}

int job_exit_status(const json_t *job)
{
    const char *state = json_get_string_or(job, "state", "");
    if (strcmp(state, "completed") == 0)
        return 0;
    if (strcmp(state, "cancelled") == 0)
        return EXIT_CANCELLED;
    return strcmp(json_get_string_or(job, "exit_reason", ""), "timeout") == 0 ? EXIT_TIMEOUT : 1;
}

/* Parses options and words and opens the server. False: the command ends with *ret_status. */
static bool job_begin(const struct command *self, int argc, char **argv, int min, int max,
                      struct job_options *o, struct api *a, int *ret_n, int *ret_status)
{
    struct error err = {0};
    if (!command_words(self, argc, argv, o, min, max, ret_n, ret_status))
        return false;
    if (job_server_open(&o->server, a, &err) == 0)
        return true;
    *ret_status = err.code == EINVAL ? say_usage(&err) : say_failure(&err);
    return false;
}

/* --- status, ls --- */

static void status_print(const json_t *job, const char *label, const char *member)
{
    char text[4096];
    const char *value = json_get_string(job, member);
    if (value)
        printf("%-9s %s\n", label, say_clean(value, text, sizeof text));
}

static void status_print_all(const json_t *job)
{
    json_int_t total = json_get_integer(job, "steps_total");
    size_t i;
    json_t *item;
    status_print(job, "id", "id");
    status_print(job, "title", "title");
    printf("%-9s %s, attempt %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT, "state",
           json_get_string_or(job, "state", ""), json_get_integer(job, "attempt"),
           json_get_integer(job, "max_attempts"));
    if (total)
        printf(", %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " steps done",
               json_get_integer(job, "steps_done"), total);
    printf("\n");
    status_print(job, "reason", "exit_reason");
    status_print(job, "error", "error");
    status_print(job, "created", "created_at");
    status_print(job, "started", "started_at");
    status_print(job, "finished", "finished_at");
    status_print(job, "worker", "worker");
    if (json_is_number(json_object_get(job, "cost")))
        printf("%-9s $%.4f\n", "cost", json_number_value(json_object_get(job, "cost")));
    json_array_foreach(json_object_get(job, "plan"), i, item)
    {
        char text[1024], state[32];
        printf("%-9s %-7s %s\n", i ? "" : "plan",
               say_clean(json_get_string_or(item, "state", ""), state, sizeof state),
               say_clean(json_get_string_or(item, "text", ""), text, sizeof text));
    }
}

static int status_run(const struct command *self, int argc, char **argv)
{
    struct job_options o = {0};
    struct error err = {0};
    _cleanup_api_ struct api a = {0};
    _cleanup_json_ json_t *job = NULL;
    int n, status;
    if (!job_begin(self, argc, argv, 1, 1, &o, &a, &n, &status))
        return status;
    if (job_get(&a, argv[0], &job, &err) < 0)
        return job_failure(&err);
    if (o.json)
        output_json(TAKE_PTR(job), JSON_INDENT(2));
    else
        status_print_all(job);
    return 0;
}

/* How long ago "2026-11-18T19:54:03.123Z" was. */
static const char *job_age(const json_t *job, char *out, size_t size)
{
    struct tm t = {0};
    const char *created = json_get_string_or(job, "created_at", "");
    if (!strptime(created, "%Y-%m-%dT%H:%M:%S", &t))
        return "-";
    time_t seconds = time(NULL) - timegm(&t);
    return units_rough_time(seconds > 0 ? seconds * NS_PER_S : 0, out, size);
}

static void ls_print(const json_t *job, bool first)
{
    char age[32], steps[48], title[1024], state[32];
    snprintf(steps, sizeof steps, "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
             json_get_integer(job, "steps_done"), json_get_integer(job, "steps_total"));
    if (first)
        printf("%-20s  %-9s  %5s  %7s  %s\n", "ID", "STATE", "AGE", "STEPS", "TITLE");
    printf("%-20s  %-9s  %5s  %7s  %s\n", json_get_string_or(job, "id", ""),
           say_clean(json_get_string_or(job, "state", ""), state, sizeof state),
           job_age(job, age, sizeof age), json_get_integer(job, "steps_total") ? steps : "-",
           say_clean(json_get_string_or(job, "title", ""), title, sizeof title));
}

static int ls_query(const struct job_options *o, const char *before, uint64_t limit,
                    struct buf *path, struct error *err)
{
    const char *const members[][2] = {
        {"state", o->state}, {"search", o->search}, {"label", o->label}, {"before", before}};
    path->len = 0;
    buf_printf(path, "/v1/jobs?limit=%u", (unsigned)(limit < PAGE_MAX ? limit : PAGE_MAX));
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        if (!members[i][1])
            continue;
        buf_printf(path, "&%s=", members[i][0]);
        api_quote(path, members[i][1], "");
    }
    return buf_cstr(path) ? 0 : error_set(err, EINVAL, "the search is too long");
}

static int ls_run(const struct command *self, int argc, char **argv)
{
    struct job_options o = {.count = LIST_DEFAULT};
    struct error err = {0};
    _cleanup_api_ struct api a = {0};
    _cleanup_json_ json_t *all = json_array(), *page = NULL;
    _cleanup_buf_ struct buf path = BUF_INIT(QUERY_MAX);
    const char *before = NULL;
    uint64_t shown = 0;
    int n, status;
    if (!job_begin(self, argc, argv, 0, 0, &o, &a, &n, &status))
        return status;
    do {
        size_t i;
        json_t *job, *next = NULL;
        int r = ls_query(&o, before, o.count - shown, &path, &err);
        if (r == 0)
            r = api_json(&a, "GET", (const char *)path.data, NULL, &next, &err);
        if (r < 0)
            return job_failure(&err);
        json_decref(page);
        page = next; /* `before` points into it */
        json_array_foreach(json_object_get(page, "jobs"), i, job)
        {
            if (o.json)
                json_array_append(all, job);
            else
                ls_print(job, shown == 0);
            shown++;
        }
        before = json_get_string(page, "next");
    } while (before && shown < o.count);
    if (o.json)
        output_json(TAKE_PTR(all), JSON_INDENT(2));
    return 0;
}

/* --- logs, wait --- */

static int logs_run(const struct command *self, int argc, char **argv)
{
    struct job_options o = {0};
    struct error err = {0};
    _cleanup_api_ struct api a = {0};
    int n, status;
    if (!job_begin(self, argc, argv, 1, 1, &o, &a, &n, &status))
        return status;
    return job_print_log(&a, argv[0], o.follow, &err) < 0 ? job_failure(&err) : 0;
}

static int wait_run(const struct command *self, int argc, char **argv)
{
    struct job_options o = {0};
    _cleanup_api_ struct api a = {0};
    json_t *all = NULL;
    int n, status, worst = 0;
    if (!job_begin(self, argc, argv, 1, -1, &o, &a, &n, &status))
        return status;
    if (o.json)
        all = json_array();
    for (int i = 0; i < n; i++) {
        struct error err = {0};
        json_t *job = NULL;
        if (job_watch(&a, argv[i], false, true, &job, &err) < 0) {
            json_decref(all);
            return job_failure(&err);
        }
        if (worst == 0)
            worst = job_exit_status(job);
        if (!o.json) {
            printf("%s %s\n", argv[i], json_get_string_or(job, "state", ""));
            output_flush();
        }
        if (o.json)
            json_array_append(all, job);
        json_decref(job);
    }
    if (o.json)
        output_json(all, JSON_INDENT(2));
    return worst;
}

/* --- cancel, rm, repeat --- */

static int job_act(const struct command *self, int argc, char **argv, const char *action)
{
    struct job_options o = {0};
    struct error err = {0};
    _cleanup_api_ struct api a = {0};
    _cleanup_json_ json_t *answer = NULL;
    int n, status = 0;
    size_t i;
    json_t *one;
    if (!job_begin(self, argc, argv, 1, PAGE_MAX, &o, &a, &n, &status))
        return status;
    json_t *ids = json_array();
    for (int k = 0; k < n; k++)
        json_array_append_new(ids, json_string(argv[k]));
    _cleanup_json_ json_t *request = json_pack("{s:s, s:o}", "action", action, "jobs", ids);
    _cleanup_free_ char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    struct api_request q = {.method = "POST",
                            .path = "/v1/jobs/actions",
                            .body = body,
                            .once = strcmp(action, "repeat") == 0};
    if (!body)
        error_set(&err, EINVAL, "an ID is not UTF-8");
    if (!body || api_json_call(&a, &q, &answer, &err) < 0)
        return job_failure(&err);
    json_array_foreach(json_object_get(answer, "results"), i, one)
    {
        const char *id = json_get_string_or(one, "id", ""), *job = json_get_string(one, "job");
        if (json_get_bool(one, "done")) {
            printf("%s\n", job ? job : id);
            continue;
        }
        say("%s", json_get_string_or(one, "error", "the server gave no reason"));
        status = EXIT_HUTCH;
    }
    return status;
}

static int cancel_run(const struct command *self, int argc, char **argv)
{
    return job_act(self, argc, argv, "cancel");
}

static int rm_run(const struct command *self, int argc, char **argv)
{
    return job_act(self, argc, argv, "remove");
}

static int repeat_run(const struct command *self, int argc, char **argv)
{
    return job_act(self, argc, argv, "repeat");
}

/* --- files, diff --- */

static int files_list(struct api *a, const char *id, bool json, struct error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    char path[JOB_PATH_MAX];
    size_t i;
    json_t *file;
    int r = job_path(id, "/files", path, err);
    if (r == 0)
        r = api_json(a, "GET", path, NULL, &answer, err);
    if (r < 0)
        return r;
    if (json)
        return output_json(json_incref(json_object_get(answer, "files")), JSON_INDENT(2));
    json_array_foreach(json_object_get(answer, "files"), i, file)
    {
        char name[4 * 4096];
        printf("%12" JSON_INTEGER_FORMAT "  %s\n", json_get_integer(file, "size"),
               say_clean(json_get_string_or(file, "path", ""), name, sizeof name));
    }
    return 0;
}

static int files_get(struct api *a, const char *id, const char *name, const char *output,
                     struct error *err)
{
    _cleanup_buf_ struct buf path = BUF_INIT(QUERY_MAX * 4);
    _cleanup_fd_ int file = -1;
    char top[JOB_PATH_MAX];
    uint64_t size;
    bool to_file = output && strcmp(output, "-") != 0;
    int r = job_path(id, "/files/", top, err);
    if (r < 0)
        return r;
    buf_append_str(&path, top);
    api_quote(&path, name, "/");
    if (!buf_cstr(&path))
        return error_set(err, EINVAL, "the path is too long");
    if (to_file)
        file = open(output, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    if (to_file && file < 0)
        return error_errno(err, errno, "cannot write %s", output);
    r = api_download(a, (const char *)path.data, 0, to_file ? file : STDOUT_FILENO, &size, err);
    if (r < 0 && to_file && size == 0)
        unlink(output);
    return r;
}

static int files_run(const struct command *self, int argc, char **argv)
{
    struct job_options o = {0};
    struct error err = {0};
    _cleanup_api_ struct api a = {0};
    int n, status;
    if (!job_begin(self, argc, argv, 1, 2, &o, &a, &n, &status))
        return status;
    if (o.output && n < 2) {
        say("--output needs the PATH of a file");
        return EXIT_USAGE;
    }
    int r = n < 2 ? files_list(&a, argv[0], o.json, &err)
                  : files_get(&a, argv[0], argv[1], o.output, &err);
    return r < 0 && err.code ? job_failure(&err) : 0;
}

static int diff_run(const struct command *self, int argc, char **argv)
{
    struct job_options o = {0};
    struct error err = {0};
    _cleanup_api_ struct api a = {0};
    _cleanup_json_ json_t *job = NULL;
    char path[JOB_PATH_MAX];
    uint64_t size;
    int n, status;
    if (!job_begin(self, argc, argv, 1, 1, &o, &a, &n, &status))
        return status;
    int r = job_path(argv[0], "/diff", path, &err);
    if (r == 0)
        r = api_download(&a, path, 0, STDOUT_FILENO, &size, &err);
    if (r == -ENOENT && job_get(&a, argv[0], &job, NULL) == 0)
        return 0; /* no changes (yet) */
    return r < 0 ? job_failure(&err) : 0;
}

/* --- the rows --- */

static const struct option FOLLOW_OPTIONS[] = {
    {"follow", 'f', NULL, "print what is added until the job ends", NULL, OPTION_ALWAYS, AT(follow),
     option_parse_flag},
    {0},
};
static const struct option JOB_JSON_OPTIONS[] = {
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, AT(json), option_parse_flag},
    {0},
};
static const struct option LS_OPTIONS[] = {
    {"state", 0, "STATE", "only jobs in this state, or several with commas", NULL, OPTION_ALWAYS,
     AT(state), option_parse_string},
    {"search", 0, "TEXT", "only jobs with this in their title, ID or labels", NULL, OPTION_ALWAYS,
     AT(search), option_parse_string},
    {"label", 0, "K=V", "only jobs with this label", NULL, OPTION_ALWAYS, AT(label),
     option_parse_string},
    {"count", 'n', "N", "list only the last N", "50", OPTION_ALWAYS, AT(count), option_parse_count},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, AT(json), option_parse_flag},
    {0},
};
static const struct option FILES_OPTIONS[] = {
    {"output", 'o', "FILE", "write to this file", "stdout", OPTION_ALWAYS, AT(output),
     option_parse_string},
    {"json", 0, NULL, "print the list as JSON", NULL, OPTION_ALWAYS, AT(json), option_parse_flag},
    {0},
};

#define WITH(table)                                                                                \
    {                                                                                              \
        {table, OPTION_ALWAYS},                                                                    \
        {                                                                                          \
            JOB_SERVER_OPTIONS, OPTION_ALWAYS                                                      \
        }                                                                                          \
    }
#define SERVER_ONLY                                                                                \
    {                                                                                              \
        {                                                                                          \
            JOB_SERVER_OPTIONS, OPTION_ALWAYS                                                      \
        }                                                                                          \
    }

const struct command_body COMMAND_JOB_STATUS = {
    .usage = "ID [--json]", .options = WITH(JOB_JSON_OPTIONS), .run = status_run};
const struct command_body COMMAND_JOB_LOGS = {
    .usage = "[-f] ID", .options = WITH(FOLLOW_OPTIONS), .run = logs_run};
const struct command_body COMMAND_JOB_WAIT = {
    .usage = "ID... [--json]",
    .options = WITH(JOB_JSON_OPTIONS),
    .notes = "The exit status is that of the first job that did not complete: 1 failed, 124 time "
             "limit, 130 cancelled; 0 if all completed.",
    .run = wait_run};
const struct command_body COMMAND_JOB_CANCEL = {
    .usage = "ID...", .options = SERVER_ONLY, .run = cancel_run};
const struct command_body COMMAND_JOB_RM = {
    .usage = "ID...", .options = SERVER_ONLY, .run = rm_run};
const struct command_body COMMAND_JOB_REPEAT = {
    .usage = "ID...", .options = SERVER_ONLY, .run = repeat_run};
const struct command_body COMMAND_JOB_LS = {
    .usage = "[--state STATE] [-n N] [--json]", .options = WITH(LS_OPTIONS), .run = ls_run};
const struct command_body COMMAND_JOB_FILES = {
    .usage = "ID [PATH [-o FILE]]", .options = WITH(FILES_OPTIONS), .run = files_run};
const struct command_body COMMAND_JOB_DIFF = {
    .usage = "ID", .options = SERVER_ONLY, .run = diff_run};
