/* Inside of the walk: what each of its threads has for itself. */
#pragma once

#include "sweep.h"

#define SWEEP_SCRATCH (64u << 10)

/* A path that is put together again and again. */
struct sweep_path {
    char *text;
    size_t room;
};

struct sweep_thread {
    struct sweep *sweep;
    pthread_t thread;
    bool started;
    void *mine; /* the user's */
    struct sweep_path path;
    char scratch[SWEEP_SCRATCH] __attribute__((aligned(16)));
};

/* Writes the folder's own path, for sweep_path_set to add names to. -ENOMEM. */
int sweep_path_reserve(struct sweep_path *p, const struct folder *f);

/* The path of an entry; its length. */
size_t sweep_path_set(struct sweep_path *p, const struct folder *f, const char *name, size_t n);

/* Does jobs until there are no more. */
void sweep_do(struct sweep *w, struct sweep_thread *t);
