/*
 * Rows as SWE-bench has them: an array of objects, or an object a line.
 *
 *     instance_id         the task's name
 *     repo, base_commit   the workspace: all files of that commit, without the history, which
 *                         holds the answer
 *     problem_statement   the instruction
 *     patch               the solution
 *     test_patch          changes to the tests: applied here to the base, so that grading has
 *                         them; hidden
 *     FAIL_TO_PASS,
 *     PASS_TO_PASS        the tests that count, as lists or as texts that are lists
 *
 * A commit is extracted once, into a folder of the cache that is named after it, and is shared by its tasks:
 * boxes see it as a layer that they cannot write. Rows whose repository or commit is not there, or whose
 * tests are not pytest's, are passed over with a line why.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cancel.h"
#include "clock.h"
#include "import_swebench.h"
#include "io.h"
#include "jsonsize.h"
#include "relpath.h"
#include "banned.h"

#define ROWS_MAX    200000u
#define ROW_MAX     (32u << 20)
#define ARRAY_BYTES (256u << 20)
#define VALUES_MAX  8000000u
#define FILE_MAX    (1ll << 30)

static const char *member(const json_t *o, const char *name, struct error *err)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (!text && err->code == 0)
        error_set(err, EINVAL, "%s: is missing, or no text", name);
    return text ? text : "";
}

static bool is_hex(const char *text)
{
    size_t n = strlen(text);
    return (n == 40 || n == 64) && text[strspn(text, "0123456789abcdef")] == 0;
}

/* OWNER/NAME, of characters that are safe in a path. */
static bool repo_ok(const char *repo)
{
    static const char ALLOWED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t owner = strspn(repo, ALLOWED);
    size_t name = repo[owner] == '/' ? strspn(repo + owner + 1, ALLOWED) : 0;
    return owner > 0 && name > 0 && owner + name < 200 && repo[owner + 1 + name] == 0 &&
           relpath_is_valid(repo, strlen(repo));
}

static int read_row(const json_t *o, struct row *ret, struct error *err)
{
    *ret = (struct row){
        .id = member(o, "instance_id", err),
        .repo = member(o, "repo", err),
        .commit = member(o, "base_commit", err),
        .problem = member(o, "problem_statement", err),
        .patch = member(o, "patch", err),
        .test_patch = member(o, "test_patch", err),
        .json = o,
    };
    if (err->code)
        return -err->code;
    if (!repo_ok(ret->repo))
        return error_set(err, EINVAL, "repo: \"%.100s\" is not of the form OWNER/NAME", ret->repo);
    if (!is_hex(ret->commit))
        return error_set(err, EINVAL, "base_commit: \"%.100s\" is no commit's id", ret->commit);
    if (!*ret->problem || !*ret->patch)
        return error_set(err, EINVAL, "%s: is empty", *ret->problem ? "patch" : "problem_statement");
    return 0;
}

/* `tests/test_x.py::test_y[1]`: the file's part must be a path of the workspace. */
static int take_test(struct task *t, const char *name, struct error *err)
{
    char path[PATH_MAX];
    const char *colons = strstr(name, "::");
    size_t n = colons ? (size_t)(colons - name) : 0;
    if (n < 4 || n >= sizeof path || strncmp(colons - 3, ".py", 3) != 0 || !relpath_is_valid(name, n))
        return error_set(err, EINVAL, "its tests are not pytest's: %.100s", name);
    memcpy(path, name, n);
    path[n] = 0;
    if (task_list_add(&t->tests.expected, name) < 0)
        return error_set(err, E2BIG, "it has more than %u tests", TASK_EXPECTED_MAX);
    if (!task_list_has(&t->tests.paths, path) && task_list_add(&t->tests.paths, path) < 0)
        return task_no_memory(err);
    return 0;
}

/* Both lists may be lists, or texts that hold one. */
static int take_tests(struct task *t, const json_t *o, const char *name, json_t *seen, struct error *err)
{
    json_t *value = json_object_get(o, name), *list, *one;
    size_t i;
    int r = 0;
    if (json_is_string(value)) {
        r = task_json(json_string_value(value), json_string_length(value), &list, err);
        if (r < 0)
            return error_wrap(err, "%s", name);
    } else {
        list = json_incref(value);
    }
    if (!json_is_array(list))
        r = error_set(err, EINVAL, "%s: is no list", name);
    json_array_foreach(list, i, one)
    {
        const char *test = json_string_value(one);
        if (r < 0 || (test && json_object_get(seen, test)))
            continue;
        if (!test)
            r = error_set(err, EINVAL, "%s[%zu]: is no text", name, i);
        else if (json_object_set_new(seen, test, json_true()) < 0)
            r = task_no_memory(err);
        else
            r = take_test(t, test, err);
    }
    json_decref(list);
    return r;
}

static int take_expected(struct task *t, const json_t *o, struct error *err)
{
    json_t *seen = json_object();
    int r = seen ? take_tests(t, o, "FAIL_TO_PASS", seen, err) : task_no_memory(err);
    if (r == 0 && t->tests.expected.count == 0)
        r = error_set(err, EINVAL, "FAIL_TO_PASS: is empty");
    if (r == 0)
        r = take_tests(t, o, "PASS_TO_PASS", seen, err);
    json_decref(seen);
    return r;
}

/* From where its code is imported: the top, and the usual folders that repositories have. */
static int take_import(struct task *t, struct error *err)
{
    static const char *const FOLDERS[] = {"src", "lib"};
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS); i++) {
        snprintf(path, sizeof path, "%s/%s", t->root, FOLDERS[i]);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && task_list_add(&t->tests.import, FOLDERS[i]) < 0)
            return task_no_memory(err);
    }
    return task_list_add(&t->tests.import, ".") < 0 ? task_no_memory(err) : 0;
}

