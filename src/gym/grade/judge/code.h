/* Reading code objects. */
#pragma once

#include "judge.h"

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

bool code_take(PyObject *code, struct code_parts *ret);
void code_drop(struct code_parts *p);

void code_opcodes(const int numbers[OPCODES]);

/* Where this code calls its constant of that number: the first `max` places. Returns how many there
 * are. */
size_t code_find_calls(const struct code_parts *p, ssize_t constant, uint32_t *ret, size_t max);

/* Tells guards.c of all names that this code, and all code in it, may set. */
bool code_learn_names(PyObject *code);
