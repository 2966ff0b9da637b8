/*
 * What isolates a box, behind one small table. box.c and exec.c are written against this and know
 * no backend.
 *
 * A `place` is what a backend keeps of one box: its processes and its files. It is counted, because
 * snapshots and forks need the files of a box after the box itself is gone.
 */
#pragma once

#include <pthread.h>

#include "box.h"
#include "registry.h"

/* A guest that runs: a box's, or a diff worker's. */
struct guest {
    pid_t pid;
    int pidfd;
    int control; /* our end; closing it ends the guest */
};

#define GUEST_NONE ((struct guest){.pidfd = -1, .control = -1})

/* What the kernel counted for a box; `counted` is false where it cannot and the guest must sample.
 */
struct usage {
    bool counted;
    int64_t cpu_ns;
    uint64_t memory;
    uint64_t sockets; /* of the memory: what sockets hold; 0 where the kernel limits it by itself */
    uint64_t oom_kills;
    uint64_t pids_hits;
    bool disk_full;
    bool disk_watched; /* nothing but the host stops a box that writes more than it may: a store on
                          disk */
    bool disk_exact;   /* the kernel itself refuses to write more: a quota */
    bool host_disk_full; /* it is the host's filesystem that is nearly full */
    bool disk_lost;      /* nothing watches it any more */
    uint64_t disk_bytes; /* used at the last count, if disk_watched */
};

/* What a process needs to come into a box from outside; all but `own` are kept by the place. */
struct entrance {
    int process;  /* a pidfd of process 1 */
    int joins[4]; /* files to join control groups by */
    size_t n_joins;
    int own; /* one of the joins, to be closed by who asked; or -1 */
};

/* A warm process that is to be started: its ends of a socket and of a pipe, its program and its
 * environment.
 */
struct backend_warm {
    int control, voice, program, setup;
    char *const *env;
};

struct place;

struct backend {
    const char *name;
    size_t
        layers_max; /* deeper is slow: a snapshot that would reach it is flattened into one layer */
    /* Both return while the place is still being made; ready() waits for that, from any thread, and
     * says how it went. */
    int (*open)(const struct box_options *o, struct place **ret, struct error *err);
    int (*fork)(struct place *from, unsigned snapshot, bool flattened, struct place **ret,
                struct error *err);
    void (*kill)(struct place *
                     p); /* from any thread: its processes die, which whoever waits for them sees */
    void (*end)(struct place *p); /* the owner's: ends its processes; the files stay while it is
                                     referred to */
    int (*ready)(struct place *p, struct error *err);
    struct place *(*ref)(struct place *p);
    void (*unref)(struct place *p);
    void (*forget)(struct place *p); /* its files will not be looked at any more */
    struct guest *(*guest)(struct place *p);
    /* A diff worker over the place; with snapshot > 0 it may write that new snapshot. End it with
     * guest_end. */
    int (*diff_worker)(struct place *p, unsigned snapshot, struct guest *ret, struct error *err);
    size_t (*depth)(const struct place *p); /* layers that it stands on */
    uint64_t (*space)(struct place *p);     /* another number whenever files were made or removed */
    bool (*counted)(const struct place *p);
    bool (*on_disk)(const struct place *p); /* its files are on disk, not in memory */
    void (*usage)(struct place *p, bool with_memory, struct usage *ret);
    /* Brings the limits of `fields` (enum box_field) of a living place into force. */
    int (*limit)(struct place *p, const struct box_limits *l, unsigned fields, struct error *err);
    int (*listener)(struct place *p); /* socket on which the box's network proxy accepts, or -1;
                                         kept by the place */
    /* Starts a warm process that sees what the place's forks see, and says how to come into a
     * place. */
    int (*warm)(struct place *p, const struct backend_warm *w, pid_t *ret_pid, struct error *err);
    int (*entrance)(struct place *p, struct entrance *ret);
    bool (*related)(const struct place *a, const struct place *b); /* of one family */
};

extern const struct backend BACKEND_NS;

/* A box has a proxy if it may reach some hosts, or may be allowed to later. */
static inline bool box_has_proxy(const struct box_options *o)
{
    return o->net == BOX_NET_ALLOW || (o->net == BOX_NET_OFF && o->adjustable);
}

