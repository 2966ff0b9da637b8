/*
 * Tests by pytest: the program in runner/, in the warm process or, without one, in an interpreter
 * of its own.
 *
 * Either way the request has the token without which a line does not count. The cold interpreter's
 * stdout is the runner's descriptor, which the runner moves away before it loads anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "grade.h"
#include "io.h"
#include "json.h"
#include "banned.h"

#define DATA_FILES_MAX 256u /* files that the runner checks after each test */

const char *const GRADE_PYTHON_ENV[] = {"PYTHONHASHSEED=0", "PYTHONSAFEPATH=1",
                                        "PYTHONPATH=", "PYTHONSTARTUP=", NULL};

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

/* Adds those of the task's own files that are Python or those that are not. own NULL: all are. */
static void list_own_files(json_t *a, const struct task_tree *tree, const struct task_list *own,
                           bool python, size_t max)
{
    for (size_t i = 0; i < tree->count && json_array_size(a) < max; i++) {
        const char *path = tree->items[i].path;
        size_t n = strlen(path);
        bool is_python = n > 3 && strcmp(path + n - 3, ".py") == 0;
        if (is_python == python && (!own || grade_is_beneath(own, path)))
            json_array_append_new(a, json_string(path));
    }
}

char *grade_setup(const struct task *t)
{
    json_t *sources = json_array(), *inis = json_array();
    list_own_files(sources, &t->files, &t->tests.own, true, SIZE_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(INI_FILES); i++)
        for (size_t k = 0; k < t->files.count; k++)
            if (strcmp(t->files.items[k].path, INI_FILES[i]) == 0 &&
                grade_is_beneath(&t->tests.own, INI_FILES[i]))
                json_array_append_new(inis, json_string(INI_FILES[i]));
    json_t *o =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "paths", list_json(&t->tests.paths), "import",
                  list_json(&t->tests.import), "packages", list_json(&t->tests.packages), "own",
                  list_json(&t->tests.own), "sources", sources, "inis", inis);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

/* The request of one run; `setup` for an interpreter that starts from nothing. The code of Python
 * sources is the pristine one wherever it runs; `data` is what the tests read while they run, which
 * nothing has a reason to change. */
static char *pytest_request(const struct grade_run *r, const char *setup)
{
    const struct task *t = r->task;
    json_t *sources = json_array(), *data = json_array();
    if (!r->options->as_is) {
        list_own_files(sources, &t->files, &t->tests.own, true, SIZE_MAX);
        list_own_files(sources, &t->hidden, NULL, true, SIZE_MAX);
        list_own_files(data, &t->files, &t->tests.own, false, DATA_FILES_MAX);
        list_own_files(data, &t->hidden, NULL, false, DATA_FILES_MAX);
    }
    json_t *o = json_pack("{s:s, s:b, s:o, s:o, s:s*}", "token", r->outcomes.token, "pristine",
                          !r->options->as_is, "sources", sources, "data", data, "setup", setup);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

static bool pytest_feed(void *data, const void *bytes, size_t n)
{
    return outcomes_feed(data, bytes, n);
}

static int pytest_run_warm(struct grade_run *r, const char *request, struct error *err)
{
    struct warm_run run = {.request = request,
                           .n_request = strlen(request),
                           .timeout_ns = r->task->test_timeout_ns,
                           .cpu_time_ns = r->task->test_cpu_ns,
                           .said = pytest_feed,
                           .data = &r->outcomes,
                           .output_max = GRADE_OUTPUT_MAX,
                           .cancel = r->options->cancel};
    struct warm_result result = {0};
    int code = warm_run(r->options->warm, r->box, &run, &result, err);
    if (code < 0)
        return code;
    r->grade->duration_ns = result.duration_ns;
    r->grade->cpu_ns = result.cpu_ns;
    grade_output(r->grade, result.output.data, result.output.len);
    grade_ended(r, &(struct grade_end){result.exit_code, result.signal, result.limit, NULL});
    warm_result_free(&result);
    return 0;
}

/* Feeds the lines in `lines` to the outcomes, and keeps the end of `output`. */
static int pytest_take_files(struct grade_run *r, int lines, int output)
{
    char piece[65536], tail[GRADE_OUTPUT_MAX];
    ssize_t n;
    off_t at = 0;
    while ((n = pread(lines, piece, sizeof piece, at)) > 0 &&
           outcomes_feed(&r->outcomes, piece, (size_t)n))
        at += n;
    int code = n < 0 ? -errno : 0;
    off_t end = lseek(output, 0, SEEK_END);
    off_t from = end > (off_t)sizeof tail ? end - (off_t)sizeof tail : 0;
    n = end > 0 ? pread(output, tail, sizeof tail, from) : 0;
    grade_output(r->grade, tail, n > 0 ? (size_t)n : 0);
    return code;
}

static int pytest_run_cold(struct grade_run *r, const char *request, struct error *err)
{
    _cleanup_fd_ int in = io_memory_file(request, strlen(request));
    _cleanup_fd_ int lines = io_memory_file("", 0);
    _cleanup_fd_ int output = io_memory_file("", 0);
    if (in < 0 || lines < 0 || output < 0)
        return error_errno(err, ENOMEM, "cannot grade");
    /* Not -I: it would ignore the hash seed, too, which fixes the order in sets. */
    const char *const argv[] = {"python3", "-s", "-B", "-c", GRADE_PROGRAM, "cold", NULL};
    struct box_command c = {.argv = (char *const *)argv,
                            .env = (char *const *)GRADE_PYTHON_ENV,
                            .timeout_ns = r->task->test_timeout_ns,
                            .cpu_time_ns = r->task->test_cpu_ns,
                            .in = in,
                            .out = lines,
                            .err = output,
                            .cancel = r->options->cancel};
    struct box_result result = {0};
    int code = box_exec(r->box, &c, &result, err);
    if (code < 0)
        return code;
    r->grade->duration_ns = result.duration_ns;
    r->grade->cpu_ns = result.cpu_ns;
    code = pytest_take_files(r, lines, output);
    grade_ended(r,
                &(struct grade_end){result.exit_code, result.signal, result.limit, result.failure});
    box_result_free(&result);
    return code < 0 ? error_errno(err, -code, "cannot read the outcomes") : 0;
}

int grade_pytest(struct grade_run *r, struct error *err)
{
    uint64_t chance[2];
    char token[OUTCOMES_TOKEN];
    if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return error_errno(err, EIO, "cannot grade");
    snprintf(token, sizeof token, "%016llx%016llx", (unsigned long long)chance[0],
             (unsigned long long)chance[1]);
    outcomes_init(&r->outcomes, token);
    bool cold = !r->options->warm;
    _cleanup_free_ char *setup = cold ? grade_setup(r->task) : NULL;
    _cleanup_free_ char *request = cold && !setup ? NULL : pytest_request(r, setup);
    if (!request)
        return error_errno(err, ENOMEM, "cannot grade");
    return cold ? pytest_run_cold(r, request, err) : pytest_run_warm(r, request, err);
}
