#include <string.h>

#include "code.h"
#include "banned.h"

#define TEXT_MAX 80 /* bytes of a text that may be a name */

static int opcodes[OPCODES];

void code_opcodes(const int numbers[OPCODES])
{
    memcpy(opcodes, numbers, sizeof opcodes);
}

/* Goes through the instructions of a code: what each of them is, where it stands, and its
 * argument. */
static bool next_op(const uint8_t *raw, size_t n, size_t *at, int *ret_op, uint32_t *ret_arg)
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

size_t code_find_calls(const struct code_parts *p, ssize_t constant, uint32_t *ret, size_t max)
{
    bool armed = false;
    size_t found = 0;
    uint32_t arg;
    int op;
    for (size_t at = 0; constant >= 0 && next_op(p->bytes, p->n, &at, &op, &arg); at += 2) {
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

static void free_names(const uint8_t *raw, size_t n, PyObject *names, PyObject *outer)
{
    const int *o = opcodes;
    uint32_t arg;
    int op;
    bool deep = false;
    for (size_t at = 0; next_op(raw, n, &at, &op, &arg); at += 2) {
        deep = deep || op == o[STORE_DEREF];
        if ((op == o[STORE_GLOBAL] || op == o[DELETE_GLOBAL] || op == o[STORE_ATTR] ||
             op == o[DELETE_ATTR]) &&
            (ssize_t)arg < PyTuple_Size(names))
            guards_free_name(PyTuple_GetItem(names, (ssize_t)arg));
    }
    for (ssize_t i = 0; deep && i < PyTuple_Size(outer); i++)
        guards_shared_name(PyTuple_GetItem(outer, i));
}

void code_drop(struct code_parts *p)
{
    PyObject *held[] = {p->consts, p->raw, p->names, p->name, p->outer};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (held[i])
            Py_DecRef(held[i]);
    *p = (struct code_parts){0};
}

bool code_take(PyObject *code, struct code_parts *ret)
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
static void free_text(PyObject *text)
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

/* Names that this code and all in it may set. */
bool code_learn_names(PyObject *code)
{
    struct code_parts p;
    if (!code_take(code, &p))
        return false;
    bool good = true;
    free_names(p.bytes, p.n, p.names, p.outer);
    for (ssize_t i = 0; good && i < PyTuple_Size(p.consts); i++) {
        PyObject *c = PyTuple_GetItem(p.consts, i);
        if (is_text(c))
            free_text(c);
        else if (is_exact(c, &PyCode_Type))
            good = code_learn_names(c);
    }
    code_drop(&p);
    return good;
}
