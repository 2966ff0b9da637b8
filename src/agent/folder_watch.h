/*
 * Which files of the person's folder changed between two looks at it.
 *
 * A look is a walk that compares identity and change time of each file with the look before; no
 * file is opened. It ends after FOLDER_ENTRIES_MAX entries or FOLDER_LOOK_NS, and then reports only
 * files that both looks met. What is beneath .git, node_modules and the like is left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLDER_ENTRIES_MAX 100000u
#define FOLDER_LOOK_NS     500000000LL

enum folder_change_kind { FOLDER_CHANGED, FOLDER_ADDED, FOLDER_DELETED };

struct folder_change {
    char *path;
    enum folder_change_kind kind;
};

struct folder_changes {
    struct folder_change *items; /* in order of their paths */
    size_t count, room;
};
void folder_changes_free(struct folder_changes *c);

struct folder_watch;

struct folder_watch *folder_watch_new(const char *folder); /* NULL: no memory */
struct folder_watch *folder_watch_free(struct folder_watch *w);

/* Takes the first look, in a thread of its own. Does nothing if there was one. */
void folder_watch_begin(struct folder_watch *w);

/* Looks again: what changed since the last look. Before the first one, which files changed after
 * that time. */
int folder_watch_look(struct folder_watch *w, int64_t since_realtime_ns,
                      struct folder_changes *ret);

/* An apply wrote or removed this path: that is no change of the person's. */
void folder_watch_accept(struct folder_watch *w, const char *path);