/* Bytes that a box may have on disk here, 0 if it can have none there. */
uint64_t box_disk_room(void);

/* What a box's TCP and UDP sockets may hold: no more than its memory, and a quarter of what the
 * kernel gives to all of the machine (a sixteenth of the memory). */
uint64_t limit_sockets(const struct box_limits *l);

/* A fresh stream to a guest, with the request already in `request` if it is not NULL (and its
 * descriptors).
 */
int guest_connect(const struct guest *g, struct buf *request, const int *fds, size_t n_fds,
                  int *ret_fd);

/* Hands the guest its end of a stream, which stays the caller's to close. */
int guest_give(const struct guest *g, int theirs);

/* A stream on which the guest is not waited for longer than this between two frames. */
int guest_connect_patient(const struct guest *g, struct buf *request, int *ret_fd);
#define GUEST_PATIENCE_S 60
#define GUEST_TASKS                                                                                \
    2                  /* process 1 and its thread (src/guest/notify), beside what a box may have  \
                        */
#define GUEST_SEND_S 5 /* for what does not fit into a socket at once: -EAGAIN then */

/* From any thread: the guest dies, and all in its box with it. */
void guest_kill(const struct guest *g);

/* Kills, waits, closes. Takes a guest that is already ended. */
void guest_end(struct guest *g);

/* The network of a box as it is now; lists are NULL-terminated. */
struct box_network {
    enum box_net net;
    char **allow; /* as it was written, @GROUPs included */
    char **hosts; /* of the groups */
    char **env;   /* of the groups */
};

/* What can be asked of a box wherever it lives: in this process (LOCAL_BOX) or in a keeper
 * (kept_box.c). The functions of box.h with the same names call these. */
struct box_ops {
    int (*request)(struct box *b, struct buf *request, int *ret_fd, struct error *err);
    int (*exec)(struct box *b, const struct box_command *c, struct box_result *ret,
                struct error *err);
    int (*adjust)(struct box *b, const struct box_options *o, unsigned fields, struct error *err);
    int (*changes)(struct box *b, struct box_changes *ret, struct error *err);
    int (*diff)(struct box *b, bool stat, int out, struct error *err);
    int (*apply)(struct box *b, const struct apply_options *o, const struct apply_report *report,
                 struct error *err);
    int (*sync)(struct box *b, const struct apply_options *o, const struct apply_report *report,
                struct error *err);
    int (*note_seen)(struct box *b, struct error *err);
    int (*info)(struct box *b, struct box_info *ret, struct error *err);
};

/* A box of this process; what it keeps beside its place is shared by box.c, exec.c and snapshot.c.
 */
struct box {
    const struct box_ops *ops;
    int registry; /* of a box that a keeper holds: the folder that its name is in; else -1 */
    struct registry_id id;
    const struct backend *backend;
    struct place *place;
    struct box_limits limits;
    enum box_mode mode;
    char *workspace;
    int folder;           /* the person's folder, for apply; -1: none */
    char **env;           /* KEY=VALUE, NULL-terminated */
    struct seen *seen;    /* what the folder had where the box touched it; NULL: nothing yet */
    int64_t fresh_ns;     /* since when the box looks up names of the folder anew, in real time */
    uint64_t noted_space; /* of the store when `seen` was last brought up to date */
    bool tracks; /* keep `seen` up to date while commands run, not only when it is needed */
    struct applied_log *log; /* what applies changed in the folder; NULL: nothing */
    uint64_t log_position;   /* of the snapshot that these are the options of, or that the box began
                                with */
    struct proxy *proxy;
    pthread_mutex_t
        settings; /* guards `limits`, `network` and `env` where box_adjust() changes them */
    struct box_network network;
    char *
        *own_env; /* what the box was made with; `env` has it behind the variables of the network */
    const char
        *ended; /* why the host has ended it, as in "the box has ended: …"; NULL: it has not */
    int64_t over_since; /* when box_tick first saw more memory than it may have; 0: it does not */
    struct box_pulse pulse;  /* while nothing but box_tick watches */
    unsigned snapshots;      /* numbers given out */
    unsigned last_snapshot;  /* the last that was written; 0: none */
    unsigned commands;       /* sent so far */
    pthread_rwlock_t frozen; /* held to write while the box's processes are stopped, to read while a
                                command is sent */
};
