/* What clients (kept_box.c) and keepers (serve.c) send each other, in frames of wire.h: their own
 * types, and a few keys beside those there. */
#pragma once

#include "box.h"

enum keeper_type {
    KEEPER_EXEC = 192, /* ARG… ENV… CWD TTY CAPTURE TIMEOUT_NS CPU_TIME_NS + 3 fds → KEPT… RESULT */
    KEEPER_FORK,     /* COUNT, NAME of a snapshot → ENTRY(PATH TEXT)… RESULT(NAME…) */
    KEEPER_SNAPSHOT, /* → RESULT(NAME) */
    KEEPER_RESTORE,  /* NAME → ENTRY(PATH TEXT)… RESULT; see restore_report */
    KEEPER_DIFF,     /* STAT + 1 fd of a file that the text goes to → RESULT */
    KEEPER_APPLY,    /* an apply_options → ENTRY(PATH KIND TEXT)… RESULT(COUNT) */
    KEEPER_REMOVE,   /* → RESULT */
    KEEPER_INFO,     /* → RESULT */
    KEEPER_CONNECT, /* and a frame for the guest → RESULT + 1 fd, the stream that it answers on */
    KEEPER_CHANGES, /* → ENTRY(PATH KIND MODE SIZE)… RESULT */
    /* answer: STREAM DATA, a piece of captured output; STREAM is an enum keeper_stream */
    KEEPER_KEPT,
    KEEPER_SYNC, /* like APPLY */
    KEEPER_NOTE, /* → RESULT */
    KEEPER_SET,  /* FIELDS and what they name → RESULT */
};

enum keeper_key {
    KEEPER_K_TTY = 256,
    KEEPER_K_CAPTURE,
    KEEPER_K_TIMEOUT_NS, /* as box_command.timeout_ns, two's complement */
    KEEPER_K_CPU_TIME_NS,
    KEEPER_K_CPU_NS,
    KEEPER_K_OUT_TOTAL,
    KEEPER_K_ERR_TOTAL,
    KEEPER_K_PID,
    KEEPER_K_BOX_MODE,
    KEEPER_K_AGE_NS,
    KEEPER_K_LEFT_NS,
    KEEPER_K_SNAPSHOTS,
    KEEPER_K_SHELL, /* a script's session, */
    KEEPER_K_SCRIPT,
    KEEPER_K_INPUT,       /* absent: nothing */
    KEEPER_K_ON_CONFLICT, /* enum apply_choice */
    KEEPER_K_ALLOW_GIT_DIRS,
    KEEPER_K_REPLACED_FOLDER,
    KEEPER_K_OUT_ERROR,
    KEEPER_K_FIELDS, /* enum box_field */
    KEEPER_K_NET,    /* name of a policy; in an answer of INFO the text of --net */
    KEEPER_K_ALLOW,  /* each entry of box_options.allow */
    KEEPER_K_HOST,   /* of box_options.hosts */
    KEEPER_K_NET_ENV,
    KEEPER_K_MEMORY,
    KEEPER_K_PIDS,
    KEEPER_K_MILLICPUS,       /* of box_limits.cpus; 0: all */
    KEEPER_K_REFUSED,         /* a box_refusal: its target, */
    KEEPER_K_REFUSED_PRIVATE, /* or of those whose address is private */
};

enum keeper_stream {
    KEEPER_OUT_HEAD = 1,
    KEEPER_OUT_TAIL,
    KEEPER_ERR_HEAD,
    KEEPER_ERR_TAIL,
};

/* Both directions of what takes more than a few fields, side by side in keeper_wire.c. */

/* A command without its descriptors, sink and cancel. What is found points into memory that
 * keeper_command_free() frees, and into the frame. */
struct keeper_command {
    struct box_command command;
    char **argv, **env;
    char *cwd, *shell, *script;
};
void keeper_put_command(struct buf *out, const struct box_command *c);
int keeper_find_command(const struct wire_frame *f, struct keeper_command *ret);
void keeper_command_free(struct keeper_command *c);

/* A result without its captured output, which goes in KEEPER_KEPT frames; only its totals. */
void keeper_put_result(struct buf *out, const struct box_result *r);
void keeper_find_result(const struct wire_frame *f, struct box_result *r);

/* The limits that can change while a box lives. */
void keeper_put_limits(struct buf *out, const struct box_limits *l);
struct box_limits keeper_find_limits(const struct wire_frame *f);

/* All fields of one key as a NULL-terminated list of strings, in one block of memory that starts
 * with the list; NULL without memory, or if one of them holds a NUL. */
char **keeper_find_strings(const struct wire_frame *f, uint16_t key, size_t *ret_n);
