/* What the files of guards share. */
#pragma once

#include "judge.h"

struct guard {
    PyObject *names;   /* a dict, or a list */
    PyObject **keys;   /* NULL for a list */
    PyObject **values; /* NULL in the place of one that may change */
    size_t count;
    PyObject *title;
    PyObject *inherited; /* names that must not be added; NULL */
    enum added added;
    bool core; /* not even the tests themselves may change it */
    /* changed and put back is wrong, too; if it is not core, from when all are collected on */
    bool strict;
    uint64_t version;
    ssize_t size;
};

/* Room for n names in the table; NULL without memory. Names are put with what they must stay, NULL:
 * anything. */
struct guard *guards_new(PyObject *names, size_t n);
void guards_put(struct guard *g, PyObject *key, PyObject *value);
void guards_begin(struct guard *g);
/* A function keeps its code and a module its class; anything else is accepted. False: no memory. */
bool guards_keep_inside(PyObject *value);

bool guards_are_numbered(void);
bool guards_are_settled(void);
uint64_t guards_version(const PyObject *dict);
bool guards_is_builtin(PyObject *name);
bool guards_is_shared(PyObject *name);

/* Is it as it was? */
bool guards_look(struct guard *g, char ret[WRONG_MAX]);
bool guards_cells_hold(char ret[WRONG_MAX]);
