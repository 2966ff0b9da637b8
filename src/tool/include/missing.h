/* A program that is on the host and not in the box: the person may show it there, so the result
 * says so. */
#pragma once

#include <stdbool.h>

#include "box.h"

/* Looks a program up in the host's PATH; true with its absolute path. */
bool missing_on_host(const char *name, char *path, size_t size);

bool missing_is_below(const char *path, const char *folder);

/* The folder to show for a program: the one above `bin`, where its libraries are, unless that is
 * everything.
 */
void missing_folder(const char *path, char *folder, size_t size);

/* If the output ends with a shell's message that a command was not found, and the host has it where
 * the box has nothing of: true with what to do. */
bool missing_describe(const struct box_capture *output, char *text, size_t size);
