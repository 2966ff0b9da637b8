/* What warm.c and warm_run.c share. */
#pragma once

#include "backend.h"
#include "warm.h"

struct warm {
    const struct backend *backend;
    struct place *place; /* of the family's snapshot */
    int program, setup;  /* files */
    char **env;
    int reviving;         /* turn.h: whoever starts another process has it */
    pthread_mutex_t lock; /* of the rest */
    struct guest process;
    unsigned generation; /* counts the processes that there were */
};

/* Sends a run. -EPIPE: the process is gone; ret_generation tells which one it was. */
int warm_send(struct warm *w, const int *fds, size_t n_fds, unsigned *ret_generation);

/* Whether that process is gone. And a new one in its place, unless somebody else was first;
 * -ECANCELED. */
bool warm_is_gone(struct warm *w, unsigned generation);
int warm_revive(struct warm *w, unsigned generation, int cancel, struct error *err);
