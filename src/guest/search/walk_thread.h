/* Inside of the walk: what each of its threads has for itself. */
#pragma once

#include "walk.h"

#define WALK_SCRATCH (64u << 10)

/* A path that is put together again and again. */
struct walk_path {
    char *text;
    size_t room;
};

struct walk_thread {
    struct walk *walk;
    pthread_t thread;
    void *mine; /* the user's */
    struct walk_path path;
    char scratch[WALK_SCRATCH] __attribute__((aligned(16)));
};

/* Writes the folder's own path, for walk_path_set to add names to. -ENOMEM. */
int walk_path_reserve(struct walk_path *p, const struct folder *f);

/* The path of an entry; its length. */
size_t walk_path_set(struct walk_path *p, const struct folder *f, const char *name, size_t n);

/* Does jobs until there are no more. */
void walk_do(struct walk *w, struct walk_thread *t);
