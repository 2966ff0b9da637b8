/*
 * The repository's own configuration, without credentials: a token in a remote's URL, an
 * http.extraHeader, a credential helper. A box of mode cow sees this text in place of .git/config
 * if there is one of these in it.
 */
#pragma once

#include "buf.h"

/* 1 with the text, 0 if the workspace's .git/config needs none. If the file cannot be understood,
 * the text has nothing but what git needs to read a repository. */
int git_mask_config(const char *workspace, struct buf *ret);

/* A URL without the user's name and password, but for the name of SSH's. Pure. */
void git_mask_url(const char *url, struct buf *ret);

/* May a box see an entry of a configuration, by its full name (in lower case, but for a
 * subsection)? Pure. */
bool git_mask_allows(const char *key);
