/*
 * Folders that git would take for a repository because of what is in them, whatever they are
 * called: HEAD, objects and refs (a bare repository), or HEAD and commondir. `git status` in or
 * below such a folder obeys its config, which can name programs. So a box's changes that would make
 * one, or change one that is there, are refused unless the person allows it.
 *
 * Give it all paths that a box added or modified, let it ask about the rest, then ask it about each
 * path. Pure, but for the question.
 */
#pragma once

#include <stdbool.h>

struct git_dirs;

struct git_dirs *git_dirs_new(void);
struct git_dirs *git_dirs_free(struct git_dirs *g);

/* 0 or -ENOMEM. */
int git_dirs_add(struct git_dirs *g, const char *path);

/* `has` tells whether the person's folder has something at a path. Call it once, behind the last
 * path. */
void git_dirs_settle(struct git_dirs *g, bool (*has)(void *data, const char *path), void *data);

/* Is this path a part of a folder that is, or would become, a git directory? */
bool git_dirs_refuse(const struct git_dirs *g, const char *path);
