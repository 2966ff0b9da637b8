/*
 * A box's set-up as data: a list of operations, made before anything privileged happens, then
 * carried out.
 *
 * A plan has two stages. The first is carried out by the launcher's child once it has entered the
 * family's user namespace (and, for a fork or a diff worker, the mount namespace of the box it
 * starts from): it picks up mounts there. Before it a fork may have a stage 0, in a copy of the
 * host's mounts, for files that the host has replaced since the source box was made. The second is
 * carried out by process 1 of the new box, in its own namespaces. Everything the operations need
 * (paths, descriptors, options) is in the plan, so executing it is nothing but system calls: no
 * allocation, no libc state.
 *
 * Mounts and directories are named by slots: small numbers for descriptors that operations leave
 * behind for later ones.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box.h"
#include "landlock.h"

enum slot {
    SLOT_HOST = 0,  /* paths from the root that is current when the operation is carried out */
    SLOT_STORE,     /* the new box's store, a tmpfs */
    SLOT_ROOT,      /* the new root mount */
    SLOT_PROC,      /* a procfs of the new pid namespace, writable and attached nowhere */
    SLOT_SOURCE,    /* the store of the box that this one starts from */
    SLOT_WORKSPACE, /* the person's folder, id-mapped where that is needed */
    SLOT_GUEST,     /* the guest's program file, on a read-only mount of its own */
    SLOT_FREE,      /* from here on: picked by plan_slot() */
    SLOT_MAX = SLOT_FREE + 256,
};

enum op_kind {
    OP_TMPFS,   /* slot := a new tmpfs; options in text ("size=…,nr_inodes=…,mode=…") */
    OP_PROC,    /* slot := a new procfs */
    OP_DEVPTS,  /* slot := a new devpts instance */
    OP_OVERLAY, /* slot := an overlay; text = lowerdir, path = upper's parent in the store, flags =
                 * 1 if that is never written back; cwd is the store */
    OP_CLONE, /* slot := a clone of the mount tree at from/path; flags = mount attributes, recursive
               */
    OP_REFRESH,   /* the overlay at from/path forgets the names that it looked up */
    OP_KERNEL_FS, /* slot := a new mount of the type in text, of the box's own namespaces; flags =
                   * attributes
                   */
    OP_SHOW,   /* a clone of the mount tree at the host's path, attached at the same path of the new
                  root */
    OP_HIDE,   /* a whiteout at to/path/NAME for each NAME of text: each ends with a NUL, the list
                  with two */
    OP_COVER,  /* an empty folder, or a file that reads as empty, over to/path */
    OP_ATTACH, /* attaches slot's mount at to/path */
    OP_MKDIR,  /* a directory at to/path, mode in flags */
    OP_SYMLINK, /* a link at to/path with content text */
    OP_FILE,    /* a file at to/path with content text, mode in flags; optional: one that is there
                   stays */
    OP_MARK,  /* marks the folder at to/path as opaque, as an overlay does when a deleted folder is
               * made again
               */
    OP_CHDIR, /* enters slot */
    OP_PIVOT, /* slot becomes the root; the old root is let go */
    OP_NETWORK,  /* enters the network that was made meanwhile (network.h) */
    OP_LISTEN,   /* listens on 127.0.0.1:flags and hands the socket to the host */
    OP_HOSTNAME, /* text */
    OP_HANDOVER, /* sends the store and the mount namespace to the host */
    OP_RLIMIT,   /* which in from, value in flags */
    OP_CONFINE,  /* a nested user namespace, no capabilities (but those of flags), no new privileges
                  */
    OP_LANDLOCK, /* flags: LANDLOCK_… */
    OP_SECCOMP,  /* flags: OP_SECCOMP_… */
    OP_EXEC,     /* slot's program, text = argv[1] or NULL */
    OP_SYSCTL,   /* writes text to the file path of SLOT_PROC */
};

enum { OP_SECCOMP_DIFF_WORKER = 1, OP_SECCOMP_NO_ALLOCATION = 2 };

struct op {
    enum op_kind kind;
    int slot;
    int from;         /* OP_CLONE: source slot; OP_RLIMIT: resource */
    int to;           /* OP_ATTACH, OP_MKDIR, …: where path starts */
    const char *path; /* relative to a slot, or absolute for SLOT_HOST; "" is the slot itself */
    const char *text;
    uint64_t flags;
    bool recursive;
    bool optional;    /* a source that is not there is no error: the operation and what attaches its
                         slot is    skipped */
    bool replaceable; /* OP_ATTACH: a source that was deleted meanwhile is left out */
};

#define PLAN_OPS_MAX                                                                               \
    1024 /* as many shares as a box may have, each some folders deep, and all the rest */
#define PLAN_HOST_OPS_MAX 48
#define PLAN_RULES_MAX    (BOX_SHARES_MAX + 16)

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
    bool overflow; /* an operation or text did not fit: the plan must not be carried out */
};

#define PLAN_STRINGS_MAX (64u << 10)

int plan_init(struct plan *p);
void plan_free(struct plan *p);

/* Appends an operation to a stage. */
void plan_add(struct plan *p, int stage, struct op op);
int plan_slot(struct plan *p);
void plan_rule(struct plan *p, const char *path, enum landlock_class rights);

/* Formats into the plan's arena; never NULL (an overflow yields "" and spoils the plan). */
const char *plan_text(struct plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Copies bytes into the plan's arena, as plan_text(). */
const char *plan_bytes(struct plan *p, const char *bytes, size_t n);

/* One line for a person: what this operation does, as in "mount the overlay of /workspace". */
void plan_describe(const struct op *op, char *text, size_t size);

/* Where the execution stopped. */
struct plan_failure {
    int stage;
    int index;
    int code; /* errno */
};

struct network;
struct outer_proc;

/* What the operations of process 1 need beside the plan. */
struct plan_exec {
    const struct plan *plan;
    int fds[SLOT_MAX];
    int control;  /* the guest's end of the control socket */
    int listener; /* of the filter, set by OP_SECCOMP; -1: none */
    struct network *network;
    const struct outer_proc
        *outer_proc; /* who mounts the procfs for OP_PROC, or NULL: process 1 itself */
    struct plan_failure failure;
};

/* Both are async-signal-safe; they return 0 or a negative errno with c->failure filled. Stage 2
 * ends in exec.
 */
int plan_exec_stage(struct plan_exec *c, int stage);

/* A procfs of the caller's pid namespace, for outer_proc.c. */
int plan_exec_new_proc(int *ret_fd);