static int describe(struct task *t, const struct row *row, const char *file, struct error *err)
{
    char prefix[256];
    t->test_timeout_ns = 1800 * NS_PER_S;
    t->test_cpu_ns = 1800 * NS_PER_S;
    t->limits.memory = 4ull << 30;
    t->limits.disk = 2ull << 30;
    t->limits.pids = 512;
    t->max_steps = 100;
    snprintf(prefix, sizeof prefix, "%s: ", row->repo);
    int r = import_title(&t->title, prefix, row->problem + strspn(row->problem, " \t\r\n"), err);
    if (r == 0)
        r = import_text(&t->instruction, err, "%s", row->problem);
    if (r == 0)
        r = import_text(&t->origin, err, "%s", file);
    if (r == 0)
        r = import_text(&t->language, err, "python");
    if (r == 0 && (task_patch_add(t, "fix", row->patch) < 0 || task_list_add(&t->solution, "fix") < 0))
        r = task_no_memory(err);
    return r;
}

static int make_task(struct rows *rows, const struct row *row, const char *file, struct task *t,
                     struct error *err)
{
    int r = describe(t, row, file, err);
    if (r == 0)
        r = take_expected(t, row->json, err);
    if (r == 0)
        r = diff_paths(row->test_patch, &t->tests.own, err);
    if (r == 0)
        r = swebench_root(rows, row, t, err);
    if (r == 0)
        r = swebench_hidden(rows, row, t, err);
    if (r == 0)
        r = swebench_supports(t, row->patch, err);
    return r == 0 ? take_import(t, err) : r;
}

static int import_row(struct rows *rows, const json_t *o, const char *file, struct error *err)
{
    struct row row;
    struct error why = {0};
    char name[TASK_NAME_MAX];
    const char *id = json_string_value(json_object_get(o, "instance_id"));
    import_name(id ? id : "", name);
    if (id && !import_wants(rows->im, name))
        return 0;
    _cleanup_task_ struct task *t = task_new();
    if (!t)
        return task_no_memory(err);
    memcpy(t->name, name, sizeof name);
    int r = read_row(o, &row, &why);
    if (r == 0)
        r = make_task(rows, &row, file, t, &why);
    if (cancel_check(rows->im->o->cancel, err) < 0)
        return -ECANCELED;
    if (r < 0) {
        import_skip(rows->im, id ? name : file, &why);
        return 0;
    }
    return import_add(rows->im, &t, err);
}

static int import_array(struct rows *rows, FILE *in, const char *file, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(ARRAY_BYTES);
    json_error_t at;
    json_t *list, *one;
    size_t i;
    int r = io_read_all(fileno(in), &b);
    if (r < 0)
        return error_errno(err, r == -ENOBUFS ? EFBIG : -r, "%s", file);
    if (jsonsize_values((const char *)b.data, b.len, VALUES_MAX) > VALUES_MAX)
        return error_set(err, E2BIG, "%s: has more than %u values", file, VALUES_MAX);
    list = json_loadb((const char *)b.data, b.len, 0, &at);
    if (!list)
        return error_set(err, EINVAL, "%s: line %d, column %d: %s", file, at.line, at.column, at.text);
    json_array_foreach(list, i, one)
    {
        if (r == 0)
            r = import_row(rows, one, file, err);
    }
    json_decref(list);
    return r;
}

static int import_line(struct rows *rows, const char *line, size_t n, const char *file, size_t number,
                       struct error *err)
{
    json_t *o;
    struct error why = {0};
    char at[PATH_MAX];
    if (line[strspn(line, " \t\r\n")] == 0)
        return 0;
    snprintf(at, sizeof at, "%.3900s, line %zu", file, number);
    int r = n > ROW_MAX ? error_set(&why, EFBIG, "is too long") : task_json(line, n, &o, &why);
    if (r < 0) {
        import_skip(rows->im, at, &why);
        return 0;
    }
    r = import_row(rows, o, at, err);
    json_decref(o);
    return r;
}

static int import_lines(struct rows *rows, FILE *in, const char *file, struct error *err)
{
    _cleanup_free_ char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t n;
    int r = 0;
    while (r == 0 && number < ROWS_MAX && (n = getline(&line, &room, in)) > 0)
        r = import_line(rows, line, (size_t)n, file, ++number, err);
    return r;
}

static int import_swebench(struct import *im, const char *where, struct error *err)
{
    struct rows rows = {.im = im};
    struct stat st;
    int first, r = import_cache(rows.cache, sizeof rows.cache, err);
    if (r < 0)
        return r;
    _cleanup_fclose_ FILE *in = fopen(where, "re");
    if (!in)
        return error_errno(err, errno, "%s", where);
    if (fstat(fileno(in), &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%s: is no regular file with rows as JSON", where);
    if (st.st_size > FILE_MAX)
        return error_set(err, EFBIG, "%s: is larger than %lld MiB", where, FILE_MAX >> 20);
    while ((first = getc(in)) == ' ' || first == '\n' || first == '\t' || first == '\r')
        ;
    if (first != '[' && first != '{')
        return error_set(err, EINVAL,
                         "%s: begins neither with [ (an array of rows) nor with { (a row a line)", where);
    rewind(in);
    return first == '[' ? import_array(&rows, in, where, err) : import_lines(&rows, in, where, err);
}

const struct import_kind IMPORT_SWEBENCH = {"swebench", "swebench:FILE", import_swebench};
