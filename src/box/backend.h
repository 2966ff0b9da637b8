/*
 * A backend is what isolates boxes: one row of functions. The rest of src/box, and everything above
 * it, knows no backend; a new one is a file and a line in backends.def.
 *
 * A machine is what a backend keeps of one box: its processes and its files. It is reference
 * counted, because snapshots and forks need the files of a box after the box itself is closed.
 */
#pragma once

#include "box.h"

struct machine {
    const struct backend *backend;
    unsigned refs;
};

/* Bits: what of struct usage takes time to find out, and is asked for. */
#define USAGE_COUNTERS   1u /* cpu_ns, oom_kills, pids_hits */
#define USAGE_MEMORY     2u /* memory, sockets; only with the counters */
#define USAGE_DISK_STATE 4u

/* What was counted for a box. All zero: the backend does not know, and the guest samples. */
struct usage {
    bool counted; /* cpu_ns, memory, oom_kills and pids_hits are those of the whole box */
    int64_t cpu_ns;
    uint64_t memory;
    uint64_t sockets; /* of the memory: what sockets hold; 0 where the kernel limits it by itself */
    uint64_t oom_kills;
    uint64_t pids_hits; /* times that the limit on processes refused one */
    bool disk_full;
    bool disk_watched;   /* only the host stops a box that writes more than it may */
    bool disk_exact;     /* the kernel itself refuses to write more: a quota */
    bool host_disk_full; /* it is the host's filesystem that is nearly full */
    bool disk_lost;      /* nothing watches the disk any more */
    uint64_t disk_bytes; /* used at the last count, if disk_watched */
    uint64_t disk_state; /* differs from the last one if files were made or removed meanwhile */
};

/* How the guest of a machine is. */
struct machine_status {
    pid_t pid; /* process 1 of the box as the host numbers it; 0: not known */
    bool has_ended;
    bool failed_start; /* it ended before it could serve */
    bool is_waiting;   /* for a processor or a disk: it could not have answered yet */
    char why[320];     /* what ended the guest, or kept it from starting; empty: not known */
};

/* A snapshot that a diff worker is to write. */
struct new_snapshot {
    unsigned number; /* from 1 on, chosen by the caller */
    bool flatten;    /* set by the backend: write the sum of all layers, not only what is new */
};

struct backend {
    const char *name;

    /* Starts a machine and returns at once, while it is still being made. wait() returns when the
     * guest can be reached, or says why it cannot; from any thread, any number of times. */
    int (*open)(const struct box_options *o, struct machine **ret, struct error *err);
    int (*wait)(struct machine *m, struct error *err);

    /* A fresh stream to the guest, on which `request` (NULL: nothing; it is emptied) and the
     * descriptors were sent. May be called before wait(): the guest then finds the request waiting.
     * -EPIPE or -ECONNRESET: the guest has ended; -EAGAIN: it takes nothing. From any thread. */
    int (*connect)(struct machine *m, struct buf *request, const int *fds, size_t n_fds,
                   int *ret_fd);

    /* From any thread: ends the processes; who waits for them sees their streams end. */
    void (*kill)(struct machine *m);
    /* By the owner: the same, and waits for it. The files stay while there are references. */
    void (*close)(struct machine *m);
    /* The last reference was dropped. */
    void (*free)(struct machine *m);

    /* Waits for the guest's end for up to wait_ms. */
    void (*status)(struct machine *m, int wait_ms, struct machine_status *ret);

    /* The rest may be NULL; callers then fail with a message that names the backend. */

    void (*usage)(struct machine *m, unsigned detail, struct usage *ret);
    /* Brings the limits of `fields` (enum box_field) of a living machine into force. */
    int (*set_limits)(struct machine *m, const struct box_limits *l, unsigned fields,
                      struct error *err);
    /* The socket on which the box's network proxy accepts, or -1; it stays the machine's. */
    int (*listener)(struct machine *m);
    /* A machine, started like open(), with the files of a snapshot; 0: of `from` before use. */
    int (*fork)(struct machine *from, unsigned snapshot, struct machine **ret, struct error *err);
    /* A machine whose guest is a diff worker over the files of `m`. With `snapshot` it may write
     * that one; else the box sees names of its folder anew that it looked up before. */
    int (*diff_worker)(struct machine *m, struct new_snapshot *snapshot, struct machine **ret,
                       struct error *err);
};

/* The backends of --backend; NULL ends the list. */
extern const struct backend *const BACKENDS[];
#define BACKEND(row, name, summary) extern const struct backend row;
#include "backends.def"
#undef BACKEND

/* -EOPNOTSUPP: "the backend X cannot WHAT". */
int backend_cannot(const struct backend *b, const char *what, struct error *err);

static inline struct machine *machine_ref(struct machine *m)
{
    __atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

static inline void machine_unref(struct machine *m)
{
    if (m && __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) == 0)
        m->backend->free(m);
}

/* Whether a machine needs a listener for its network proxy. */
bool box_has_proxy(const struct box_options *o);

/* What a box's TCP and UDP sockets may hold: no more than its memory, and a quarter of what the
 * kernel gives to all of the machine (a sixteenth of the memory). */
uint64_t limit_sockets(const struct box_limits *l);

/* All zero if the backend does not count. */
static inline void machine_usage(struct machine *m, unsigned detail, struct usage *ret)
{
    *ret = (struct usage){0};
    if (m->backend->usage)
        m->backend->usage(m, detail, ret);
}

/* A stream on which neither side is waited for longer than GUEST_PATIENCE_S at a time: code in the
 * box can starve its guest. */
int machine_connect(struct machine *m, struct buf *request, int *ret_fd);
#define GUEST_PATIENCE_S 60

/*
 * For backends whose guest is a child process of this one with a control socket (SOCK_SEQPACKET):
 * each packet hands the guest one end of a new stream.
 */
struct guest {
    pid_t pid;
    int pidfd;
    int control; /* our end; closing it ends the guest */
};

#define GUEST_NONE   ((struct guest){.pidfd = -1, .control = -1})
#define GUEST_TASKS  2 /* of the guest itself (src/guest/notify.c), beside what a box may have */
#define GUEST_SEND_S 5 /* for what does not fit into a socket at once: -EAGAIN then */

/* Makes the control socket: our end into `g`, the guest's is the caller's to close. */
int guest_control(struct guest *g, int *ret_theirs);
int guest_connect(const struct guest *g, struct buf *request, const int *fds, size_t n_fds,
                  int *ret_fd);
void guest_kill(const struct guest *g);
void guest_end(struct guest *g); /* kills, waits, closes; takes one that has ended already */
void guest_status(const struct guest *g, int wait_ms, struct machine_status *ret);
