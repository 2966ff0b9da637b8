/*
 * The few names of Python's C interface that parts of hutch use which an interpreter loads.
 * Declared here, by what its stable interface promises: no headers of any Python are needed to
 * build, and one part serves all versions from 3.10 on. They are found in the interpreter that
 * loads the part.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

typedef struct python_object {
    ssize_t references;
    struct python_object *type;
} PyObject;

typedef PyObject *(*python_function)(PyObject *self, PyObject *args);

struct python_method {
    const char *name;
    python_function function;
    int flags;
    const char *doc;
};

#define METH_VARARGS 1
#define METH_NOARGS  4

struct python_module {
    PyObject head;
    PyObject *(*init)(void);
    ssize_t index;
    PyObject *copy;
    const char *name, *doc;
    ssize_t size;
    const struct python_method *methods;
    void *slots, *traverse, *clear, *free;
};

#define PYTHON_MODULE(title, list)                                                                 \
    {                                                                                              \
        .head = {.references = 1}, .name = (title), .size = -1, .methods = (list)                  \
    }
#define PYTHON_API_VERSION 3 /* of the stable interface */

extern PyObject _Py_NoneStruct, PyUnicode_Type, PyDict_Type, PyTuple_Type, PyList_Type,
    PyModule_Type;
extern PyObject *PyExc_OSError, *PyExc_RuntimeError, *PyExc_MemoryError;

PyObject *PyModule_Create2(struct python_module *module, int version);
int PyArg_ParseTuple(PyObject *args, const char *format, ...);
void Py_IncRef(PyObject *o);
void Py_DecRef(PyObject *o);

PyObject *PyErr_SetFromErrno(PyObject *type);
void PyErr_SetString(PyObject *type, const char *text);
PyObject *PyErr_NoMemory(void);
void PyErr_Clear(void);

static inline PyObject *python_none(void)
{
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}
