/*
 * The set-up of a box as data: a list of operations, made before anything privileged happens, which
 * can be printed and tested, and is then executed.
 *
 * Stage 2 is executed by process 1 of the new box, in its own namespaces. Before it the launcher's
 * child executes stage 1, once it has entered the family's user namespace and, for a fork or a diff
 * worker, the mount namespace of the box that it starts from: it picks up mounts there. A fork may
 * have a stage 0 before that, in a copy of the host's mounts, for its store on disk.
 *
 * The plan has everything that the operations need (paths, descriptors, options), so executing it
 * is nothing but system calls: no allocation, no libc state. Operations leave descriptors of mounts
 * and directories for later ones in numbered slots.
 */
#pragma once

#include <sys/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box.h"
#include "confine.h"

/*
 * Two processes that help process 1 of a box to start. What starts and finishes them is the
 * launcher's child (spawn.c); what process 1 calls is async-signal-safe.
 *
 * The network helper makes the box's empty network namespace at the same time as the mounts: it is
 * the slowest of all namespaces to make, a third of what a box costs. It shares memory and
 * descriptors with process 1, which waits for it only when everything else is done.
 *
 * The /proc helper is for hosts where the box's own user namespace may not mount a procfs. The
 * kernel lets a user namespace mount one only if one is in full view there already. In a container
 * parts of /proc are masked, so it refuses (EPERM). Root with CAP_SYS_ADMIN in the namespace that
 * owns the container's mounts is not asked that question. So a helper that still has these rights
 * mounts it:
 *
 *     launcher's child ── fork ──> helper: waits on a socket for the pid namespace of process 1
 *                                    └─ fork, into that namespace ──> mounts a procfs, sends it
 *
 * What process 1 gets is a new procfs of its own pid namespace and shows nothing but the box. The
 * container's own /proc is never shown to a box.
 */

#define NETWORK_STACK 4096

struct network {
    uint32_t ready; /* futex: 1 when `fd` or `error` is there */
    int fd;         /* the namespace */
    int error;
    pid_t pid;
    char stack[NETWORK_STACK] __attribute__((aligned(16)));
};

int network_start(struct network *n);
int network_enter(struct network *n);   /* by process 1: waits, then enters */
void network_finish(struct network *n); /* takes one that was never started */

struct outer_proc {
    pid_t pid;
    int socket; /* -1: there is no helper */
};

/* Whether parts of /proc are covered by other mounts, as in a container. */
bool outer_proc_is_masked(void);

/* By the launcher's child before it gives up its rights. */
int outer_proc_start(struct outer_proc *p);

/* By process 1: its procfs, as a detached mount. */
int outer_proc_receive(const struct outer_proc *p, int *ret_fd);

/* By the launcher's child once process 1 has its procfs or is gone. */
void outer_proc_finish(struct outer_proc *p);

enum slot {
    SLOT_HOST = 0,  /* paths from the root that is current when the operation is executed */
    SLOT_STORE,     /* the new box's store, a tmpfs */
    SLOT_ROOT,      /* the new root mount */
    SLOT_PROC,      /* a procfs of the new pid namespace, writable and attached nowhere */
    SLOT_SOURCE,    /* the store of the box that this one starts from */
    SLOT_WORKSPACE, /* the person's folder, id-mapped where that is needed */
    SLOT_GUEST,     /* the guest's program file, on a read-only mount of its own */
    SLOT_FREE,      /* from here on: picked by plan_slot() */
    SLOT_MAX = SLOT_FREE + 256,
};

/* slot := means that the operation leaves a descriptor there. */
enum op_kind {
    OP_MOUNT,    /* slot := a new filesystem; path: type, text: options, flags: attributes */
    OP_PROC,     /* slot := a new procfs */
    OP_OVERLAY,  /* slot := an overlay in the store, which is the working folder; text: lowerdir, */
                 /* path: the upper's parent or NULL, flags: 1 if never written back */
    OP_CLONE,    /* slot := a clone of the mount tree at from/path; flags: attributes */
    OP_ATTACH,   /* attaches slot's mount at to/path */
    OP_BIND,     /* both: a clone of the mount tree at from/text, attached at to/path */
    OP_REFRESH,  /* the overlay at from/path forgets the names that it looked up */
    OP_COVER,    /* an empty folder, or a file that reads as empty, over to/path */
    OP_HIDE,     /* a whiteout at to/path/NAME for each NAME of text, which end with a NUL */
    OP_MKDIR,    /* a directory at to/path; flags: mode */
    OP_SYMLINK,  /* a link at to/path with content text */
    OP_FILE,     /* a file at to/path with content text; flags: mode; optional: may exist */
    OP_MARK,     /* marks the folder at to/path of an upper layer as opaque */
    OP_CHDIR,    /* enters slot */
    OP_PIVOT,    /* slot becomes the root; the old root is detached */
    OP_NETWORK,  /* enters the network namespace that was made meanwhile (plan.h) */
    OP_LISTEN,   /* slot := a socket that listens on 127.0.0.1:flags */
    OP_HOSTNAME, /* text */
    OP_HANDOVER, /* sends the host the store, the mount namespace, and slot's socket if set */
    OP_SYSCTL,   /* writes text to the file path of SLOT_PROC */
    OP_RLIMIT,   /* slot: resource, flags: value */
    OP_CONFINE, /* a nested user namespace, no capabilities but those of flags, no new privileges */
    OP_LANDLOCK, /* flags: LANDLOCK_… */
    OP_SECCOMP,  /* flags: OP_SECCOMP_… */
    OP_EXEC,     /* slot's program, text = argv[1] or NULL */
    OP_KINDS,
};

