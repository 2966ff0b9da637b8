/*
 * The judge of the tests, in their own interpreter: an extension module that the runner
 * (../runner/) loads before any code of the agent.
 *
 * Tests and the code under test share an interpreter, in which code can find and change every
 * object. So the secret (the token without which a line does not count) and the reference (how
 * everything was before) are kept here, where no object leads, and nothing here calls back into
 * Python while it judges. A test has passed only if
 *
 * - guards.c: pytest, unittest and the modules of the tests have not changed. The code under test
 *   may do everything else: patch the standard library, inspect frames, trace, load native code.
 * - proof.c: the test's own code ran to its end: marks that were compiled into it were called from
 *   their places in the module that they belong to.
 * - items.c: it ran with the parameters with which it was collected, and the files of the tests
 *   have not changed.
 *
 * A verdict is final. Static data: an interpreter has one run. docs/grading.md lists the cheats
 * that this does not stop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "python_abi.h"

#define WRONG_MAX 400 /* bytes of what is told of something that is wrong */

extern PyObject PyCode_Type, PyFunction_Type, PyType_Type, PyDictProxy_Type;

ssize_t PyTuple_Size(PyObject *tuple);
PyObject *PyTuple_GetItem(PyObject *tuple, ssize_t i);
ssize_t PyList_Size(PyObject *list);
PyObject *PyList_GetItem(PyObject *list, ssize_t i);
int PyDict_Next(PyObject *dict, ssize_t *at, PyObject **key, PyObject **value);
ssize_t PyDict_Size(PyObject *dict);
PyObject *PyDict_New(void);
PyObject *PyDict_GetItem(PyObject *dict, PyObject *key);
PyObject *PyDict_GetItemString(PyObject *dict, const char *key);
int PyDict_SetItem(PyObject *dict, PyObject *key, PyObject *value);
int PyDict_SetItemString(PyObject *dict, const char *key, PyObject *value);
int PyType_IsSubtype(PyObject *type, PyObject *of);
PyObject *PySet_New(PyObject *from);
int PySet_Add(PyObject *set, PyObject *item);
int PySet_Contains(PyObject *set, PyObject *item);
const char *PyUnicode_AsUTF8AndSize(PyObject *text, ssize_t *size);
PyObject *PyUnicode_FromStringAndSize(const char *text, ssize_t size);
PyObject *PyUnicode_AsEncodedString(PyObject *text, const char *encoding, const char *errors);
int PyUnicode_Compare(PyObject *a, PyObject *b);
int PyBytes_AsStringAndSize(PyObject *bytes, char **ret, ssize_t *size);
long PyLong_AsLong(PyObject *number);
PyObject *PyObject_GetAttrString(PyObject *o, const char *name);
PyObject *PyObject_GenericGetAttr(PyObject *o, PyObject *name);
PyObject *PyUnicode_InternFromString(const char *text);
PyObject *PyEval_GetFrame(void);
PyObject *PyEval_GetGlobals(void);
PyObject *PyFrame_GetCode(PyObject *frame);
PyObject *PyFrame_GetBack(PyObject *frame);
PyObject *PyFunction_GetCode(PyObject *function);
PyObject *PyFunction_GetClosure(PyObject *function);
PyObject *PyCell_Get(PyObject *cell);
PyObject *PyModule_GetDict(PyObject *module);
const char *Py_GetVersion(void);

static inline bool is_exact(const PyObject *o, const PyObject *type)
{
    return o->type == type;
}

static inline bool is_text(const PyObject *o)
{
    return o->type == &PyUnicode_Type;
}

/* The bytes of a text that is one, or something that can be shown in its place. */
const char *text_of(PyObject *o);

/* ---- judge.c: sets of addresses; lists ---- */

struct pointers {
    const void **items;
    size_t count, room; /* room is a power of two, or 0 */
};
/* A list with room for one more, which may have moved; NULL: no memory, and it is as it was. */
void *list_room(void *items, size_t size, size_t count, size_t *room, size_t first);

bool pointers_add(struct pointers *p, const void *one);
bool pointers_have(const struct pointers *p, const void *one);

/* ---- guards.c ---- */

/* Which names may be added: any, modules, any but those of builtins, any but inherited ones, none,
 * any but special ones (__eq__). */
enum added {
    ADDED_FREE,
    ADDED_CLOSED,
    ADDED_NO_BUILTINS,
    ADDED_NOT_INHERITED,
    ADDED_NOTHING,
    ADDED_NO_SPECIAL
};

/* Is everything as it was? `ret` says what is not. */
bool guards_hold(char ret[WRONG_MAX]);

/* From here on what was changed and put back is wrong, too, where nobody but a cheat does that. */
void guards_settle(void);

/* The module of the tests that has these names was loaded, just now, and may change in nothing but
 * names that the task's own code sets. */
bool guards_take_module(PyObject *names, PyObject *frozen);

PyObject *guards_add(PyObject *self,
                     PyObject *args); /* (names, keys, values, title, added, strict) */
PyObject *guards_builtins(PyObject *self, PyObject *args); /* (names of the builtins) */
PyObject *guards_start(void);                              /* None, or NULL with an error */
/* The tests' own code sets it: a global name or an attribute; a variable of an outer function. */
void guards_free_name(PyObject *name);
void guards_shared_name(PyObject *name);
bool guards_is_free(PyObject *name);

/* ---- proof.c ---- */

/* Has the test of this name, which began last, come to its end? True for one that has no marks,
 * too. */
bool proof_given(const char *test);
void proof_begin(void);
bool proof_is_test(PyObject *function); /* a function of the tests */
bool proof_is_loaded(PyObject *module); /* a module of the tests */

PyObject *proof_trust(PyObject *self,
                      PyObject *args); /* (code, the same without marks, bound, frozen) */
PyObject *proof_opcodes(PyObject *self,
                        PyObject *args); /* (numbers of opcodes, as in enum opcode) */
PyObject *proof_announce(PyObject *self,
                         PyObject *args); /* (names of a module that is about to be loaded) */
PyObject *proof_ended(PyObject *self, PyObject *unused);  /* the mark at the end of a test */
PyObject *proof_loaded(PyObject *self, PyObject *unused); /* the mark at the end of a module */
void proof_marks(PyObject *ended, PyObject *loaded);
void proof_loader(PyObject *code); /* whoever announces has this code */

/* ---- items.c ---- */

PyObject *items_hold(PyObject *self, PyObject *args);    /* (name, item, callspec, params) */
PyObject *items_fixture(PyObject *self, PyObject *args); /* (definition, its function) */
PyObject *items_files(PyObject *self, PyObject *args);   /* (paths) */
bool items_same(const char *test);
bool items_fixtures_hold(void);
bool items_files_hold(char ret[WRONG_MAX]);

/* ---- judge.c ---- */

/* Something was tampered with: told once, and no test passes after it. */
void judge_tamper(const char *what);
bool judge_is_sealed(void);
bool judge_is_told_by_runner(void);
