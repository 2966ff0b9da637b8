/*
 * That a test's own code ran to its end. The runner compiles marks into the code of the tests: a
 * call at the end of each test and each module, of a constant, which no name can hide. A mark
 * counts if it is called from a code object that was trusted before anything of an agent's was
 * loaded, from the very instruction where it stands, and with the global names of a module that was
 * loaded from such code into a fresh dict. So whatever is done to what collects and calls tests, an
 * assertion that fails is the end of its test's chances.
 */
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "banned.h"

#define ENDED_MAX 64 /* tests that end within one: those that it calls, and last itself */

/* Reading code objects. */

enum opcode {
    LOAD_CONST,
    EXTENDED_ARG,
    CALL,
    STORE_GLOBAL,
    DELETE_GLOBAL,
    STORE_ATTR,
    DELETE_ATTR,
    STORE_DEREF,
    OPCODES
};

/* The parts of a code that matter here. */
struct code_parts {
    PyObject *consts, *raw, *names, *name, *outer;
    const uint8_t *bytes;
    size_t n;
};

#define TEXT_MAX 80 /* bytes of a text that may be a name */

static int opcodes[OPCODES];

/* Goes through the instructions of a code: what each of them is, where it stands, and its
 * argument. */
static bool code_next_op(const uint8_t *raw, size_t n, size_t *at, int *ret_op, uint32_t *ret_arg)
{
    uint32_t high = 0;
    for (; *at + 1 < n; *at += 2) {
        *ret_arg = high | raw[*at + 1];
        *ret_op = raw[*at];
        if (*ret_op != opcodes[EXTENDED_ARG])
            return true;
        high = *ret_arg << 8;
    }
    return false;
}

/* Where this code calls its constant of that number: the first `max` places. Returns how many there
 * are. */
static size_t code_find_calls(const struct code_parts *p, ssize_t constant, uint32_t *ret,
                              size_t max)
{
    bool armed = false;
    size_t found = 0;
    uint32_t arg;
    int op;
    for (size_t at = 0; constant >= 0 && code_next_op(p->bytes, p->n, &at, &op, &arg); at += 2) {
        if (op == opcodes[LOAD_CONST])
            armed = arg == (uint32_t)constant;
        else if (op == opcodes[CALL] && armed) {
            if (found < max)
                ret[found] = (uint32_t)at;
            found++;
            armed = false;
        }
    }
    return found;
}

static void code_free_names(const uint8_t *raw, size_t n, PyObject *names, PyObject *outer)
{
    const int *o = opcodes;
    uint32_t arg;
    int op;
    bool deep = false;
    for (size_t at = 0; code_next_op(raw, n, &at, &op, &arg); at += 2) {
        deep = deep || op == o[STORE_DEREF];
        if ((op == o[STORE_GLOBAL] || op == o[DELETE_GLOBAL] || op == o[STORE_ATTR] ||
             op == o[DELETE_ATTR]) &&
            (ssize_t)arg < PyTuple_Size(names))
            guards_free_name(PyTuple_GetItem(names, (ssize_t)arg));
    }
    for (ssize_t i = 0; deep && i < PyTuple_Size(outer); i++)
        guards_shared_name(PyTuple_GetItem(outer, i));
}

static void code_drop(struct code_parts *p)
{
    PyObject *held[] = {p->consts, p->raw, p->names, p->name, p->outer};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (held[i])
            Py_DecRef(held[i]);
    *p = (struct code_parts){0};
}

static bool code_take(PyObject *code, struct code_parts *ret)
{
    char *bytes;
    ssize_t n;
    *ret = (struct code_parts){.consts = PyObject_GetAttrString(code, "co_consts"),
                               .raw = PyObject_GetAttrString(code, "co_code"),
                               .names = PyObject_GetAttrString(code, "co_names"),
                               .name = PyObject_GetAttrString(code, "co_name"),
                               .outer = PyObject_GetAttrString(code, "co_freevars")};
    if (!ret->consts || !ret->raw || !ret->names || !ret->name || !ret->outer ||
        PyBytes_AsStringAndSize(ret->raw, &bytes, &n) < 0) {
        code_drop(ret);
        return false;
    }
    ret->bytes = (const uint8_t *)bytes;
    ret->n = (size_t)n;
    return true;
}

/* A text of the tests' may be the name that somebody sets: "json.loads", "x". */
static void code_free_text(PyObject *text)
{
    ssize_t n;
    const char *s = PyUnicode_AsUTF8AndSize(text, &n);
    if (!s || n == 0 || n > TEXT_MAX) {
        PyErr_Clear();
        return;
    }
    const char *dot = memrchr(s, '.', (size_t)n), *last = dot ? dot + 1 : s;
    PyObject *name = PyUnicode_FromStringAndSize(last, n - (last - s));
    if (name)
        guards_free_name(name);
    else
        PyErr_Clear();
}