enum { OP_SECCOMP_DIFF_WORKER = 1, OP_SECCOMP_NO_ALLOCATION = 2 };

struct op {
    enum op_kind kind;
    int slot;
    int from, to;     /* slots */
    const char *path; /* relative to a slot, or absolute for SLOT_HOST; "" is the slot itself */
    const char *text;
    uint64_t flags;
    bool recursive; /* OP_CLONE, OP_BIND: with what is mounted inside */
    bool optional;  /* a missing source or target is no error: the operation is skipped */
};

#define PLAN_OPS_MAX      1024 /* for all shares that a box may have, each some folders deep */
#define PLAN_HOST_OPS_MAX 48
#define PLAN_RULES_MAX    (BOX_SHARES_MAX + 16)
#define PLAN_STRINGS_MAX  (64u << 10)

struct plan {
    struct op stage0[PLAN_HOST_OPS_MAX];
    size_t n_stage0;
    struct op stage1[64];
    size_t n_stage1;
    struct op stage2[PLAN_OPS_MAX];
    size_t n_stage2;
    struct landlock_rule rules[PLAN_RULES_MAX]; /* for OP_LANDLOCK */
    size_t n_rules;
    int next_slot;
    int fds[SLOT_MAX]; /* descriptors given from outside, -1 where none */
    char *strings;     /* arena of the texts made for this plan */
    size_t strings_len;
    bool overflow; /* an operation or text did not fit: the plan must not be executed */
};

int plan_init(struct plan *p);
void plan_free(struct plan *p);

/* Appends an operation to a stage. */
void plan_add(struct plan *p, int stage, struct op op);
const struct op *plan_stage(const struct plan *p, int stage, size_t *ret_n);
int plan_slot(struct plan *p);
void plan_rule(struct plan *p, const char *path, enum landlock_class rights);

/* Operations of stage 2 that many parts of a box need. A missing source or target is no error for
 * an attach or a bind: the host may remove its own files at any time, and a box may have renamed a
 * folder that its fork needs. A bind includes what is mounted inside. */
void plan_mkdir(struct plan *p, int to, const char *path, mode_t mode);
void plan_file(struct plan *p, const char *path, const char *text); /* both in the store */
void plan_symlink(struct plan *p, const char *path, const char *target);
void plan_attach(struct plan *p, int slot, int to, const char *path);
void plan_bind(struct plan *p, int from, const char *source, const char *at_in_root,
               uint64_t attributes);

/* Formats into the plan's arena; never NULL (an overflow yields "" and spoils the plan). */
const char *plan_text(struct plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Copies bytes into the plan's arena, as plan_text(). */
const char *plan_bytes(struct plan *p, const char *bytes, size_t n);

/* What the operation does, for a person, as in "make the folder w/u". */
void plan_describe(const struct op *op, char *text, size_t size);

/* Where the execution stopped. */
struct plan_failure {
    int stage;
    int index;
    int code; /* errno */
};

/* What the operations of process 1 need beside the plan. */
struct plan_exec {
    const struct plan *plan;
    int fds[SLOT_MAX];
    int control;  /* the guest's end of the control socket */
    int listener; /* of the filter, set by OP_SECCOMP; -1: none */
    struct network *network;
    const struct outer_proc *outer_proc; /* mounts the procfs for OP_PROC; NULL: process 1 does */
    struct plan_failure failure;
};

/* Async-signal-safe; returns 0 or a negative errno with c->failure filled. Stage 2 ends in exec. */
int plan_exec_stage(struct plan_exec *c, int stage);
