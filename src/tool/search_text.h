/* What search_files and list_files share, and the form that a model reads. */
#pragma once

#include <jansson.h>

#include "buf.h"
#include "error.h"

/* The GLOB fields of a request: of a string or a list of them. */
void search_put_globs(struct buf *b, const json_t *glob);

/* What goes before the paths that the guest tells, for a path as it was asked for. */
const char *search_prefix(const char *path);

/* The data of search_files as text: each file with its lines, as grep and rg write them. */
void search_text(struct buf *b, const json_t *data);

/* Adds to the failure of either what to do about it. Returns -err->code. */
int search_hint(struct error *err);
