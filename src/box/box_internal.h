/*
 * struct box, and what the files of src/box share about boxes of this process.
 *
 * Whatever can be asked of a box goes through its box_ops, wherever the box lives: in this process
 * (LOCAL_BOX, over the machine of a backend) or in a keeper (kept_box.c).
 */
#pragma once

#include <pthread.h>

#include "backend.h"
#include "keeper.h"
#include "net_policy.h"

struct box_ops {
    int (*connect)(struct box *b, struct buf *request, int *ret_fd, struct error *err);
    int (*exec)(struct box *b, const struct box_command *c, struct box_result *ret,
                struct error *err);
    int (*terminal)(struct box *b, const struct box_command *c, unsigned rows, unsigned cols,
                    int *ret_fd, struct error *err);
    int (*adjust)(struct box *b, const struct box_options *o, unsigned fields, struct error *err);
    int (*changes)(struct box *b, struct box_changes *ret, struct error *err);
    int (*diff)(struct box *b, bool stat, int out, struct error *err);
    /* With `apply` box_apply(), else box_sync(). */
    int (*exchange)(struct box *b, bool apply, const struct apply_options *o,
                    const struct apply_report *report, struct error *err);
    int (*note_seen)(struct box *b, struct error *err);
    int (*info)(struct box *b, struct box_info *ret, struct error *err);
};

/* The network of a box as it is now; lists are NULL-terminated. */
struct box_network {
    const struct net_policy *policy;
    char **allow; /* as it was written, @GROUPs included */
    char **hosts; /* of the groups */
    char **env;   /* of the groups */
};

struct box {
    const struct box_ops *ops;
    int registry; /* of a box that a keeper holds: the folder that its name is in; else -1 */
    struct registry_id id;
    struct machine *machine; /* NULL: a keeper holds the box, or these are a snapshot's options */
    enum box_mode mode;
    char *workspace;
    int folder;        /* the user's folder, for apply; -1: none */
    struct seen *seen; /* what the folder had where the box touched it; NULL: nothing yet */
    int64_t fresh_ns;  /* since when the box looks up names of the folder anew, in real time */
    uint64_t noted_disk_state; /* usage.disk_state when `seen` was last brought up to date */
    bool tracks; /* keep `seen` up to date while commands run, not only when it is needed */
    struct applied_log *log; /* what applies changed in the folder; NULL: nothing */
    /* of the snapshot that these are the options of, or that the box began with */
    uint64_t log_position;
    struct proxy *proxy;
    pthread_mutex_t settings; /* guards the next four where box_adjust() changes them */
    struct box_limits limits;
    struct box_network network;
    char **env;         /* KEY=VALUE of commands, NULL-terminated: the network's, then: */
    char **own_env;     /* what the box was made with */
    const char *ended;  /* why the host has ended it; NULL: it has not */
    int64_t over_since; /* when box_tick first saw more memory than it may have; 0: it does not */
    struct box_pulse pulse; /* while nothing but box_tick watches */
    unsigned snapshots;     /* numbers given out */
    unsigned last_snapshot; /* the last that was written; 0: none */
    unsigned commands;      /* sent so far */
    /* held to write while the box's processes are stopped, to read while a command is sent */
    pthread_rwlock_t frozen;
};

extern const struct box_ops LOCAL_BOX;
struct box *box_new(void);
int local_exec(struct box *b, const struct box_command *c, struct box_result *ret,
               struct error *err);
int local_terminal(struct box *b, const struct box_command *cmd, unsigned rows, unsigned cols,
                   int *ret_fd, struct error *err);
int local_changes(struct box *b, struct box_changes *ret, struct error *err);
int local_diff(struct box *b, bool stat, int out, struct error *err);
int local_exchange(struct box *b, bool apply, const struct apply_options *o,
                   const struct apply_report *report, struct error *err);
int local_note_seen(struct box *b, struct error *err);

/* Waits until the box is up. */
static inline int box_wait(struct box *b, struct error *err)
{
    return b->machine->backend->wait(b->machine, err);
}

