/* JSON at the edge of the library: texts of the caller's, and results for them. */
#pragma once

#include "error.h"
#include "json.h"

/* What the caller gave as `name`. NULL is *ret NULL; the second wants an object. */
int json_take(const char *name, const char *text, json_t **ret, struct error *err);
int json_take_object(const char *name, const char *text, json_t **ret, struct error *err);

/* The text of a value, which is consumed; NULL is no memory. */
int json_give(json_t *value, char **ret_text, struct error *err);
