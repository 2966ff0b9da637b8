/* The module: takes outcomes from the runner, judges them and writes the lines of outcomes.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "judge.h"
#include "banned.h"

#define EXPORT    __attribute__((visibility("default")))
#define TOKEN     32
#define TEXTS_MAX 2

static struct {
    char token[TOKEN + 1];
    int fd;
    pid_t pid;
    unsigned count; /* of lines */
    bool sealed, tampered;
    bool pristine; /* a run that counts: what passes has to be proven */
    PyObject *frame;
    PyObject *speakers[2]; /* code that is called by the frame and tells */
} all;

EXPORT PyObject *PyInit_hutch_judge(void);

bool judge_is_sealed(void)
{
    return all.sealed;
}

const char *text_of(PyObject *o)
{
    const char *s = is_text(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
    if (!s)
        PyErr_Clear();
    return s ? s : "?";
}

void *list_room(void *items, size_t size, size_t count, size_t *room, size_t first)
{
    if (count < *room)
        return items;
    size_t more = *room ? 2 * *room : first;
    void *moved = realloc(items, more * size);
    if (moved)
        *room = more;
    return moved;
}

static size_t pointers_slot(const struct pointers *p, const void *one)
{
    size_t at = ((uintptr_t)one >> 4) * 0x9E3779B97F4A7C15u >> 20 & (p->room - 1);
    while (p->items[at] && p->items[at] != one)
        at = (at + 1) & (p->room - 1);
    return at;
}

static bool pointers_grow(struct pointers *p)
{
    struct pointers more = {.room = p->room ? 2 * p->room : 256};
    more.items = calloc(more.room, sizeof *more.items);
    if (!more.items)
        return false;
    for (size_t i = 0; i < p->room; i++)
        if (p->items[i])
            more.items[pointers_slot(&more, p->items[i])] = p->items[i];
    more.count = p->count;
    free(p->items);
    *p = more;
    return true;
}

bool pointers_add(struct pointers *p, const void *one)
{
    if (2 * (p->count + 1) > p->room && !pointers_grow(p))
        return false;
    size_t at = pointers_slot(p, one);
    p->count += !p->items[at];
    p->items[at] = one;
    return true;
}

bool pointers_have(const struct pointers *p, const void *one)
{
    return p->room && p->items[pointers_slot(p, one)];
}

/* ---- lines ---- */

/* As outcomes.h reads it. `out` has room for twice as much. */
static size_t line_escape(const char *text, size_t n, char *out)
{
    size_t done = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        char plain = c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : c == '\\' ? '\\' : 0;
        if (plain)
            out[done++] = '\\';
        out[done++] = plain ? plain : (unsigned char)c < 32 ? '?' : c;
    }
    return done;
}

struct text {
    const char *bytes;
    size_t n;
};

static void line_write(char kind, const struct text *texts, size_t n)
{
    size_t room = TOKEN + 32, at;
    if (getpid() != all.pid)
        return;
    for (size_t i = 0; i < n; i++)
        room += 2 * texts[i].n + 1;
    char *line = malloc(room);
    if (!line)
        return;
    at = (size_t)snprintf(line, room, "%s %u %c", all.token, all.count++, kind);
    for (size_t i = 0; i < n; i++) {
        line[at++] = '\t';
        at += line_escape(texts[i].bytes, texts[i].n, line + at);
    }
    line[at++] = '\n';
    for (size_t sent = 0; sent < at;) {
        ssize_t done = write(all.fd, line + sent, at - sent);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        sent += (size_t)done;
    }
    free(line);
}

static void line_write_texts(char kind, const char *one, const char *two)
{
    struct text texts[TEXTS_MAX] = {{one, one ? strlen(one) : 0}, {two, two ? strlen(two) : 0}};
    line_write(kind, texts, two ? 2 : one ? 1 : 0);
}

void judge_tamper(const char *what)
{
    char text[WRONG_MAX + 16];
    if (all.tampered || !all.sealed)
        return;
    all.tampered = true;
    snprintf(text, sizeof text, "tampered: %s", what);
    line_write_texts('T', text, NULL);
}

/* ---- outcomes ---- */

/* Is the caller the frame that runs the tests, or what it calls for a test? */
bool judge_is_told_by_runner(void)
{
    PyObject *frame = PyEval_GetFrame();
    if (!all.sealed || !frame || frame == all.frame)
        return all.sealed && frame != NULL;
    PyObject *code = PyFrame_GetCode(frame), *back = PyFrame_GetBack(frame);
    bool good = back == all.frame && (code == all.speakers[0] || code == all.speakers[1]);
    if (code)
        Py_DecRef(code);
    if (back)
        Py_DecRef(back);
    return good;
}

/* False: no test passes from here on, and why. */
static bool judge_is_sound(char ret[WRONG_MAX])
{
    if (!guards_hold(ret) || !items_files_hold(ret))
        return false;
    if (!items_fixtures_hold()) {
        snprintf(ret, WRONG_MAX, "a fixture was replaced");
        return false;
    }
    return true;
}

