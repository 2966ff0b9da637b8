/*
 * Tests by pytest: the program in runner/, in the warm process or, where there is none, in an
 * interpreter of its own.
 *
 * Either way the request has the token without which a line is nobody's. In the cold way the
 * interpreter's stdout is the runner's descriptor, which it moves away before it loads anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "arena.h"
#include "grade_run.h"
#include "io.h"
#include "banned.h"

const char *const GRADE_PYTHON_ENV[] = {"PYTHONHASHSEED=0", "PYTHONSAFEPATH=1",
                                        "PYTHONPATH=", "PYTHONSTARTUP=", NULL};

static int make_token(char token[OUTCOMES_TOKEN])
{
    uint64_t chance[2];
    if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return -EIO;
    snprintf(token, OUTCOMES_TOKEN, "%016llx%016llx", (unsigned long long)chance[0],
             (unsigned long long)chance[1]);
    return 0;
}

static bool hear(void *data, const void *bytes, size_t n)
{
    return outcomes_feed(data, bytes, n);
}

static int run_warm(struct grade_run *r, struct warm *w, const char *request, struct error *err)
{
    struct warm_run run = {.request = request,
                           .n_request = strlen(request),
                           .timeout_ns = r->task->test_timeout_ns,
                           .cpu_time_ns = r->task->test_cpu_ns,
                           .said = hear,
                           .data = &r->outcomes,
                           .output_max = GRADE_OUTPUT_MAX,
                           .cancel = r->cancel};
    struct warm_result result = {0};
    int code = warm_run(w, r->box, &run, &result, err);
    if (code < 0)
        return code;
    r->grade->duration_ns = result.duration_ns;
    r->grade->cpu_ns = result.cpu_ns;
    grade_output(r->grade, result.output.data, result.output.len);
    grade_ended(r, &(struct grade_end){result.exit_code, result.signal, result.limit, NULL});
    warm_result_free(&result);
    return 0;
}

/* A file of memory to hand to a command as its input, or to take its output. */
static int make_file(const char *text, int *ret_fd)
{
    _cleanup_fd_ int fd = memfd_create("hutch-grade", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : text ? io_write_all(fd, text, strlen(text)) : 0;
    if (r < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return r < 0 ? r : -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* All of it to the outcomes, in pieces. */
static int hear_file(struct grade_run *r, int fd)
{
    char piece[65536];
    ssize_t n;
    off_t at = 0;
    while ((n = pread(fd, piece, sizeof piece, at)) > 0 && hear(&r->outcomes, piece, (size_t)n))
        at += n;
    return n < 0 ? -errno : 0;
}

static void keep_output(struct grade_run *r, int fd)
{
    char tail[GRADE_OUTPUT_MAX];
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end > (off_t)sizeof tail ? end - (off_t)sizeof tail : 0;
    ssize_t n = end > 0 ? pread(fd, tail, sizeof tail, from) : 0;
    grade_output(r->grade, tail, n > 0 ? (size_t)n : 0);
}

static int execute(struct grade_run *r, const int fds[3], struct error *err)
{
    /* Not -I: it would ignore the seed, too, which makes the order in sets the same in every
     * run. */
    const char *const argv[] = {"python3", "-s", "-B", "-c", GRADE_PROGRAM, "cold", NULL};
    struct box_command c = {.argv = (char *const *)argv,
                            .env = (char *const *)GRADE_PYTHON_ENV,
                            .timeout_ns = r->task->test_timeout_ns,
                            .cpu_time_ns = r->task->test_cpu_ns,
                            .in = fds[0],
                            .out = fds[1],
                            .err = fds[2],
                            .cancel = r->cancel};
    struct box_result result = {0};
    int code = box_exec(r->box, &c, &result, err);
    if (code < 0)
        return code;
    r->grade->duration_ns = result.duration_ns;
    r->grade->cpu_ns = result.cpu_ns;
    code = hear_file(r, fds[1]);
    keep_output(r, fds[2]);
    grade_ended(r,
                &(struct grade_end){result.exit_code, result.signal, result.limit, result.failure});
    box_result_free(&result);
    return code < 0 ? error_errno(err, -code, "cannot read the outcomes") : 0;
}

static int run_cold(struct grade_run *r, struct error *err)
{
    _cleanup_free_ char *setup = grade_setup(r->task);
    _cleanup_free_ char *request = setup ? grade_request(r, setup) : NULL;
    _cleanup_fd_ int in = -1, out = -1, output = -1;
    if (!request)
        return error_errno(err, ENOMEM, "cannot grade");
    int code = make_file(request, &in);
    if (code == 0)
        code = make_file(NULL, &out);
    if (code == 0)
        code = make_file(NULL, &output);
    return code < 0 ? error_errno(err, -code, "cannot grade")
                    : execute(r, (int[]){in, out, output}, err);
}

int grade_pytest(struct grade_run *r, struct error *err)
{
    struct error why = {0};
    char token[OUTCOMES_TOKEN];
    int code = make_token(token);
    if (code < 0)
        return error_errno(err, -code, "cannot grade");
    outcomes_init(&r->outcomes, token);
    struct warm *w = NULL;
    code = arena_warm(r->arena, r->cancel, &w, &why);
    if (code == -ECANCELED)
        return error_set(err, ECANCELED, "%s", why.text);
    if (code < 0)
        return run_cold(r, err);
    _cleanup_free_ char *request = grade_request(r, NULL);
    if (!request)
        return error_errno(err, ENOMEM, "cannot grade");
    return run_warm(r, w, request, err);
}

/* What the runner is told: of the task, once, and of each run. */

#define DATA_MAX 256u /* files that are looked at after each test */

/* Where pytest looks for its settings, in its order. */
static const char *const INI_FILES[] = {"pytest.toml", ".pytest.toml",   "pytest.ini",
                                        ".pytest.ini", "pyproject.toml", "tox.ini",
                                        "setup.cfg"};

static json_t *list_json(const struct task_list *l)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < l->count; i++)
        json_array_append_new(a, json_string(l->items[i]));
    return a;
}

static bool is_python(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".py") == 0;
}

