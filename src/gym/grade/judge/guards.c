/*
 * What must not change: dicts of modules, classes and objects, compared by identity and without
 * calling any Python code. References are borrowed throughout: counting them would copy most of the
 * memory that a fork shares.
 *
 * Up to Python 3.11 each change of a dict gives it a new version number, which shows at once that
 * nothing happened, or that something did although it was undone. Dicts of later versions are
 * compared whole.
 *
 * A module of the tests is guarded once it is loaded: its names, its classes, variables that its
 * functions share, data that nothing in it changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "banned.h"

#define GUARDS_FIRST 1024 /* enough for most, so that a run need not copy them */
#define VERSION_AT   24   /* in a dict, behind its head and its size */
#define STRAYS_MAX   512  /* names that were not there before */

struct guard {
    PyObject *names;   /* a dict, or a list */
    PyObject **keys;   /* NULL for a list */
    PyObject **values; /* NULL in the place of one that may change */
    size_t count;
    PyObject *title;
    PyObject *inherited; /* names that must not be added; NULL */
    enum added added;
    bool core; /* not even the tests themselves may change it */
    /* a change that was undone counts, too; if it is not core, once all tests are collected */
    bool strict;
    uint64_t version;
    ssize_t size;
};

/* A variable of a function that a function of the tests shares with the one that made it. */
struct cell {
    PyObject *cell, *value;
};

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
    struct cell *cells;
    size_t n_cells, room_cells;
    PyObject *builtins, *free, *shared;
} all;

static uint64_t guards_version(const PyObject *dict)
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

static const PyObject *inside_of(PyObject *object)
{
    return is_exact(object, &PyFunction_Type) ? PyFunction_GetCode(object) : object->type;
}

/* A function keeps its code, a module its class; other values are accepted. False: no memory. */
static bool guards_keep_inside(PyObject *value)
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

/* Room for n names in the table; NULL without memory. Names get the value that they must keep, or
 * NULL: any. */
static struct guard *guards_new(PyObject *names, size_t n)
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

static void guards_put(struct guard *g, PyObject *key, PyObject *value)
{
    Py_IncRef(key);
    if (value)
        Py_IncRef(value);
    g->keys[g->count] = key;
    g->values[g->count++] = value;
}

static void guards_begin(struct guard *g)
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

static bool guard_knows(const struct guard *g, const PyObject *key)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->keys[i] == key)
            return true;
    return false;
}

static bool guard_may_add(const struct guard *g, PyObject *key, const PyObject *value)
{
    if (!is_text(key))
        return false;
    switch (g->added) {
    case ADDED_NOTHING:
        return false;
    case ADDED_NO_BUILTINS:
        return PySet_Contains(all.builtins, key) != 1;
    case ADDED_NOT_INHERITED:
        return PySet_Contains(g->inherited, key) == 0 || guards_is_free(key);
    case ADDED_NO_SPECIAL:
        return strncmp(text_of(key), "__", 2) != 0;
    default:
        return is_exact(value, &PyModule_Type) || strcmp(text_of(key), "__warningregistry__") == 0;
    }
}

static bool guard_complain(const struct guard *g, PyObject *key, const char *how,
                           char ret[WRONG_MAX])
{
    snprintf(ret, WRONG_MAX, "%s%s%s%s", text_of(g->title), key ? "." : "", key ? text_of(key) : "",
             how);
    return false;
}

static bool guard_value_holds(const struct guard *g, size_t i, const PyObject *value)
{
    return !g->values[i] || value == g->values[i] || (!g->core && guards_is_free(g->keys[i]));
}

static bool guard_name_holds(const struct guard *g, size_t i)
{
    PyObject *key, *value;
    for (ssize_t at = 0; PyDict_Next(g->names, &at, &key, &value);)
        if (key == g->keys[i])
            return guard_value_holds(g, i, value);
    return false;
}

/* Most names stand where they stood. What was taken away and put back comes last. */
static bool guard_dict_holds(const struct guard *g, char ret[WRONG_MAX])
{
    PyObject *key, *value, *strays[STRAYS_MAX][2];
    size_t i = 0, n_strays = 0;
    for (ssize_t at = 0; PyDict_Next(g->names, &at, &key, &value);) {
        if (i < g->count && key == g->keys[i]) {
            if (!guard_value_holds(g, i, value))
                return guard_complain(g, key, "", ret);
            i++;
        } else if (g->added == ADDED_FREE) {
            continue;
        } else if (n_strays < STRAYS_MAX) {
            strays[n_strays][0] = key;
            strays[n_strays++][1] = value;
        } else
            return guard_complain(g, NULL, " (too many names)", ret);
    }
    for (; i < g->count; i++)
        if (!guard_name_holds(g, i))
            return guard_complain(g, g->keys[i], "", ret);
    for (size_t s = 0; s < n_strays; s++)
        if (!guard_knows(g, strays[s][0]) && !guard_may_add(g, strays[s][0], strays[s][1]))
            return guard_complain(g, strays[s][0], "", ret);
    return true;
}

