/*
 * Exchanging a file for another, beside processes that may give the same name to a file of theirs
 * at any moment.
 *
 * The kernel exchanges two names in one step, but not on the condition that one of them still is a
 * certain file. So what comes out is looked at afterwards, and if it was not expected, it goes
 * back. That may come too late as well: by then the name can be somebody's who is later still, and
 * so on. The rule is that the file which was put in its place last stays there.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cleanup.h"

/* A place, and the name under which a file waits to be exchanged for what is there. */
struct swap {
    int dir;
    const char *name;
    int waiting_dir;
    const char *waiting;
};

/* Which file it is. Its number is not given to another one as long as it is held. */
struct held {
    int fd;
    dev_t dev;
    ino_t ino;
};

#define HELD_INIT      ((struct held){.fd = -1})
#define _cleanup_held_ _cleanup_(held_end)

/* Of a name; a link is not followed. */
int held_begin(struct held *h, int dir, const char *name);
void held_end(struct held *h);
bool held_is_same(const struct held *a, const struct held *b);

/* One step, whatever is there. -EINVAL or -ENOSYS: a filesystem that cannot exchange. */
int swap_do(const struct swap *s);

/* Puts what waits back in its place, where `ours` was put. If somebody has put another file there
 * since, that stays. Either way nothing that waits afterwards is missed. */
int swap_back(const struct swap *s, const struct held *ours);
