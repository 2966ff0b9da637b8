/*
 * The tests of a row. The lists are lists, or texts that hold one, as JSON or Python write it. A
 * name is one of
 *
 *     tests/test_x.py::TestY::test_z[1]    pytest's
 *     tests/test_x.py::test_z[a            pytest's, cut off at the first blank by the author:
 *                                          it may mean several tests, and does not count
 *     test_z                               SymPy's: a function in a file of the test patch
 *
 * If all tests that must pass are of the second kind, those count that pass with the solution.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "relpath.h"
#include "swebench.h"
#include "banned.h"

/* A list of texts as Python writes it, or NULL. */
static json_t *python_list(const char *at, size_t n)
{
    json_t *list = json_array();
    at += strspn(at, " \t\r\n");
    bool ok = list && *at++ == '[';
    while (ok && (at += strspn(at, " \t\r\n,"), *at != ']')) {
        _cleanup_buf_ struct buf b = BUF_INIT(n + 1);
        char quote = *at;
        ok = quote == '\'' || quote == '"';
        for (at += ok; ok && *at && *at != quote; at++) {
            at += *at == '\\' && at[1];
            buf_append(&b, at, 1);
        }
        ok = ok && *at++ == quote;
        json_t *text = ok ? json_stringn(b.data ? (const char *)b.data : "", b.len) : NULL;
        ok = text && json_array_append_new(list, text) == 0;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

/* A list of the row, by its name in capitals or in small letters (SWE-bench Pro). */
static int tests_read_list(const json_t *row, const char *name, const char *small, json_t **ret,
                           struct error *err)
{
    json_t *value = json_object_get(row, name), *list = NULL;
    if (!value)
        value = json_object_get(row, small);
    struct error why = {0};
    const char *text = json_string_value(value);
    if (!text)
        list = json_incref(value);
    else if (task_json(text, json_string_length(value), &list, &why) < 0)
        list = python_list(text, json_string_length(value));
    if (!list && text)
        return error_set(err, EINVAL, "%s: %.300s", name, why.text);
    if (!json_is_array(list)) {
        json_decref(list);
        return error_set(err, EINVAL, "%s: is missing or not a list", name);
    }
    *ret = list;
    return 0;
}

static bool test_is_bare(const char *name)
{
    return strncmp(name, "test", 4) == 0 &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] ==
               0;
}

/* The length of the file's path before `::`; 0: it is not a name of pytest. */
static size_t test_file_length(const char *name)
{
    const char *colons = strstr(name, "::");
    size_t n = colons ? (size_t)(colons - name) : 0;
    return n >= 4 && n < PATH_MAX && strncmp(colons - 3, ".py", 3) == 0 && relpath_is_valid(name, n)
               ? n
               : 0;
}

static int tests_take_list(const json_t *row, const char *name, const char *small, json_t *seen,
                           struct task_list *ret, struct error *err)
{
    json_t *list = NULL, *one;
    size_t i;
    int r = tests_read_list(row, name, small, &list, err);
    json_array_foreach(list, i, one)
    {
        const char *test = json_string_value(one);
        if (r < 0 || (test && json_object_get(seen, test)))
            continue;
        if (!test)
            r = error_set(err, EINVAL, "%s[%zu]: not a string", name, i);
        else if (!test_is_bare(test) && !test_file_length(test))
            r = error_set(err, EINVAL, "its tests are not pytest's: %.100s", test);
        else if (json_object_set_new(seen, test, json_true()) < 0)
            r = task_no_memory(err);
        else if (task_list_add(ret, test) < 0)
            r = error_set(err, E2BIG, "it has more than %u tests", TASK_EXPECTED_MAX);
    }
    json_decref(list);
    return r;
}

int swebench_lists(struct row *row, struct error *err)
{
    json_t *seen = json_object();
    int r = seen ? tests_take_list(row->json, "FAIL_TO_PASS", "fail_to_pass", seen, &row->must, err)
                 : task_no_memory(err);
    if (r == 0 && row->must.count == 0)
        r = error_set(err, EINVAL, "FAIL_TO_PASS: is empty");
    if (r == 0)
        r = tests_take_list(row->json, "PASS_TO_PASS", "pass_to_pass", seen, &row->keep, err);
    json_decref(seen);
    return r;
}

struct tests_found {
    struct task *t;
    size_t exact; /* names that count */
    size_t lost;  /* that do not */
    struct error *err;
};

static int found_add_path(struct task *t, const char *name, size_t n, struct error *err)
{
    char path[PATH_MAX];
    memcpy(path, name, n);
    path[n] = 0;
    if (task_list_has(&t->tests.paths, path))
        return 0;
    return task_list_add(&t->tests.paths, path) < 0 ? task_no_memory(err) : 0;
}

static int found_add_test(struct tests_found *f, const char *name)
{
    f->exact++;
    return task_list_add(&f->t->tests.expected, name) < 0 ? task_no_memory(f->err) : 0;
}

/* `def NAME(` at the beginning of a line. */
static bool file_defines(const struct task_file *file, const char *name)
{
    char text[300];
    int n = snprintf(text, sizeof text, "\ndef %s(", name);
    if (n < 0 || (size_t)n >= sizeof text || !S_ISREG(file->mode))
        return false;
    return memmem(file->bytes, file->size, text, (size_t)n) ||
           (file->size >= (size_t)n - 1 && memcmp(file->bytes, text + 1, (size_t)n - 1) == 0);
}

static int found_take_bare(struct tests_found *f, const char *name)
{
    char full[PATH_MAX];
    size_t before = f->exact;
    int r = 0;
    for (size_t i = 0; i < f->t->hidden.count && r == 0; i++) {
        const struct task_file *file = &f->t->hidden.items[i];
        size_t n = strlen(file->path);
        if (n < 4 || strcmp(file->path + n - 3, ".py") != 0 || !file_defines(file, name))
            continue;
        snprintf(full, sizeof full, "%s::%s", file->path, name);
        r = found_add_path(f->t, full, n, f->err);
        if (r == 0)
            r = found_add_test(f, full);
    }
    f->lost += f->exact == before;
    return r;
}

static int found_take_names(struct tests_found *f, const struct task_list *names)
{
    int r = 0;
    for (size_t i = 0; i < names->count && r == 0; i++) {
        const char *name = names->items[i];
        size_t n = test_file_length(name);
        if (n == 0) {
            r = found_take_bare(f, name);
            continue;
        }
        r = found_add_path(f->t, name, n, f->err);
        if (r == 0 && strchr(name, '[') && name[strlen(name) - 1] != ']') /* cut off */
            f->lost++;
        else if (r == 0)
            r = found_add_test(f, name);
    }
    return r;
}

int swebench_tests(const struct rows *rows, const struct row *row, struct task *t,
                   struct error *err)
{
    struct tests_found f = {.t = t, .err = err};
    int r = found_take_names(&f, &row->must);
    if (r == 0 && t->tests.paths.count == 0)
        return error_set(err, EINVAL, "its test %.100s is in no file of test_patch",
                         row->must.items[0]);
    bool learn = f.exact == 0;
    if (r == 0)
        r = found_take_names(&f, &row->keep);
    if (r < 0)
        return r;
    if (learn)
        task_list_free(&t->tests.expected);
    if (learn)
        import_say(rows->im,
                   "%s: its test names are truncated; the tests that pass with the solution count",
                   t->name);
    else if (f.lost)
        import_say(rows->im,
                   "%s: %zu of its %zu tests have names that were cut off, or are not found, and "
                   "do not count",
                   t->name, f.lost, row->must.count + row->keep.count);
    return 0;
}