static bool guard_list_holds(const struct guard *g, char ret[WRONG_MAX])
{
    if ((size_t)PyList_Size(g->names) != g->count)
        return guard_complain(g, NULL, "", ret);
    for (size_t i = 0; i < g->count; i++)
        if (PyList_GetItem(g->names, (ssize_t)i) != g->values[i])
            return guard_complain(g, NULL, "", ret);
    return true;
}

/* Is it as it was? */
static bool guard_holds(struct guard *g, char ret[WRONG_MAX])
{
    if (is_exact(g->names, &PyList_Type))
        return guard_list_holds(g, ret);
    uint64_t now = all.numbered ? guards_version(g->names) : 0;
    if (all.numbered && now == g->version)
        return true;
    if (!guard_dict_holds(g, ret))
        return false;
    /* Code under test may put names of its own into the module that called it. */
    bool grown = PyDict_Size(g->names) > g->size;
    if (all.numbered && g->strict && !grown && (g->core || all.settled))
        return guard_complain(g, NULL, " was changed for a while", ret);
    g->version = now;
    g->size = PyDict_Size(g->names);
    return true;
}

static bool guards_cells_hold(char ret[WRONG_MAX])
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

static PyObject *class_dict(PyObject *type)
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
        PyObject *dict = class_dict(PyTuple_GetItem(line, i)), *key, *value;
        for (ssize_t at = 0; dict && PyDict_Next(dict, &at, &key, &value);)
            if (is_text(key))
                PySet_Add(names, key);
    }
    if (line)
        Py_DecRef(line);
    PyErr_Clear();
    return names;
}

/* Watches the shared variables of a function that no function of the tests sets. */
static void cells_watch(PyObject *function)
{
    PyObject *closure = PyFunction_GetClosure(function);
    PyObject *names =
        closure ? PyObject_GetAttrString(PyFunction_GetCode(function), "co_freevars") : NULL;
    for (ssize_t i = 0; names && i < PyTuple_Size(names) && i < PyTuple_Size(closure); i++)
        if (PySet_Contains(all.shared, PyTuple_GetItem(names, i)) != 1) {
            struct cell *cells =
                list_room(all.cells, sizeof *cells, all.n_cells, &all.room_cells, 32);
            if (!cells) {
                judge_tamper("no memory to watch the tests");
                break;
            }
            PyObject *cell = PyTuple_GetItem(closure, i);
            all.cells = cells;
            Py_IncRef(cell);
            all.cells[all.n_cells++] = (struct cell){cell, PyCell_Get(cell)};
        }
    if (names)
        Py_DecRef(names);
}

/* All names; those that the task's own code sets (by `global`, as an attribute, or by their text)
 * may change. */
static struct guard *guard_names(PyObject *dict, PyObject *title)
{
    PyObject *key, *value;
    struct guard *g = guards_new(dict, (size_t)PyDict_Size(dict));
    for (ssize_t at = 0; g && PyDict_Next(dict, &at, &key, &value);) {
        if (!is_text(key))
            continue;
        guards_put(g, key, value);
        if (proof_is_test(value))
            cells_watch(value);
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
static bool guard_class(PyObject *type, PyObject *module_name)
{
    PyObject *dict = class_dict(type),
             *name = dict ? PyDict_GetItemString(dict, "__module__") : NULL;
    if (!name || !is_text(name) || PyUnicode_Compare(name, module_name) != 0 ||
        !is_class_of_tests(dict))
        return true;
    PyObject *title = PyDict_GetItemString(dict, "__qualname__");
    struct guard *g = guard_names(dict, title && is_text(title) ? title : module_name);
    if (!g)
        return false;
    g->strict = false;
    g->added = ADDED_NOT_INHERITED;
    g->inherited = inherited_names(type);
    return g->inherited != NULL;
}

/* Data of the tests that nothing in them changes: what is in it, one level deep. */
static bool guard_contents(PyObject *value, PyObject *title)
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
static bool module_make_registry(PyObject *names)
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
    if (!name || !is_text(name) || !module_make_registry(names))
        return false;
    struct guard *g = guard_names(names, name);
    if (!g)
        return false;
    g->added = ADDED_NO_BUILTINS;
    for (ssize_t at = 0; PyDict_Next(names, &at, &key, &value);) {
        if (PyType_IsSubtype(value->type, &PyType_Type) && !guard_class(value, name))
            return false;
        if (is_text(key) && PySet_Contains(frozen, key) == 1 && !guard_contents(value, key))
            return false;
    }
    return true;
}

bool guards_hold(char ret[WRONG_MAX])
{
    for (size_t i = 0; i < all.count; i++)
        if (!guard_holds(&all.items[i], ret))
            return false;
    for (size_t i = 0; i < all.n_insides; i++)
        if (inside_of(all.insides[i].object) != all.insides[i].inside) {
            snprintf(ret, WRONG_MAX,
                     "the code of a function or the class of a module was replaced");
            return false;
        }
    return guards_cells_hold(ret);
}

void guards_settle(void)
{
    for (size_t i = 0; i < all.count; i++) {
        struct guard *g = &all.items[i];
        /* the tests may change names that they set, and undo that */
        for (size_t k = 0; g->strict && !g->core && k < g->count; k++)
            if (g->keys && guards_is_free(g->keys[k]))
                g->strict = false;
    }
    all.settled = true;
}