/* The Python files among the task's own: their code is the pristine one, wherever it is run. */
static void add_sources(json_t *a, const struct task_tree *tree, const struct task_list *own)
{
    for (size_t i = 0; i < tree->count; i++)
        if (is_python(tree->items[i].path) && (!own || grade_is_beneath(own, tree->items[i].path)))
            json_array_append_new(a, json_string(tree->items[i].path));
}

/* All else of the task's own files: what the tests read while they run. Nobody has a reason to
 * change them. */
static void add_data(json_t *a, const struct task_tree *tree, const struct task_list *own)
{
    for (size_t i = 0; i < tree->count && json_array_size(a) < DATA_MAX; i++)
        if (!is_python(tree->items[i].path) && (!own || grade_is_beneath(own, tree->items[i].path)))
            json_array_append_new(a, json_string(tree->items[i].path));
}

static json_t *ini_files(const struct task *t)
{
    json_t *a = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(INI_FILES); i++)
        for (size_t k = 0; k < t->files.count; k++)
            if (strcmp(t->files.items[k].path, INI_FILES[i]) == 0 &&
                grade_is_beneath(&t->tests.own, INI_FILES[i]))
                json_array_append_new(a, json_string(INI_FILES[i]));
    return a;
}

char *grade_setup(const struct task *t)
{
    json_t *sources = json_array();
    add_sources(sources, &t->files, &t->tests.own);
    json_t *o =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "paths", list_json(&t->tests.paths), "import",
                  list_json(&t->tests.import), "packages", list_json(&t->tests.packages), "own",
                  list_json(&t->tests.own), "sources", sources, "inis", ini_files(t));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

char *grade_request(const struct grade_run *r, const char *setup)
{
    json_t *sources = json_array(), *data = json_array();
    if (!r->look) {
        add_sources(sources, &r->task->files, &r->task->tests.own);
        add_sources(sources, &r->task->hidden, NULL);
        add_data(data, &r->task->files, &r->task->tests.own);
        add_data(data, &r->task->hidden, NULL);
    }
    json_t *o = json_pack("{s:s, s:b, s:o, s:o, s:s*}", "token", r->outcomes.token, "pristine",
                          !r->look, "sources", sources, "data", data, "setup", setup);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}
