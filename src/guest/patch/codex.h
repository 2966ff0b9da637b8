/*
 * The other form of diff that models write:
 *
 *     *** Begin Patch
 *     *** Update File: src/a.c
 *     *** Move to: src/b.c
 *     @@ int main(void)
 *      context
 *     -old
 *     +new
 *     *** End of File
 *     *** Add File: new.txt
 *     +its lines
 *     *** Delete File: old.txt
 *     *** End Patch
 *
 * Its hunks have no numbers: they are found by their lines, behind the line that @@ names.
 */
#pragma once

#include "cursor.h"

/* Reads one such patch; the cursor stands at its first line. */
int codex_parse(struct diff *d, struct cursor *c, struct error *err);
