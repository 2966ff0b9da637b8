/*
 * What the server itself asks of a box, for resources and completions: as tools, which are in no
 * list, so that they keep the order of calls, can be cancelled and have all the limits that tools
 * have.
 *
 * A failed result has data {"errno": N}.
 */
#pragma once

#include "tool.h"

#define OWN_BYTES_MAX   (8u << 20) /* of a file or a diff */
#define OWN_ENTRIES_MAX 10000      /* of one folder */
#define OWN_TREE_MAX    1000       /* of the whole workspace: those nearest to its root */

extern const struct tool OWN_READ; /* {"path"} → the bytes in result.image */
extern const struct tool
    OWN_LIST; /* {"path"} → data.entries: [{"name", "size", "folder", "file"}], sorted */
extern const struct tool
    OWN_TREE; /* {} → the same of all folders, names being paths; without ignored ones */
extern const struct tool
    OWN_DIFF; /* {} → the bytes in result.image: a diff, or its summary if it is too long */