/* The clock of change times: a file that is changed after this call gets a time that is not
 * earlier. The second waits for the clock to tick: what was changed before has an earlier time. */
int64_t box_time(void);
int64_t box_time_after_now(void);

/* Keeps a record of the folder's files that commands touch, for apply and sync. */
void box_track(struct box *b);

/* Fills network and env of a box from options, or from another box, and starts the proxy if the
 * machine has a listener for one (network.c). */
int box_network_init(struct box *b, const struct box_options *o);
int box_network_copy(struct box *to, struct box *from);
int box_network_start(struct box *b, struct error *err);
void box_network_free(struct box_network *n);

/* Sets the network of the options, or with `add` adds their hosts to the present one; or that which
 * another box has now, unless one of them cannot change. */
int box_network_set(struct box *b, const struct box_options *o, bool add, struct error *err);
int box_network_inherit(struct box *b, struct box *from, struct error *err);

/* The network as --net writes it, to be freed; NULL: no memory. The settings are locked. */
char *box_network_print(const struct box_network *n);

/* Gives a box that was forked in order to replace `current`, or to stand beside it, its present
 * settings: what box_adjust() changed belongs to the box and not to its files. */
int box_inherit_settings(struct box *fresh, struct box *current, struct error *err);

/* A prepared box begins when it is taken: what changed in the user's folder before is no
 * conflict. */
void box_begin_now(struct box *b);

/* A snapshot of a box in which nothing was done yet: free, and its forks have no layer of it. */
int box_template(struct box *b, struct snapshot **ret, struct error *err);

/* The machine that forks of a snapshot start from, and a box without one that has their options. */
struct machine *snapshot_machine(const struct snapshot *s);
const struct box *snapshot_like(const struct snapshot *s);

/* Position of the box's applied log when the snapshot was taken. What the log of the present box
 * has after that (applied_log_each), a box restored from the snapshot must show as it was
 * before. */
uint64_t snapshot_applied(const struct snapshot *s);

/* Hands a box just forked from `s`, in order to replace `current`, what is known about the folder
 * since: the applied log, and for each path that applies wrote after `s`, what they wrote. Call it
 * before the earlier states are written into `fresh`. */
int box_inherit_applied(struct box *fresh, const struct box *current, const struct snapshot *s,
                        struct error *err);

/* A stream to the guest has ended without an answer: says why. Always -EPIPE, or -EAGAIN if the
 * guest is well. */
int box_lost(struct box *b, struct error *err);

/* A request did not reach the guest, for this negative errno; 0 is no error. */
int box_unreached(struct box *b, int r, struct error *err);

/* The guest did not answer in time: ends the box. -EPIPE. */
int box_silent(struct box *b, struct error *err);

/* A box that is being looked at from outside: its processes are stopped, a diff worker reads its
 * layers. */
struct box_view {
    struct box *box;
    int frozen; /* the connection that keeps the processes stopped; -1: there are none */
    struct machine *diff_worker;
    int64_t began_ns; /* of box_time() */
    bool alone;       /* the box has no processes that could have files open */
    bool mapped;      /* a process has files mapped to write to them */
};

/* With a snapshot the worker may write that one; else the overlay forgets the names it looked
 * up. */
int box_view_open(struct box *b, struct new_snapshot *snapshot, int cancel, struct box_view *ret,
                  struct error *err);
void box_view_close(struct box_view *v);
int box_diff_worker(struct box *b, struct new_snapshot *snapshot, struct machine **ret,
                    struct error *err);

/* Records what the folder has where the box touched it (seen.h). */
int box_view_note(struct box_view *v, struct error *err);

/* Fails for a box that writes to its folder directly, or not at all. */
int box_require_cow(const struct box *b, struct error *err);

/* Puts ENV fields: the made-up ones, then the box's, then the command's; a later one replaces an
 * earlier one. `shell`: for a script, where there is no user to answer a prompt or to leave a
 * pager. */
void environment_put(struct buf *b, char *const *box_env, char *const *command_env, bool tty,
                     bool shell);

char **list_copy(char *const *list);
char **list_copy_n(const char *const *list, size_t n);
char **list_free(char **list);
