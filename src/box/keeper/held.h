/*
 * The boxes that a keeper holds, and who is using them.
 *
 * A held box has a name, a listener and, behind one pointer, its instance: the struct box itself,
 * which `restore` replaces. A request works on the instance that it found when it entered; whoever
 * retires an instance first asks the requests in it to end, waits until they left, and only then
 * closes the box.
 *
 * Two kinds of locks. `keeper.lock` guards the lists and pointers here and is held for moments.
 * `held.owner` is held during calls of box.h that belong to a box's owner (all but box_exec and
 * box_connect), for as long as they take; it is taken first.
 */
#pragma once

#include <pthread.h>

#include "keeper.h"

struct request {
    struct keeper *keeper;
    struct held *held;
    struct instance *instance; /* while entered */
    int conn; /* to the client; its reading end is shut to end a command; -1: there is none */
    struct request *next;
};

struct instance {
    struct box *box;
    struct request *requests;
};

struct kept_snapshot {
    char name[KEEPER_SNAPSHOT_NAME];
    struct snapshot *snapshot;
};

struct held {
    struct registry_id id;
    int listener;
    int64_t born, used; /* used: when a request last ended */
    struct keeper_life life;
    bool ending; /* the keeper's loop has begun to remove it */
    bool removed;
    size_t refs; /* requests that point here */
    pthread_mutex_t owner;
    struct instance *instance;
    struct snapshot *origin; /* what the box was when it began */
    struct kept_snapshot *snapshots;
    size_t n_snapshots;
    unsigned last_snapshot;
    struct kept_snapshot *inherited; /* of the boxes that it was forked from, as ID:NAME */
    size_t n_inherited;
    struct held *next;
};

struct keeper {
    int registry;
    int epoll; /* all listeners, and: */
    int wake;  /* an eventfd: the lists changed */
    pthread_mutex_t lock;
    pthread_cond_t left; /* a request left its instance */
    struct held *boxes;
};

/* Gives a box a name and a listener, and takes the box over, also on failure. *ret has a reference,
 * for held_unref(). */
int held_add(struct keeper *k, struct box *b, const struct keeper_life *life, struct held **ret,
             struct error *err);
void held_unref(struct keeper *k, struct held *h);

/* When its time to live ends; 0: never. The lock is held. */
int64_t held_until(const struct held *h);

/* Enters the present instance; -ENOENT once the box is removed. */
int held_enter(struct request *q, struct error *err);
void held_leave(struct request *q);

/* Puts a new box in place of the present one. The owner lock is held. Takes the box over. */
int held_replace(struct keeper *k, struct held *h, struct box *b, struct error *err);

/* Takes the name away, ends what runs and closes the box. False if somebody else does so already.
 * The caller holds a reference. */
bool held_remove(struct keeper *k, struct held *h);

/* Serves one request of a client and closes the connection (serve.c). */
void keeper_serve(struct request *q);
