/* The tools as a model gets them; tool_schemas.h says what is promised. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "tool_schemas.h"
#include "banned.h"

struct named_tool {
    char legal[TOOL_SCHEMAS_NAME_MAX + 1];
    const char *real; /* of the tool */
    json_t *entry;
    size_t position; /* in the table; those of sources come behind it, by name */
};

struct tool_schemas {
    struct named_tool *items;
    size_t count;
    json_t *list;
    json_t *names; /* legal → real */
};

struct listing {
    struct tool_schemas *t;
    void (*trouble)(void *data, const char *text);
    void *data;
    int error;
    size_t left_out;
};

/* The name with `_` for what is not allowed; where that is too long or another tool has it already,
 * with a hash of the whole name at its end (FNV-1a). Depends on nothing but the names. */
static void name_make_legal(const struct tool_schemas *t, const char *name, char *legal)
{
    size_t n = 0;
    for (; n < TOOL_SCHEMAS_NAME_MAX && name[n]; n++) {
        char c = name[n];
        legal[n] = (isascii(c) && isalnum((unsigned char)c)) || c == '-' ? c : '_';
    }
    legal[n] = 0;
    if (!name[n] && n > 0 && !json_object_get(t->names, legal))
        return;
    unsigned hash = 2166136261u;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    size_t keep = n < TOOL_SCHEMAS_NAME_MAX - 9 ? n : TOOL_SCHEMAS_NAME_MAX - 9;
    snprintf(legal + keep, 10, "_%08x", hash);
}

static void schemas_add(void *data, const struct tool *tool)
{
    struct listing *l = data;
    struct tool_schemas *t = l->t;
    if (t->count >= TOOL_SCHEMAS_MAX) {
        l->left_out++;
        return;
    }
    struct named_tool *items = realloc(t->items, (t->count + 1) * sizeof *items);
    if (!items) {
        l->error = -ENOMEM;
        return;
    }
    t->items = items;
    size_t position = 0;
    while (TOOLS[position] && strcmp(TOOLS[position]->name, tool->name) != 0)
        position++;
    json_t *schema = json_loads(tool->input, 0, NULL);
    json_t *entry = schema ? json_pack("{s:s, s:s, s:o}", "name", tool->name, "description",
                                       tool->summary, "input_schema", schema)
                           : NULL;
    if (entry)
        items[t->count++] =
            (struct named_tool){.real = tool->name, .entry = entry, .position = position};
}

static void schemas_trouble(void *data, const char *text)
{
    struct listing *l = data;
    if (l->trouble)
        l->trouble(l->data, text);
}

static int schemas_compare(const void *a, const void *b)
{
    const struct named_tool *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return strcmp(x->real, y->real);
}

int tool_schemas_new(struct tool_session *s, void (*trouble)(void *data, const char *text),
                     void *data, struct tool_schemas **ret, struct error *err)
{
    char text[100];
    struct tool_schemas *t = calloc(1, sizeof *t);
    struct listing l = {.t = t, .trouble = trouble, .data = data};
    if (!t)
        return error_set(err, ENOMEM, "out of memory");
    t->list = json_array();
    t->names = json_object();
    tool_session_list(s, schemas_add, schemas_trouble, &l);
    if (t->count > 0)
        qsort(t->items, t->count, sizeof *t->items, schemas_compare);
    if (!t->list || !t->names)
        l.error = -ENOMEM;
    for (size_t i = 0; l.error == 0 && i < t->count; i++) {
        struct named_tool *n = &t->items[i];
        if (i > 0 && strcmp(n[-1].real, n->real) == 0)
            continue; /* from two sources: the first counts */
        name_make_legal(t, n->real, n->legal);
        json_object_set_new(n->entry, "name", json_string(n->legal));
        json_object_set_new(t->names, n->legal, json_string(n->real));
        if (json_array_append(t->list, n->entry) < 0)
            l.error = -ENOMEM;
    }
    if (l.error < 0) {
        tool_schemas_free(t);
        return error_set(err, ENOMEM, "out of memory");
    }
    if (l.left_out > 0) {
        snprintf(text, sizeof text, "%zu tools are left out: a model gets at most %d", l.left_out,
                 TOOL_SCHEMAS_MAX);
        schemas_trouble(&l, text);
    }
    *ret = t;
    return 0;
}

struct tool_schemas *tool_schemas_free(struct tool_schemas *t)
{
    if (!t)
        return NULL;
    for (size_t i = 0; i < t->count; i++)
        json_decref(t->items[i].entry);
    free(t->items);
    json_decref(t->list);
    json_decref(t->names);
    free(t);
    return NULL;
}

json_t *tool_schemas_list(const struct tool_schemas *t)
{
    return t->list;
}

const char *tool_schemas_real(const struct tool_schemas *t, const char *name)
{
    const char *real = json_string_value(json_object_get(t->names, name));
    return real ? real : name;
}
