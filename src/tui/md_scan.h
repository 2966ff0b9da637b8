/* What one line of Markdown begins, seen from the top level of a document. Lines may end with a
 * newline. */
#pragma once

#include "markdown.h"

bool md_blank(const char *line, size_t n);
int md_indent(const char *line, size_t n); /* columns of blanks at its start */

bool md_heading(const char *line, size_t n);
bool md_quote(const char *line, size_t n);
bool md_item(const char *line, size_t n); /* of a list */
bool md_interrupts(const char *line,
                   size_t n); /* an item that can follow a paragraph without an empty line */
bool md_rule(const char *line, size_t n);

/* An opening fence; *ret_info is what stands behind it. */
bool md_fence(const char *line, size_t n, struct markdown_fence *ret, const char **ret_info,
              size_t *ret_info_n);
bool md_fence_ends(const struct markdown_fence *f, const char *line, size_t n);
