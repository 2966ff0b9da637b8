/* Python's audit events: what could get around the judge is heard of before it happens, and told at once. */
#include <stdio.h>
#include <string.h>

#include "judge.h"
#include "banned.h"

typedef int (*audit_hook)(const char *event, PyObject *args, void *data);
int PySys_AddAuditHook(audit_hook hook, void *data);

struct watch watch;
static struct pointers relays;

static const char *const HOSTILE[] = {"gc.get_objects",         "gc.get_referrers", "gc.get_referents",
                                      "sys._current_frames",    "sys.settrace",     "sys.setprofile",
                                      "sys._current_exceptions"};
static const char *const NATIVE[] = {"ctypes",    "_ctypes",           "_cffi_backend",
                                     "_testcapi", "_testinternalcapi", "_xxsubinterpreters"};
static const char *const FRAMES[] = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"};
static const char *const PLACES[] = {"/usr/", "/lib/", "/lib64/", "/opt/", "/nix/"};

#define WORKSPACE "/workspace/"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_one_of(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(text, list[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(text, list) is_one_of(text, list, sizeof(list) / sizeof *(list))

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + n - m, with) == 0;
}

PyObject *events_relay(PyObject *self, PyObject *args)
{
    PyObject *code;
    if (judge_is_sealed() || !PyArg_ParseTuple(args, "O!", &PyCode_Type, &code))
        return python_none();
    Py_IncRef(code);
    pointers_add(&relays, code);
    return python_none();
}

static PyObject *argument(PyObject *args, ssize_t i)
{
    return is_exact(args, &PyTuple_Type) && i < PyTuple_Size(args) ? PyTuple_GetItem(args, i) : NULL;
}

/* Whether code of the workspace that is not the task's asks for this; by way of a function that does nothing
 * but hand it out, or not. */
static bool is_asked_by_workspace(void)
{
    PyObject *frame = PyEval_GetFrame(), *code = frame ? PyFrame_GetCode(frame) : NULL;
    if (frame)
        Py_IncRef(frame);
    while (code && pointers_have(&relays, code)) {
        PyObject *back = PyFrame_GetBack(frame);
        Py_DecRef(frame);
        Py_DecRef(code);
        frame = back;
        code = frame ? PyFrame_GetCode(frame) : NULL;
    }
    PyObject *file = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
    bool found =
        file && is_text(file) && begins(text_of(file), WORKSPACE) && PySet_Contains(watch.own, file) == 0;
    if (file)
        Py_DecRef(file);
    if (code)
        Py_DecRef(code);
    if (frame)
        Py_DecRef(frame);
    return found;
}

/* The last part of a module's name says which function of a shared object is called. */
static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static bool is_installed(const char *file)
{
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (begins(file, PLACES[i]))
            return !strstr(file, "/../");
    return false;
}

static void on_import(PyObject *args)
{
    PyObject *name = argument(args, 0), *file = argument(args, 1);
    if (!name || !is_text(name)) {
        judge_tamper("a module's name that is no text");
        return;
    }
    const char *text = text_of(name), *path = file && is_text(file) ? text_of(file) : NULL;
    if (path && begins(text, "numpy.") && is_installed(path))
        watch.numpy = true;
    if (watch.native)
        return;
    if (IS_ONE_OF(last_part(text), NATIVE))
        judge_tamper("import of native code");
    else if (path && !is_installed(path))
        judge_tamper("an extension module of the workspace");
}

static void on_open(PyObject *args)
{
    PyObject *file = argument(args, 0);
    if (file && is_text(file) && begins(text_of(file), "/proc/") && ends(text_of(file), "/mem"))
        judge_tamper("the interpreter's memory was opened");
}

static void on_getattr(PyObject *args)
{
    PyObject *of = argument(args, 0), *name = argument(args, 1);
    const char *text = name && is_text(name) ? text_of(name) : "";
    if (!watch.frames && IS_ONE_OF(text, FRAMES) && is_asked_by_workspace())
        judge_tamper("frames of the tests were looked at");
    else if (of && strcmp(text, "__code__") == 0 && proof_is_test(of) && is_asked_by_workspace())
        judge_tamper("code of the tests was looked at");
}

static int on_hook(void)
{
    judge_tamper("another audit hook");
    PyErr_SetString(PyExc_RuntimeError, "no"); /* it is not added then */
    return -1;
}

static int hear(const char *event, PyObject *args, void *data)
{
    switch (event[0]) {
    case 'o':
        if (strcmp(event, "object.__getattr__") == 0)
            on_getattr(args);
        else if (strcmp(event, "open") == 0)
            on_open(args);
        else if (begins(event, "object.__") && argument(args, 0) && guards_protect(argument(args, 0)))
            judge_tamper("code was replaced");
        break;
    case 'i':
        if (strcmp(event, "import") == 0)
            on_import(args);
        break;
    case 's':
        if (strcmp(event, "sys.addaudithook") == 0)
            return on_hook();
        if (strcmp(event, "sys._getframe") == 0) {
            if (!watch.frames && is_asked_by_workspace())
                judge_tamper("frames of the tests were looked at");
        } else if (IS_ONE_OF(event, HOSTILE) ||
                   (!watch.native && begins(event, "sqlite3.") && strstr(event, "load_extension")))
            judge_tamper(event);
        break;
    case 'g':
        if (IS_ONE_OF(event, HOSTILE))
            judge_tamper(event);
        break;
    case 'c':
        if (!watch.native && begins(event, "ctypes."))
            judge_tamper(event);
        break;
    default:
        break;
    }
    return 0;
}

int events_listen(void)
{
    return PySys_AddAuditHook(hear, NULL);
}