/* Tells the guards all names that this code, and all code in it, may set. */
static bool code_learn_names(PyObject *code)
{
    struct code_parts p;
    if (!code_take(code, &p))
        return false;
    bool good = true;
    code_free_names(p.bytes, p.n, p.names, p.outer);
    for (ssize_t i = 0; good && i < PyTuple_Size(p.consts); i++) {
        PyObject *c = PyTuple_GetItem(p.consts, i);
        if (is_text(c))
            code_free_text(c);
        else if (is_exact(c, &PyCode_Type))
            good = code_learn_names(c);
    }
    code_drop(&p);
    return good;
}

struct trusted {
    PyObject *code, *name;
    PyObject *bound, *frozen; /* of a module: {name: what it must be}, names; else NULL */
    uint32_t *places;         /* of marks: its end, and each return */
    size_t n_places;
};

static struct {
    struct trusted *items;
    size_t count, room, last;
    PyObject *names; /* of tests that have marks: a set */
    PyObject *mark_ended, *mark_loaded, *loader;
    struct pointers codes, announced, loaded;
    const struct trusted *ended[ENDED_MAX];
    size_t n_ended;
} all;

void proof_marks(PyObject *ended, PyObject *loaded)
{
    all.mark_ended = ended;
    all.mark_loaded = loaded;
}

void proof_loader(PyObject *code)
{
    Py_IncRef(code);
    all.loader = code;
}

PyObject *proof_opcodes(PyObject *self, PyObject *args)
{
    int o[OPCODES];
    if (judge_is_sealed())
        return python_none();
    if (!all.names && !(all.names = PySet_New(NULL)))
        return NULL;
    if (!PyArg_ParseTuple(args, "iiiiiiii", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6], &o[7]))
        return NULL;
    memcpy(opcodes, o, sizeof opcodes);
    return python_none();
}

bool proof_is_test(PyObject *function)
{
    return is_exact(function, &PyFunction_Type) &&
           pointers_have(&all.codes, PyFunction_GetCode(function));
}

bool proof_is_loaded(PyObject *module)
{
    return is_exact(module, &PyModule_Type) && pointers_have(&all.loaded, PyModule_GetDict(module));
}

/* ---- trusting ---- */

/* Which place of the constants is a mark's; -1: none. */
static ssize_t find_mark(PyObject *consts)
{
    for (ssize_t i = 0; i < PyTuple_Size(consts); i++)
        if (PyTuple_GetItem(consts, i) == all.mark_ended ||
            PyTuple_GetItem(consts, i) == all.mark_loaded)
            return i;
    return -1;
}

static struct trusted *new_trusted(void)
{
    struct trusted *items = list_room(all.items, sizeof *items, all.count, &all.room, 64);
    if (!items)
        return NULL;
    all.items = items;
    return &items[all.count];
}

static bool find_places(struct trusted *t, const struct code_parts *p)
{
    ssize_t mark = find_mark(p->consts);
    t->n_places = code_find_calls(p, mark, NULL, 0);
    t->places = calloc(t->n_places + 1, sizeof *t->places);
    if (t->places)
        code_find_calls(p, mark, t->places, t->n_places);
    return t->places != NULL;
}

static bool trust(PyObject *code, PyObject *bound, PyObject *frozen)
{
    struct code_parts p;
    struct trusted *t = new_trusted();
    if (!t || !code_take(code, &p))
        return false;
    *t = (struct trusted){.code = code, .name = p.name, .bound = bound, .frozen = frozen};
    bool good = find_places(t, &p) && pointers_add(&all.codes, code) &&
                (!t->n_places || bound || PySet_Add(all.names, p.name) == 0);
    all.count += t->n_places > 0;
    Py_IncRef(code); /* both for good, as the marks are in it */
    Py_IncRef(p.name);
    for (ssize_t i = 0; good && i < PyTuple_Size(p.consts); i++)
        if (is_exact(PyTuple_GetItem(p.consts, i), &PyCode_Type))
            good = trust(PyTuple_GetItem(p.consts, i), NULL, NULL);
    code_drop(&p);
    return good;
}

