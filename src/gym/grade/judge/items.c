/* What a test works with: the parameters that it was collected with, files that lie beside it. */
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "judge.h"
#include "banned.h"

struct item {
    PyObject *name, *item, *spec, *params;
    PyObject **keys, **values;
    size_t count;
};

struct fixture {
    PyObject *definition, *function;
};

struct file {
    PyObject *path;
    struct statx was;
};

static struct {
    struct item *items;
    size_t count, room, last;
    struct fixture *fixtures;
    size_t n_fixtures, room_fixtures;
    struct file *files;
    size_t n_files;
    PyObject *word_spec, *word_params, *word_func;
} all;

static struct item *new_item(void)
{
    struct item *items = list_room(all.items, sizeof *items, all.count, &all.room, 64);
    if (!items)
        return NULL;
    all.items = items;
    return &items[all.count];
}

PyObject *items_hold(PyObject *self, PyObject *args)
{
    PyObject *name, *item, *spec, *params, *key, *value;
    if (!judge_is_told_by_runner()) {
        judge_tamper("other code named tests");
        return python_none();
    }
    if (!PyArg_ParseTuple(args, "O!OOO!", &PyUnicode_Type, &name, &item, &spec, &PyDict_Type,
                          &params))
        return NULL;
    size_t n = (size_t)PyDict_Size(params);
    struct item *i = new_item();
    if (!all.word_spec)
        all.word_spec = PyUnicode_InternFromString("callspec");
    if (!all.word_params)
        all.word_params = PyUnicode_InternFromString("params");
    if (i)
        *i = (struct item){name,
                           item,
                           spec,
                           params,
                           calloc(n + 1, sizeof *i->keys),
                           calloc(n + 1, sizeof *i->values)};
    if (!i || !i->keys || !i->values || !all.word_spec || !all.word_params)
        return PyErr_NoMemory();
    for (ssize_t at = 0; i->count < n && PyDict_Next(params, &at, &key, &value); i->count++) {
        Py_IncRef(i->keys[i->count] = key);
        Py_IncRef(i->values[i->count] = value);
    }
    Py_IncRef(name);
    Py_IncRef(item);
    Py_IncRef(spec);
    Py_IncRef(params);
    all.count++;
    return python_none();
}

static bool is_attribute(PyObject *of, PyObject *name, const PyObject *wanted)
{
    PyObject *now = PyObject_GenericGetAttr(of, name);
    if (now)
        Py_DecRef(now);
    else
        PyErr_Clear();
    return now == wanted;
}

static bool is_same(const struct item *i)
{
    PyObject *key, *value;
    size_t n = 0;
    if (!is_attribute(i->item, all.word_spec, i->spec) ||
        !is_attribute(i->spec, all.word_params, i->params))
        return false;
    for (ssize_t at = 0; PyDict_Next(i->params, &at, &key, &value); n++)
        if (n >= i->count || key != i->keys[n] || value != i->values[n])
            return false;
    return n == i->count;
}

PyObject *items_fixture(PyObject *self, PyObject *args)
{
    PyObject *definition, *function;
    if (!judge_is_told_by_runner() || !PyArg_ParseTuple(args, "OO", &definition, &function) ||
        !proof_is_test(function))
        return python_none();
    if (!all.word_func)
        all.word_func = PyUnicode_InternFromString("func");
    struct fixture *fixtures =
        list_room(all.fixtures, sizeof *fixtures, all.n_fixtures, &all.room_fixtures, 32);
    if (!all.word_func || !fixtures)
        return PyErr_NoMemory();
    all.fixtures = fixtures;
    Py_IncRef(definition);
    Py_IncRef(function);
    all.fixtures[all.n_fixtures++] = (struct fixture){definition, function};
    return python_none();
}

bool items_fixtures_hold(void)
{
    for (size_t i = 0; i < all.n_fixtures; i++)
        if (!is_attribute(all.fixtures[i].definition, all.word_func, all.fixtures[i].function))
            return false;
    return true;
}

/* Tests are run in the order in which they were named, so it is the last one or the next. */
bool items_same(const char *test)
{
    for (size_t i = 0; i < all.count; i++) {
        size_t at = (all.last + i) % all.count;
        if (strcmp(text_of(all.items[at].name), test) == 0) {
            all.last = at;
            return is_same(&all.items[at]);
        }
    }
    return true;
}

static bool stat_of(const char *path, struct statx *ret)
{
    memset(ret, 0, sizeof *ret);
    return syscall(SYS_statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, ret) == 0;
}

static bool is_same_file(const struct statx *a, const struct statx *b)
{
    return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
           a->stx_dev_minor == b->stx_dev_minor;
}

/* Nobody can set the time at which a file was last changed. */
static bool is_unchanged(const struct statx *a, const struct statx *b)
{
    return is_same_file(a, b) && a->stx_size == b->stx_size &&
           a->stx_ctime.tv_sec == b->stx_ctime.tv_sec &&
           a->stx_ctime.tv_nsec == b->stx_ctime.tv_nsec;
}

PyObject *items_files(PyObject *self, PyObject *args)
{
    PyObject *paths;
    if (judge_is_sealed() || !PyArg_ParseTuple(args, "O!", &PyTuple_Type, &paths))
        return python_none();
    size_t n = (size_t)PyTuple_Size(paths);
    all.files = calloc(n + 1, sizeof *all.files);
    if (!all.files)
        return PyErr_NoMemory();
    for (size_t i = 0; i < n; i++) {
        struct file *f = &all.files[all.n_files];
        f->path = PyTuple_GetItem(paths, (ssize_t)i);
        if (stat_of(text_of(f->path), &f->was)) {
            Py_IncRef(f->path);
            all.n_files++;
        }
    }
    return python_none();
}

bool items_files_hold(char ret[WRONG_MAX])
{
    struct statx now;
    for (size_t i = 0; i < all.n_files; i++)
        if (!stat_of(text_of(all.files[i].path), &now) || !is_unchanged(&all.files[i].was, &now)) {
            snprintf(ret, WRONG_MAX, "%s was changed", text_of(all.files[i].path));
            return false;
        }
    return true;
}
