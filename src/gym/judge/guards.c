/*
 * What must stay as it is: dicts of modules, classes and objects, compared by identity. References are
 * borrowed throughout: counting them would copy most of the memory that a fork shares.
 *
 * Up to Python 3.11 each change of any dict gives it a new number, which says at once that nothing happened,
 * and that something did although everything is back in its place. Later versions are looked at whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guards.h"
#include "banned.h"

#define GUARDS_FIRST 1024 /* enough for most, so that a run need not copy them */
#define VERSION_AT   24   /* in a dict, behind its head and its size */

static struct {
    struct guard *items;
    size_t count, room;
    bool numbered, settled;
    struct pointers functions;
    PyObject *builtins, *free, *shared;
    PyObject *patterns, *pattern_type;
    uint64_t patterns_version;
} all;

uint64_t guards_version(const PyObject *dict)
{
    uint64_t v;
    memcpy(&v, (const char *)dict + VERSION_AT, sizeof v);
    return v;
}

/* Whether dicts are numbered is found out on two of them. */
PyObject *guards_start(void)
{
    const char *v = Py_GetVersion();
    bool old = strncmp(v, "3.10.", 5) == 0 || strncmp(v, "3.11.", 5) == 0;
    PyObject *one = PyDict_New(), *other = PyDict_New();
    all.free = PySet_New(NULL);
    all.shared = PySet_New(NULL);
    if (!one || !other || !all.free || !all.shared)
        return PyErr_NoMemory();
    uint64_t before = guards_version(one), apart = guards_version(other);
    bool good = PyDict_SetItem(one, &_Py_NoneStruct, &_Py_NoneStruct) == 0 && guards_version(one) != before &&
                guards_version(other) == apart;
    before = guards_version(one);
    good = good && PyDict_GetItem(one, &_Py_NoneStruct) && guards_version(one) == before;
    all.numbered = old && good;
    Py_DecRef(one);
    Py_DecRef(other);
    return python_none();
}

void guards_free_name(PyObject *name)
{
    PySet_Add(all.free, name);
}

void guards_shared_name(PyObject *name)
{
    PySet_Add(all.shared, name);
}

bool guards_is_free(PyObject *name)
{
    return PySet_Contains(all.free, name) == 1;
}

bool guards_is_shared(PyObject *name)
{
    return PySet_Contains(all.shared, name) == 1;
}

bool guards_is_builtin(PyObject *name)
{
    return PySet_Contains(all.builtins, name) == 1;
}

bool guards_are_numbered(void)
{
    return all.numbered;
}

bool guards_are_settled(void)
{
    return all.settled;
}

bool guards_protect(const PyObject *function)
{
    return pointers_have(&all.functions, function);
}

bool guards_protect_one(const PyObject *function)
{
    return pointers_add(&all.functions, function);
}

struct guard *guards_new(PyObject *names, size_t n)
{
    struct guard *items = list_room(all.items, sizeof *items, all.count, &all.room, GUARDS_FIRST);
    if (!items)
        return NULL;
    all.items = items;
    struct guard *g = &all.items[all.count];
    *g = (struct guard){
        .names = names, .keys = calloc(n + 1, sizeof *g->keys), .values = calloc(n + 1, sizeof *g->values)};
    if (!g->keys || !g->values)
        return NULL;
    all.count++;
    Py_IncRef(names);
    return g;
}

void guards_put(struct guard *g, PyObject *key, PyObject *value)
{
    Py_IncRef(key);
    if (value)
        Py_IncRef(value);
    g->keys[g->count] = key;
    g->values[g->count++] = value;
}

void guards_begin(struct guard *g)
{
    g->version = all.numbered ? guards_version(g->names) : 0;
}

PyObject *guards_add(PyObject *self, PyObject *args)
{
    PyObject *names, *keys, *values, *title;
    int added, strict, core;
    if (!PyArg_ParseTuple(args, "O!O!O!O!iii", &PyDict_Type, &names, &PyTuple_Type, &keys, &PyTuple_Type,
                          &values, &PyUnicode_Type, &title, &added, &strict, &core))
        return NULL;
    if (judge_is_sealed()) {
        judge_tamper("somebody else has set a guard");
        return python_none();
    }
    size_t n = (size_t)PyTuple_Size(keys);
    struct guard *g = (size_t)PyTuple_Size(values) == n ? guards_new(names, n) : NULL;
    if (!g)
        return PyErr_NoMemory();
    for (size_t i = 0; i < n; i++) {
        PyObject *value = PyTuple_GetItem(values, (ssize_t)i);
        bool any = value == &_Py_NoneStruct;
        guards_put(g, PyTuple_GetItem(keys, (ssize_t)i), any ? NULL : value);
        if (!any && !pointers_add(&all.functions, value))
            return PyErr_NoMemory();
    }
    Py_IncRef(title);
    g->title = title;
    g->added = (enum added)added;
    g->strict = strict;
    g->core = core;
    guards_begin(g);
    return python_none();
}

PyObject *guards_builtins(PyObject *self, PyObject *args)
{
    PyObject *names;
    if (judge_is_sealed() || !PyArg_ParseTuple(args, "O", &names))
        return python_none();
    all.builtins = PySet_New(names);
    return all.builtins ? python_none() : NULL;
}

PyObject *guards_pattern(PyObject *self, PyObject *args)
{
    PyObject *cache, *type;
    if (judge_is_sealed() || !PyArg_ParseTuple(args, "O!O", &PyDict_Type, &cache, &type))
        return python_none();
    Py_IncRef(cache);
    Py_IncRef(type);
    all.patterns = cache;
    all.pattern_type = type;
    return python_none();
}

/* What re keeps of compiled patterns: each is what its key says. */
static bool patterns_hold(char ret[WRONG_MAX])
{
    PyObject *key, *value;
    uint64_t now = all.numbered && all.patterns ? guards_version(all.patterns) : 0;
    if (!all.patterns || (all.numbered && now == all.patterns_version))
        return true;
    for (ssize_t at = 0; PyDict_Next(all.patterns, &at, &key, &value);) {
        PyObject *wanted =
            is_exact(key, &PyTuple_Type) && PyTuple_Size(key) > 1 ? PyTuple_GetItem(key, 1) : NULL;
        PyObject *pattern =
            wanted && is_exact(value, all.pattern_type) ? PyObject_GetAttrString(value, "pattern") : NULL;
        bool same = pattern && (pattern == wanted || !is_text(wanted) ||
                                (is_text(pattern) && PyUnicode_Compare(pattern, wanted) == 0));
        if (pattern)
            Py_DecRef(pattern);
        if (!same) {
            snprintf(ret, WRONG_MAX, "re's cache");
            return false;
        }
    }
    all.patterns_version = now;
    return true;
}

bool guards_hold(char ret[WRONG_MAX])
{
    for (size_t i = 0; i < all.count; i++)
        if (!guards_look(&all.items[i], ret))
            return false;
    return guards_cells_hold(ret) && patterns_hold(ret);
}

/* What the tests themselves set some name of may be changed and put back by them. */
static bool is_set_by_tests(const struct guard *g)
{
    for (size_t i = 0; !g->core && i < g->count; i++)
        if (g->keys && guards_is_free(g->keys[i]))
            return true;
    return false;
}

void guards_settle(void)
{
    for (size_t i = 0; i < all.count; i++) {
        struct guard *g = &all.items[i];
        if (g->strict && is_set_by_tests(g))
            g->strict = false;
    }
    all.settled = true;
}