PyObject *proof_trust(PyObject *self, PyObject *args)
{
    PyObject *code, *plain, *bound, *frozen;
    if (!PyArg_ParseTuple(args, "O!O!O!O", &PyCode_Type, &code, &PyCode_Type, &plain, &PyDict_Type,
                          &bound, &frozen))
        return NULL;
    if (judge_is_sealed()) {
        judge_tamper("other code was marked as trusted");
        return python_none();
    }
    Py_IncRef(bound);
    Py_IncRef(frozen);
    return code_learn_names(plain) && trust(code, bound, frozen) ? python_none() : PyErr_NoMemory();
}

/* ---- marks ---- */

static bool is_place(const struct trusted *t, long at)
{
    for (size_t i = 0; i < t->n_places; i++)
        if (t->places[i] == at)
            return true;
    return false;
}

/* The trusted code that calls a mark, from where it stands; NULL: somebody else does. */
static const struct trusted *caller(void)
{
    PyObject *frame = PyEval_GetFrame(), *code = frame ? PyFrame_GetCode(frame) : NULL;
    PyObject *lasti =
        code && pointers_have(&all.codes, code) ? PyObject_GetAttrString(frame, "f_lasti") : NULL;
    long at = lasti ? PyLong_AsLong(lasti) : -1;
    const struct trusted *found = NULL;
    for (size_t i = 0; lasti && !found && i < all.count; i++) {
        size_t k = (all.last + i) % all.count; /* they mostly come one after the other */
        if (all.items[k].code == code) {
            all.last = k;
            found = is_place(&all.items[k], at) ? &all.items[k] : NULL;
            break;
        }
    }
    if (lasti)
        Py_DecRef(lasti);
    if (code)
        Py_DecRef(code);
    return found;
}

PyObject *proof_ended(PyObject *self, PyObject *unused)
{
    const struct trusted *t = caller();
    if (!t || t->bound || !pointers_have(&all.loaded, PyEval_GetGlobals()))
        return python_none();
    all.n_ended -= all.n_ended == ENDED_MAX; /* the test itself comes last, and must have room */
    all.ended[all.n_ended++] = t;
    return python_none();
}

/* What the module has imported must be what was there to be imported before. */
static void check_bound(PyObject *names, PyObject *bound)
{
    PyObject *key, *wanted;
    for (ssize_t at = 0; PyDict_Next(bound, &at, &key, &wanted);)
        if (PyDict_GetItem(names, key) != wanted && !guards_is_free(key))
            judge_tamper("the tests imported something else");
}

PyObject *proof_loaded(PyObject *self, PyObject *unused)
{
    const struct trusted *t = caller();
    PyObject *names = PyEval_GetGlobals();
    if (!judge_is_sealed() || !t || !t->bound || !pointers_have(&all.announced, names) ||
        pointers_have(&all.loaded, names))
        return python_none();
    check_bound(names, t->bound);
    Py_IncRef(names);
    if (!pointers_add(&all.loaded, names) || !guards_take_module(names, t->frozen))
        judge_tamper("a module of the tests cannot be watched");
    return python_none();
}

/* Nothing but what a fresh module has: a name that is there before the code runs would be the
 * code's. */
static bool is_fresh(PyObject *names)
{
    PyObject *key, *value;
    for (ssize_t at = 0; PyDict_Next(names, &at, &key, &value);) {
        const char *name = is_text(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        if (!name || strncmp(name, "__", 2) != 0 || strcmp(name, "__builtins__") == 0)
            return false;
    }
    return true;
}

PyObject *proof_announce(PyObject *self, PyObject *args)
{
    PyObject *names, *frame = PyEval_GetFrame(), *code = frame ? PyFrame_GetCode(frame) : NULL;
    bool ours = code && code == all.loader;
    if (code)
        Py_DecRef(code);
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &names))
        return NULL;
    if (!ours || !is_fresh(names))
        judge_tamper("other code made a module of the tests");
    else {
        Py_IncRef(names); /* its address is nobody else's from here on */
        pointers_add(&all.announced, names);
    }
    return python_none();
}

/* ---- proving ---- */

void proof_begin(void)
{
    all.n_ended = 0;
}

/* "tests/test_x.py::TestY::test_z[0]": the function's name. */
static PyObject *function_of(const char *test)
{
    size_t n = strcspn(test, "["), from = n;
    while (from > 0 && test[from - 1] != ':')
        from--;
    return PyUnicode_FromStringAndSize(test + from, (ssize_t)(n - from));
}

bool proof_given(const char *test)
{
    PyObject *name = function_of(test);
    if (!name)
        return false;
    bool given = PySet_Contains(all.names, name) == 0;
    for (size_t i = 0; !given && i < all.n_ended; i++)
        given = PyUnicode_Compare(all.ended[i]->name, name) == 0;
    Py_DecRef(name);
    return given;
}