static void judge_pass(const char *test)
{
    char wrong[WRONG_MAX], text[WRONG_MAX + 16];
    if (!judge_is_sound(wrong))
        judge_tamper(wrong);
    else if (all.pristine && !items_same(test))
        snprintf(wrong, sizeof wrong, "its parameters were changed");
    else if (all.pristine && !proof_given(test))
        snprintf(wrong, sizeof wrong, "its own code did not run to its end");
    else {
        line_write_texts('P', test, NULL);
        return;
    }
    snprintf(text, sizeof text, "tampered: %s", wrong);
    line_write_texts('E', test, text);
}

static void judge_check(void)
{
    char wrong[WRONG_MAX];
    if (!judge_is_sound(wrong))
        judge_tamper(wrong);
}

static void judge_take(char kind, const struct text *texts, size_t n)
{
    switch (kind) {
    case 'C': /* all are collected */
        judge_check();
        guards_settle();
        return;
    case 'P':
        judge_pass(n ? texts[0].bytes : "");
        return;
    case 'Z':
        judge_check();
        break;
    case 'B':
        proof_begin();
        if (n && !items_same(texts[0].bytes))
            judge_tamper("parameters of tests were changed");
        break;
    default:
        break;
    }
    line_write(kind, texts, n);
}

/* The bytes of all of these texts; false if one is none. What they are in is put into `held`. */
static bool judge_take_texts(PyObject *args, size_t n, PyObject **held, struct text *ret)
{
    for (size_t i = 0; i < n; i++) {
        PyObject *text = PyTuple_GetItem(args, (ssize_t)i);
        char *bytes;
        ssize_t size;
        held[i] = is_text(text) ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
        if (!held[i] || PyBytes_AsStringAndSize(held[i], &bytes, &size) < 0)
            return false;
        ret[i] = (struct text){bytes, (size_t)size};
    }
    return true;
}

/* tell(kind, text...) */
static PyObject *judge_tell(PyObject *self, PyObject *args)
{
    PyObject *held[1 + TEXTS_MAX] = {0};
    struct text texts[1 + TEXTS_MAX];
    size_t n = (size_t)PyTuple_Size(args);
    if (!judge_is_told_by_runner() || n < 1 || n > 1 + TEXTS_MAX) {
        judge_tamper("other code reported outcomes");
        return python_none();
    }
    if (judge_take_texts(args, n, held, texts) && texts[0].n == 1 &&
        strchr("BCPFESUZ", texts[0].bytes[0]))
        judge_take(texts[0].bytes[0], texts + 1, n - 1);
    else
        judge_tamper("unknown outcome");
    PyErr_Clear();
    for (size_t i = 0; i < 1 + TEXTS_MAX; i++)
        if (held[i])
            Py_DecRef(held[i]);
    return python_none();
}

/* ---- the module ---- */

/* install(token, fd, pristine, code of protocol, of plain, of execute): called by the frame that
 * tells, once. From here on nothing is taken in. */
static PyObject *judge_install(PyObject *self, PyObject *args)
{
    const char *token;
    PyObject *speaker, *plain, *loader;
    int fd, pristine;
    if (all.sealed) {
        judge_tamper("other code tried to act as the judge");
        return python_none();
    }
    if (!PyArg_ParseTuple(args, "siiO!O!O!", &token, &fd, &pristine, &PyCode_Type, &speaker,
                          &PyCode_Type, &plain, &PyCode_Type, &loader))
        return NULL;
    snprintf(all.token, sizeof all.token, "%s", token);
    all.fd = fd;
    all.pid = getpid();
    all.pristine = pristine;
    all.speakers[0] = speaker;
    all.speakers[1] = plain;
    all.frame = PyEval_GetFrame();
    proof_loader(loader);
    PyObject *kept[] = {speaker, plain, all.frame};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        Py_IncRef(kept[i]);
    all.sealed = true;
    return python_none();
}

PyObject *PyInit_hutch_judge(void)
{
    static const struct python_method METHODS[] = {
        {"guard", guards_add, METH_VARARGS, NULL},
        {"builtins", guards_builtins, METH_VARARGS, NULL},
        {"opcodes", proof_opcodes, METH_VARARGS, NULL},
        {"trust", proof_trust, METH_VARARGS, NULL},
        {"announce", proof_announce, METH_VARARGS, NULL},
        {"ended", proof_ended, METH_NOARGS, NULL},
        {"loaded", proof_loaded, METH_NOARGS, NULL},
        {"hold", items_hold, METH_VARARGS, NULL},
        {"fixture", items_fixture, METH_VARARGS, NULL},
        {"files", items_files, METH_VARARGS, NULL},
        {"install", judge_install, METH_VARARGS, NULL},
        {"tell", judge_tell, METH_VARARGS, NULL},
        {0}};
    static struct python_module module = PYTHON_MODULE("hutch_judge", METHODS);
    PyObject *m = PyModule_Create2(&module, PYTHON_API_VERSION);
    PyObject *ended = m ? PyObject_GetAttrString(m, "ended") : NULL,
             *loaded = m ? PyObject_GetAttrString(m, "loaded") : NULL;
    if (!ended || !loaded || !guards_start())
        return NULL;
    proof_marks(ended, loaded);
    return m;
}
