/* What a file seems to be, by its first bytes and never by its name. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FILEKIND_HEAD 8192u /* bytes at the start of a file that decide */

enum filekind {
    FILEKIND_TEXT = 0, /* the numbers go over the wire (CONTENT) */
    FILEKIND_UTF16LE = 1,
    FILEKIND_UTF16BE = 2,
    FILEKIND_IMAGE = 3, /* one that models can view */
    FILEKIND_BINARY = 4,
};

/* The kind of a file that begins with these bytes. *ret_name is a constant: a description ("an ELF
 * program"), or the MIME type of an image. */
enum filekind filekind_of(const uint8_t *head, size_t n, const char **ret_name);
