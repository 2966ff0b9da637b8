/*
 * What isolates a box, behind one small table. box.c and exec.c are written against this and know no backend.
 *
 * A `place` is what a backend keeps of one box: its processes and its files. It is counted, because snapshots
 * and forks need the files of a box after the box itself is gone.
 */
#pragma once

#include <pthread.h>

#include "box.h"

/* A guest that runs: a box's, or a scribe's. */
struct guest {
    pid_t pid;
    int pidfd;
    int control; /* our end; closing it ends the guest */
};

#define GUEST_NONE ((struct guest){.pidfd = -1, .control = -1})

/* What the kernel counted for a box; `counted` is false where it cannot and the guest must sample. */
struct usage {
    bool counted;
    int64_t cpu_ns;
    uint64_t memory;
    uint64_t oom_kills;
    uint64_t pids_hits;
    bool disk_full;
};

/* What a process needs to come into a box from outside; all but `own` are kept by the place. */
struct entrance {
    int process;  /* a pidfd of process 1 */
    int joins[4]; /* files to join control groups by */
    size_t n_joins;
    int own; /* one of the joins, to be closed by who asked; or -1 */
};

/* A warm process that is to be started: its ends of a socket and of a pipe, its program and its environment.
 */
struct backend_warm {
    int control, voice, program, setup;
    char *const *env;
};

struct place;

struct backend {
    const char *name;
    size_t layers_max; /* deeper is slow: a snapshot that would reach it is flattened into one layer */
    /* Both return while the place is still being made; ready() waits for that, from any thread, and says how
     * it went. */
    int (*open)(const struct box_options *o, struct place **ret, struct error *err);
    int (*fork)(struct place *from, unsigned snapshot, bool flattened, struct place **ret, struct error *err);
    void (*kill)(struct place *p); /* from any thread: its processes die, which whoever waits for them sees */
    void (*end)(
        struct place *p); /* the owner's: ends its processes; the files stay while it is referred to */
    int (*ready)(struct place *p, struct error *err);
    struct place *(*ref)(struct place *p);
    void (*unref)(struct place *p);
    void (*forget)(struct place *p); /* its files will not be looked at any more */
    struct guest *(*guest)(struct place *p);
    /* A scribe over the place; with snapshot > 0 it may write that new snapshot. End it with guest_end. */
    int (*scribe)(struct place *p, unsigned snapshot, struct guest *ret, struct error *err);
    size_t (*depth)(const struct place *p); /* layers that it stands on */
    bool (*counted)(const struct place *p);
    void (*usage)(struct place *p, bool with_memory, struct usage *ret);
    int (*listener)(
        struct place *p); /* socket on which the box's network proxy accepts, or -1; kept by the place */
    /* Starts a warm process that sees what the place's forks see, and says how to come into a place. */
    int (*warm)(struct place *p, const struct backend_warm *w, pid_t *ret_pid, struct error *err);
    int (*entrance)(struct place *p, struct entrance *ret);
    bool (*related)(const struct place *a, const struct place *b); /* of one family */
};

extern const struct backend BACKEND_NS;

/* A fresh stream to a guest, with the request already in `request` if it is not NULL (and its descriptors).
 */
int guest_connect(const struct guest *g, struct buf *request, const int *fds, size_t n_fds, int *ret_fd);

/* Hands the guest its end of a stream, which stays the caller's to close. */
int guest_give(const struct guest *g, int theirs);

/* A stream on which the guest is not waited for longer than this between two frames. */
int guest_connect_patient(const struct guest *g, struct buf *request, int *ret_fd);
#define GUEST_PATIENCE_S 60

/* From any thread: the guest dies, and all in its box with it. */
void guest_kill(const struct guest *g);

/* Kills, waits, closes. Takes a guest that is already ended. */
void guest_end(struct guest *g);

/* What a box keeps beside its place; shared by box.c, exec.c and snapshot.c. */
struct box {
    const struct backend *backend;
    struct place *place;
    struct box_limits limits;
    enum box_mode mode;
    char *workspace;
    int folder;       /* the person's folder, for apply; -1: none */
    int64_t since_ns; /* when the box began, in real time: a file of the folder that changed later is a
                         conflict */
    char **env;       /* KEY=VALUE, NULL-terminated */
    struct apply_memory *applied;
    struct proxy *proxy;
    char **allow;
    size_t n_allow;
    unsigned snapshots; /* numbers given out */
    unsigned commands;  /* sent so far */
    pthread_rwlock_t
        frozen; /* held to write while the box's processes are stopped, to read while a command is sent */
};
