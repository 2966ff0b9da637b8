/* One entry of list_files, as data and as a line for a model. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "buf.h"
#include "wire.h"

struct list_entry {
    const char *prefix;
    struct wire_field path; /* not empty */
    char type;              /* f, d, l, or another */
    mode_t mode;            /* 0: not known */
    uint64_t size;
    bool has_target;
    struct wire_field target;
};

/* The names of types, made once: there may be many entries. */
struct list_types {
    json_t *file, *folder, *link, *other;
};

struct list_types list_types_new(void);
void list_types_free(struct list_types *t);

json_t *list_entry_json(const struct list_entry *e, const struct list_types *types);

#define LIST_TEXT_MAX (512u << 10) /* bytes of lines; what does not fit is told to be in the data  \
                                    */

struct list_text {
    struct buf *out;
    bool tree, sizes;
    struct buf last; /* the path of the last line */
    uint64_t unwritten;
};

void list_text_begin(struct list_text *t, struct buf *out, bool tree, bool sizes);
void list_text_add(struct list_text *t, const struct list_entry *e);
void list_text_end(struct list_text *t, uint64_t count, uint64_t rest, uint64_t unreadable);
void list_text_free(struct list_text *t);
