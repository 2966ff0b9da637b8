/*
 * What must stay as it is: dicts of modules, classes and objects, compared by identity. References
 * are borrowed throughout: counting them would copy most of the memory that a fork shares.
 *
 * Up to Python 3.11 each change of any dict gives it a new number, which says at once that nothing
 * happened, and that something did although everything is back in its place. Later versions are
 * looked at whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guards.h"
#include "banned.h"

#define GUARDS_FIRST 1024 /* enough for most, so that a run need not copy them */
#define VERSION_AT   24   /* in a dict, behind its head and its size */

/* A function and its code, or a module and its class: what can be exchanged without a change of any
 * dict. */
struct guarded_inside {
    PyObject *object;
    const PyObject *inside;
};

static struct {
    struct guard *items;
    size_t count, room;
    bool numbered, settled;
    struct guarded_inside *insides;
    size_t n_insides, room_insides;
    PyObject *builtins, *free, *shared;
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
    bool good = PyDict_SetItem(one, &_Py_NoneStruct, &_Py_NoneStruct) == 0 &&
                guards_version(one) != before && guards_version(other) == apart;
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

static const PyObject *inside_of(PyObject *object)
{
    return is_exact(object, &PyFunction_Type) ? PyFunction_GetCode(object) : object->type;
}

bool guards_keep_inside(PyObject *value)
{
    if (!is_exact(value, &PyFunction_Type) && !is_exact(value, &PyModule_Type))
        return true;
    struct guarded_inside *insides =
        list_room(all.insides, sizeof *insides, all.n_insides, &all.room_insides, GUARDS_FIRST);
    if (!insides)
        return false;
    all.insides = insides;
    all.insides[all.n_insides++] = (struct guarded_inside){value, inside_of(value)};
    Py_IncRef(value); /* both addresses are nobody else's from here on */
    Py_IncRef((PyObject *)inside_of(value));
    return true;
}

static bool guards_insides_hold(char ret[WRONG_MAX])
{
    for (size_t i = 0; i < all.n_insides; i++)
        if (inside_of(all.insides[i].object) != all.insides[i].inside) {
            snprintf(ret, WRONG_MAX,
                     "the code of a function or the class of a module was replaced");
            return false;
        }
    return true;
}

struct guard *guards_new(PyObject *names, size_t n)
{
    struct guard *items = list_room(all.items, sizeof *items, all.count, &all.room, GUARDS_FIRST);
    if (!items)
        return NULL;
    all.items = items;
    struct guard *g = &all.items[all.count];
    *g = (struct guard){.names = names,
                        .keys = calloc(n + 1, sizeof *g->keys),
                        .values = calloc(n + 1, sizeof *g->values)};
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
    g->size = PyDict_Size(g->names);
}

PyObject *guards_add(PyObject *self, PyObject *args)
{
    PyObject *names, *keys, *values, *title;
    int added, strict;
    if (!PyArg_ParseTuple(args, "O!O!O!O!ii", &PyDict_Type, &names, &PyTuple_Type, &keys,
                          &PyTuple_Type, &values, &PyUnicode_Type, &title, &added, &strict))
        return NULL;
    if (judge_is_sealed()) {
        judge_tamper("other code set a guard");
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
        if (!any && !guards_keep_inside(value))
            return PyErr_NoMemory();
    }
    Py_IncRef(title);
    g->title = title;
    g->added = (enum added)added;
    g->strict = strict;
    g->core = true;
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

bool guards_hold(char ret[WRONG_MAX])
{
    for (size_t i = 0; i < all.count; i++)
        if (!guards_look(&all.items[i], ret))
            return false;
    return guards_insides_hold(ret) && guards_cells_hold(ret);
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
