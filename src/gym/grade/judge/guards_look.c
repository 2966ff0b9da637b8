/* Comparing what is guarded with how it was: by identity, and without running any code of
 * anybody's. */
#include <stdio.h>
#include <string.h>

#include "guards.h"
#include "banned.h"

#define STRAYS_MAX 512 /* names that were not there before */

static bool is_known(const struct guard *g, const PyObject *key)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->keys[i] == key)
            return true;
    return false;
}

static bool may_be_added(const struct guard *g, PyObject *key, const PyObject *value)
{
    if (!is_text(key))
        return false;
    switch (g->added) {
    case ADDED_NOTHING:
        return false;
    case ADDED_NO_BUILTINS:
        return !guards_is_builtin(key);
    case ADDED_NOT_INHERITED:
        return PySet_Contains(g->inherited, key) == 0 || guards_is_free(key);
    case ADDED_NO_SPECIAL:
        return strncmp(text_of(key), "__", 2) != 0;
    default:
        return is_exact(value, &PyModule_Type) || strcmp(text_of(key), "__warningregistry__") == 0;
    }
}

static bool complain(const struct guard *g, PyObject *key, const char *how, char ret[WRONG_MAX])
{
    snprintf(ret, WRONG_MAX, "%s%s%s%s", text_of(g->title), key ? "." : "", key ? text_of(key) : "",
             how);
    return false;
}

static bool is_as_it_was(const struct guard *g, size_t i, const PyObject *value)
{
    return !g->values[i] || value == g->values[i] || (!g->core && guards_is_free(g->keys[i]));
}

static bool is_there(const struct guard *g, size_t i)
{
    PyObject *key, *value;
    for (ssize_t at = 0; PyDict_Next(g->names, &at, &key, &value);)
        if (key == g->keys[i])
            return is_as_it_was(g, i, value);
    return false;
}

/* Most names stand where they stood. What was taken away and put back comes last. */
static bool look(const struct guard *g, char ret[WRONG_MAX])
{
    PyObject *key, *value, *strays[STRAYS_MAX][2];
    size_t i = 0, n_strays = 0;
    for (ssize_t at = 0; PyDict_Next(g->names, &at, &key, &value);) {
        if (i < g->count && key == g->keys[i]) {
            if (!is_as_it_was(g, i, value))
                return complain(g, key, "", ret);
            i++;
        } else if (g->added == ADDED_FREE) {
            continue;
        } else if (n_strays < STRAYS_MAX) {
            strays[n_strays][0] = key;
            strays[n_strays++][1] = value;
        } else
            return complain(g, NULL, " (too many names)", ret);
    }
    for (; i < g->count; i++)
        if (!is_there(g, i))
            return complain(g, g->keys[i], "", ret);
    for (size_t s = 0; s < n_strays; s++)
        if (!is_known(g, strays[s][0]) && !may_be_added(g, strays[s][0], strays[s][1]))
            return complain(g, strays[s][0], "", ret);
    return true;
}

static bool look_at_list(const struct guard *g, char ret[WRONG_MAX])
{
    if ((size_t)PyList_Size(g->names) != g->count)
        return complain(g, NULL, "", ret);
    for (size_t i = 0; i < g->count; i++)
        if (PyList_GetItem(g->names, (ssize_t)i) != g->values[i])
            return complain(g, NULL, "", ret);
    return true;
}

bool guards_look(struct guard *g, char ret[WRONG_MAX])
{
    if (is_exact(g->names, &PyList_Type))
        return look_at_list(g, ret);
    uint64_t now = guards_are_numbered() ? guards_version(g->names) : 0;
    if (guards_are_numbered() && now == g->version)
        return true;
    if (!look(g, ret))
        return false;
    /* Code under test may put names of its own into the module that called it. */
    bool grown = PyDict_Size(g->names) > g->size;
    if (guards_are_numbered() && g->strict && !grown && (g->core || guards_are_settled()))
        return complain(g, NULL, " was changed for a while", ret);
    g->version = now;
    g->size = PyDict_Size(g->names);
    return true;
}
