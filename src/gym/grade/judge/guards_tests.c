/* Guards of the tests' own modules, made when one of them has been loaded: its names, its classes,
 * variables that its functions share, data that nothing in it changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guards.h"
#include "banned.h"

/* A variable of a function that a function of the tests has in common with the one that made it. */
struct cell {
    PyObject *cell, *value;
};

static struct {
    struct cell *cells;
    size_t n_cells, room_cells;
} all;

bool guards_cells_hold(char ret[WRONG_MAX])
{
    for (size_t i = 0; i < all.n_cells; i++) {
        PyObject *now = PyCell_Get(all.cells[i].cell);
        if (now)
            Py_DecRef(now);
        if (now != all.cells[i].value) {
            snprintf(ret, WRONG_MAX, "a variable within a function of the tests");
            return false;
        }
    }
    return true;
}

static PyObject *dict_of(PyObject *type)
{
    PyObject *inner = NULL, *proxy = PyObject_GetAttrString(type, "__dict__");
    if (proxy && is_exact(proxy, &PyDictProxy_Type)) {
        memcpy(&inner, proxy + 1, sizeof inner); /* all that there is behind its head */
        inner = is_exact(inner, &PyDict_Type) ? inner : NULL;
    }
    if (proxy)
        Py_DecRef(proxy);
    else
        PyErr_Clear();
    return inner; /* the class has it */
}

static PyObject *inherited_names(PyObject *type)
{
    PyObject *names = PySet_New(NULL), *line = PyObject_GetAttrString(type, "__mro__");
    for (ssize_t i = 1; names && line && is_exact(line, &PyTuple_Type) && i < PyTuple_Size(line);
         i++) {
        PyObject *dict = dict_of(PyTuple_GetItem(line, i)), *key, *value;
        for (ssize_t at = 0; dict && PyDict_Next(dict, &at, &key, &value);)
            if (is_text(key))
                PySet_Add(names, key);
    }
    if (line)
        Py_DecRef(line);
    PyErr_Clear();
    return names;
}

static void take_cell(PyObject *cell)
{
    struct cell *cells = list_room(all.cells, sizeof *cells, all.n_cells, &all.room_cells, 32);
    if (!cells) {
        judge_tamper("no memory to watch the tests");
        return;
    }
    all.cells = cells;
    Py_IncRef(cell);
    all.cells[all.n_cells++] = (struct cell){cell, PyCell_Get(cell)};
}

/* Those that no function within the tests sets. */
static void take_cells(PyObject *function)
{
    PyObject *closure = PyFunction_GetClosure(function);
    PyObject *names =
        closure ? PyObject_GetAttrString(PyFunction_GetCode(function), "co_freevars") : NULL;
    for (ssize_t i = 0; names && i < PyTuple_Size(names) && i < PyTuple_Size(closure); i++)
        if (!guards_is_shared(PyTuple_GetItem(names, i)))
            take_cell(PyTuple_GetItem(closure, i));
    if (names)
        Py_DecRef(names);
}

/* All names; those that the task's own code sets (by `global`, as an attribute, or by their text)
 * may change. */
static struct guard *take_names(PyObject *dict, PyObject *title)
{
    PyObject *key, *value;
    struct guard *g = guards_new(dict, (size_t)PyDict_Size(dict));
    for (ssize_t at = 0; g && PyDict_Next(dict, &at, &key, &value);) {
        if (!is_text(key))
            continue;
        guards_put(g, key, value);
        if (proof_is_test(value))
            take_cells(value);
        if ((proof_is_test(value) || proof_is_loaded(value)) && !guards_keep_inside(value))
            return NULL;
    }
    if (g) {
        Py_IncRef(title);
        g->title = title;
        g->strict = true;
        guards_begin(g);
    }
    return g;
}

static bool is_class_of_tests(PyObject *dict)
{
    PyObject *key, *value;
    for (ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
        if (is_text(key) && strncmp(text_of(key), "test", 4) == 0 && proof_is_test(value))
            return true;
    return false;
}

/* Other classes of the tests' modules are often there for the code under test to change: to
 * register, to decorate, to keep an instance in. */
static bool take_class(PyObject *type, PyObject *module_name)
{
    PyObject *dict = dict_of(type), *name = dict ? PyDict_GetItemString(dict, "__module__") : NULL;
    if (!name || !is_text(name) || PyUnicode_Compare(name, module_name) != 0 ||
        !is_class_of_tests(dict))
        return true;
    PyObject *title = PyDict_GetItemString(dict, "__qualname__");
    struct guard *g = take_names(dict, title && is_text(title) ? title : module_name);
    if (!g)
        return false;
    g->strict = false;
    g->added = ADDED_NOT_INHERITED;
    g->inherited = inherited_names(type);
    return g->inherited != NULL;
}

/* Data of the tests that nothing in them changes: what is in it, one level deep. */
static bool take_contents(PyObject *value, PyObject *title)
{
    PyObject *key, *item;
    bool is_list = is_exact(value, &PyList_Type);
    if (!is_list && !is_exact(value, &PyDict_Type))
        return true;
    size_t n = (size_t)(is_list ? PyList_Size(value) : PyDict_Size(value));
    struct guard *g = guards_new(value, n);
    if (!g)
        return false;
    for (size_t i = 0; is_list && i < n; i++)
        guards_put(g, title, PyList_GetItem(value, (ssize_t)i));
    for (ssize_t at = 0; !is_list && PyDict_Next(value, &at, &key, &item);)
        guards_put(g, key, item);
    Py_IncRef(title);
    g->title = title;
    g->core = true;
    g->added = ADDED_NOTHING;
    if (!is_list)
        guards_begin(g);
    return true;
}

/* Warnings of a module make themselves a place in it, sooner or later. */
static bool make_registry(PyObject *names)
{
    if (PyDict_GetItemString(names, "__warningregistry__"))
        return true;
    PyObject *registry = PyDict_New();
    bool made = registry && PyDict_SetItemString(names, "__warningregistry__", registry) == 0;
    if (registry)
        Py_DecRef(registry);
    return made;
}

bool guards_take_module(PyObject *names, PyObject *frozen)
{
    PyObject *name = PyDict_GetItemString(names, "__name__"), *key, *value;
    if (!name || !is_text(name) || !make_registry(names))
        return false;
    struct guard *g = take_names(names, name);
    if (!g)
        return false;
    g->added = ADDED_NO_BUILTINS;
    for (ssize_t at = 0; PyDict_Next(names, &at, &key, &value);) {
        if (PyType_IsSubtype(value->type, &PyType_Type) && !take_class(value, name))
            return false;
        if (is_text(key) && PySet_Contains(frozen, key) == 1 && !take_contents(value, key))
            return false;
    }
    return true;
}
