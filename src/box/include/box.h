/*
 * A box from the host's side: open, run commands in it, snapshot, fork, see and apply its changes,
 * close.
 *
 * The host never touches a file that a box can write: commands and file requests go through
 * box_connect() to the guest. A diff worker reads the box's changes: a guest in namespaces of its
 * own, where no code of the agent ever runs (guest/diff/diff_worker.h).
 *
 * Functions return 0 or a negative errno and set `err` to one line that says what failed. Any
 * number of threads may call box_connect and box_exec at once; all other calls are the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "text.h"
#include "wire.h"

enum box_mode { BOX_COW, BOX_DIRECT, BOX_RO };

/* Where the files are that a box writes. Auto: in memory up to BOX_MEMORY_STORE_MAX, else on disk;
 * on a kernel whose tmpfs has no user xattrs (before Linux 6.6) always on disk. */
enum box_store { BOX_STORE_AUTO, BOX_STORE_MEMORY, BOX_STORE_DISK };
#define BOX_MEMORY_STORE_MAX (1ULL << 30)

/* Another folder or regular file of the host, shown in the box. */
struct box_share {
    const char *source;
    const char *at; /* absolute, inside the box */
    bool writable;
    bool is_file;
};

/* A link at the top of the box, for programs that expect a folder there: "/app" to "/workspace". */
struct box_link {
    const char *at; /* a slash and a name */
    const char *to;
};

struct box_limits {
    int64_t timeout_ns;  /* wall time of one command; 0: none */
    int64_t cpu_time_ns; /* of one command with all its children; 0: none */
    uint64_t memory;     /* bytes */
    uint64_t pids;
    uint64_t files;        /* open descriptors per process */
    uint64_t disk;         /* bytes of everything the box writes */
    double cpus;           /* 0: all */
    uint64_t output;       /* bytes of each stream kept in a captured result */
    uint64_t output_total; /* bytes of both streams after which the command is ended */
    uint64_t sockets; /* bytes of TCP and UDP sockets, set by box_open; 0: the host's network */
};

#define BOX_SHARES_MAX    64
#define BOX_ENV_MAX       256
#define BOX_ALLOW_MAX     64
#define BOX_HOSTS_MAX     64
#define BOX_NET_ENV_MAX   32
#define BOX_LINKS_MAX     8
#define BOX_LINK_SIZE     128  /* bytes of either end */
#define BOX_GIT_MASK_SIZE 8192 /* bytes of git_mask */
#define BOX_GIT_SIZE      1024 /* bytes of git_config */

/* All strings are borrowed and must outlive box_open; a box keeps copies of what it needs. */
struct box_options {
    const struct backend *backend; /* what isolates the box */
    const char *workspace;         /* host folder; NULL: an empty one */
    enum box_mode mode;
    bool hide_path;    /* show the workspace at /workspace only, not at its path on the host, too */
    const char *image; /* folder that is the root filesystem, or NULL for the host's selection */
    bool one_shot;     /* one command only: leave out what only later ones could need */
    bool warm;         /* children of a warm process may enter it, and its forks (warm.h) */
    bool adjustable;   /* box_adjust() may change the network: start with a proxy */
    const struct net_policy *net;
    const char *allow[BOX_ALLOW_MAX]; /* HOST or HOST:PORT, or @GROUP, which stands for some of: */
    size_t n_allow;
    const char *hosts[BOX_HOSTS_MAX]; /* HOST:PORT of package managers; may be private addresses */
    size_t n_hosts;
    const char *net_env[BOX_NET_ENV_MAX]; /* KEY=VALUE that programs need to use those hosts */
    size_t n_net_env;
    struct box_limits limits;
    enum box_store store;
    struct box_share shares[BOX_SHARES_MAX];
    size_t n_shares;
    struct box_link links[BOX_LINKS_MAX];
    size_t n_links;
    const char *git_mask;   /* replaces the workspace's .git/config in mode cow; NULL: its own */
    const char *git_config; /* text behind the box's own in /etc/gitconfig; NULL: nothing */
    const char *env[BOX_ENV_MAX]; /* KEY=VALUE */
    size_t n_env;
};

/* The defaults of docs and --help. */
void box_options_default(struct box_options *o);

/* Gives them the size that an agent's work needs: a quarter of the machine's memory, and a store on
 * disk. */
void box_options_agent(struct box_options *o);

struct box;
struct snapshot;

int box_open(const struct box_options *o, struct box **ret, struct error *err);

/* Like box_open, but does not wait until the box is up: the first call that needs it does, and
 * fails if the box did not start. */
int box_begin(const struct box_options *o, struct box **ret, struct error *err);
struct box *box_close(struct box *b); /* ends everything in it; takes NULL; returns NULL */
static inline void box_closep(struct box **b)
{
    box_close(*b);
}
#define _cleanup_box_ _cleanup_(box_closep)

/* A fresh stream to the guest, on which `request` was sent (which is emptied; NULL: nothing); read
 * its answers and close it. Waits while a snapshot is being taken. */
int box_connect(struct box *b, struct buf *request, int *ret_fd, struct error *err);

/* Checks that the guest still answers, while a caller waits for the answer to a request. */
struct box_pulse {
    int fd;        /* a PING that is not answered yet, or -1 */
    int64_t since; /* when it was sent, or when the guest last answered; 0: not called yet */
};

#define BOX_PULSE_INIT ((struct box_pulse){.fd = -1})
#define BOX_PULSE_MS   1000 /* call box_pulse that often */

/* Never waits. 0, or -EPIPE when the guest has not answered for seconds, which ends the box. */
int box_pulse(struct box *b, struct box_pulse *p, struct error *err);
void box_pulse_end(struct box_pulse *p);

/* Receives output as it comes, in one stream. */
struct box_sink {
    void (*write)(void *data, const void *bytes, size_t n);
    void (*tick)(void *data); /* several times a second meanwhile; or NULL */
    void *data;
};

/* One command, run to its end. */
struct box_command {
    char *const *argv;  /* NULL-terminated; not used with: */
    const char *shell;  /* the session in whose shell `script` is run (docs/protocol.md); or NULL */
    const char *script; /* both output streams of a script are one, `out` */
    const void *input;  /* what a script reads, instead of `in`; NULL: nothing */
    size_t n_input;
    bool background;     /* a script only: the result comes at once, with a handle */
    const char *cwd;     /* NULL: /workspace, or the session's folder */
    char *const *env;    /* more KEY=VALUE beside the box's, NULL-terminated, or NULL */
    int64_t timeout_ns;  /* 0: the box's limit; -1: none */
    int64_t cpu_time_ns; /* likewise */
    bool tty;
    int in, out, err; /* the host's ends; -1: /dev/null, or capture for out and err */
    bool capture;     /* keep output within limits.output in the result instead of passing it on */
    const struct box_sink *sink; /* of a script only: gets the output instead of `out`; or NULL */
    bool last;  /* no call follows, not even for changes: the box may end with the command */
    int cancel; /* a descriptor that ends the command when it becomes readable; -1: none */
};

/* Kept output: the head and the tail of a stream; `total` counts all of it. */
struct box_capture {
    struct buf head;
    struct buf tail; /* in order; the gap lies between head and tail */
    uint64_t total;
};

void capture_init(struct box_capture *c, uint64_t limit);
void capture_init_tail(struct box_capture *c, uint64_t limit); /* only the tail is kept */
int capture_add(struct box_capture *c, const void *data, size_t n);
void capture_finish(struct box_capture *c); /* tail holds exactly the kept bytes afterwards */

/* A connection that the network's rules refused. */
struct box_refusal {
    char target[280]; /* HOST:PORT */
    bool is_private;  /* the host is allowed, but its address is a private one */
};
#define BOX_REFUSALS_MAX 8

struct box_result {
    char failure[160]; /* why the program could not be started (exit code 126 or 127), or empty */
    int exit_code;     /* 128+N: signal N ended it; 124: a time limit did; 126, 127: as a shell's */
    int signal;        /* 0 if it exited */
    enum wire_limit limit;
    int64_t duration_ns;
    int64_t cpu_ns;
    uint64_t max_rss;
    int out_error; /* why box_command.out could not be written, an errno; 0: all of it was */
    struct box_capture out, err;
    /* Of a script: */
    enum wire_state state; /* whether its session goes on with what it changed */
    char *cwd;             /* the session's folder now; as bytes of the box; NULL: not known */
    char *notes;           /* what else there is to know, a line each; NULL: nothing */
    uint64_t handle;       /* in the background */
    char *output_path;
    struct box_refusal *refused; /* meanwhile, each target once; NULL: none */
    size_t n_refused;
};

int box_exec(struct box *b, const struct box_command *c, struct box_result *ret, struct error *err);
void box_result_free(struct box_result *r);

/* Starts argv of a command (with its cwd, env and limits) on a terminal of its own, for a caller who
 * speaks the guest's protocol: sends STDIN, RESIZE and KILL, and reads OUTPUT until RESULT (wire.h).
 * Closing the stream ends the command. */
int box_terminal(struct box *b, const struct box_command *c, unsigned rows, unsigned cols,
                 int *ret_fd, struct error *err);

/*
 * Changes a running box: what `fields` names of `o`. A network of its own can change to another
 * policy at once; connections that are no longer allowed end. Limits hold for the whole box at once
 * where there is a control group, else for commands that start later. If setting a limit fails,
 * those before it stay set.
 */
enum box_field {
    BOX_SET_NET = 1 << 0,
    BOX_SET_NET_ADD = 1 << 1, /* the hosts of `o` are added to the present ones */
    BOX_SET_MEMORY = 1 << 2,
    BOX_SET_CPUS = 1 << 3,
    BOX_SET_PIDS = 1 << 4,
    BOX_SET_TIMEOUT = 1 << 5,
    BOX_SET_LIVE = BOX_SET_NET | BOX_SET_MEMORY | BOX_SET_CPUS | BOX_SET_PIDS | BOX_SET_TIMEOUT,
    /* Options of a new box only, see box_options_parse.h: */
    BOX_SET_DISK = 1 << 6,
    BOX_SET_FOLDER = 1 << 7,
    BOX_SET_OTHER = 1 << 8,
};
int box_adjust(struct box *b, const struct box_options *o, unsigned fields, struct error *err);

/* "timeout", "memory", … as in results; NULL for no limit. */
const char *box_limit_name(enum wire_limit limit);

/* Snapshots and forks: filesystem state (workspace, home, /tmp), never processes.
 * docs/snapshots.md */
int box_snapshot(struct box *b, struct snapshot **ret, struct error *err);
/* The same; fails with -ECANCELED once `cancel` is readable. */
int box_snapshot_until(struct box *b, int cancel, struct snapshot **ret, struct error *err);
struct snapshot *snapshot_ref(struct snapshot *s);
struct snapshot *snapshot_free(struct snapshot *s); /* drops one reference */
int box_fork(struct snapshot *s, struct box **ret, struct error *err);

/* Called for each applied path whose earlier state concerns a restored box. `why` is NULL if the
 * box shows that state, else why it could not be restored. */
struct restore_report {
    void (*say)(void *data, const char *path, const char *why);
    void *data;
};

/* Forks a snapshot of the box `current`, or of one that it was forked from, such that the fork
 * shows what that box showed when the snapshot was taken, even where `current` applied changes to
 * the folder since. It has the network and the limits that `current` has now. */
int box_fork_at(struct snapshot *s, struct box *current, const struct restore_report *report,
                struct box **ret, struct error *err);

/* The box's changes to its workspace (BOX_COW only). */
struct box_change {
    enum wire_change kind;
    mode_t mode;
    uint64_t size;
    char *path; /* relative to the workspace, bytes as they are */
};

struct box_changes {
    struct box_change *items;
    size_t count;
};

int box_changes(struct box *b, struct box_changes *ret, struct error *err);
void box_changes_free(struct box_changes *c);

/* Writes a git diff (or with stat, a summary) to a descriptor. */
int box_diff(struct box *b, bool stat, int out, struct error *err);

/* What box_apply or box_sync did with one path. */
enum apply_outcome { APPLY_DONE, APPLY_SAME, APPLY_MERGED, APPLY_CONFLICT, APPLY_REFUSED };

/* What to do with a conflict: report it, keep the folder's version, take the box's version, or
 * write a text file that holds both between conflict markers. */
enum apply_choice { APPLY_REPORT, APPLY_MINE, APPLY_THEIRS, APPLY_MARKERS };

struct apply_report {
    void (*say)(void *data, const char *path, enum apply_outcome outcome, const char *why);
    void *data;
};

struct apply_options {
    enum apply_choice on_conflict;
    const char *const *paths; /* only these and what is below them; NULL: all */
    size_t n_paths;
    bool allow_git_dirs; /* also files that make a folder a git directory */
    /* also if the folder was removed and created again since the box started */
    bool replaced_folder;
};

/* Writes the box's changes to the folder on the host; `o` may be NULL. Returns the number of
 * conflicts and refusals, or a negative errno. */
int box_apply(struct box *b, const struct apply_options *o, const struct apply_report *report,
              struct error *err);

/* Brings the folder's present state into the box. Returns the number of conflicts, or a negative
 * errno. */
int box_sync(struct box *b, const struct apply_options *o, const struct apply_report *report,
             struct error *err);

/* Records the folder's version of each file that the box touched since the last call, for box_apply
 * and box_sync to compare with. Call it after each request that may have changed files. Cheap if
 * nothing did. */
int box_note_seen(struct box *b, struct error *err);

/* What box_apply changed in the folder, for undo; NULL: nothing yet. */
struct applied_log;
const struct applied_log *box_applied(const struct box *b);

/* Watches the limits that the kernel does not enforce, and that the guest answers. Call it a few
 * times a second while no call runs. Fails once, when it ends the box, and says why. */
int box_tick(struct box *b, struct error *err);

/* Whether its process 1 is there and answers. -EPIPE if not, and *err says which limit ended it, if
 * one did; another error if it cannot be reached. */
int box_check(struct box *b, struct error *err);
pid_t box_pid(struct box *b); /* process 1, as the host numbers it */

/* A running box, for `hutch box ls` and its like. */
struct box_info {
    enum box_mode mode;
    char *workspace;          /* NULL: an empty one */
    char *net;                /* as --net writes it */
    struct box_limits limits; /* memory, pids, cpus and timeout_ns */
    /* Of a box that a keeper holds: */
    pid_t keeper;
    int64_t age_ns;
    int64_t left_ns;    /* until its time to live ends; -1: it stays */
    uint64_t commands;  /* running now */
    uint64_t snapshots; /* kept */
};
int box_info(struct box *b, struct box_info *ret, struct error *err);
void box_info_free(struct box_info *i);
#define _cleanup_box_info_ _cleanup_(box_info_free)

/* The name of a box that a keeper holds; NULL: the box belongs to this process. */
const char *box_id(const struct box *b);

/*
 * One line for the user who is about to start boxes in this folder, if its files belong to a
 * group that a box cannot have; false if there is nothing to say.
 */
bool box_group_warning(const char *folder, char *text, size_t size);

/*
 * A few boxes made in advance, for callers that need many one after another.
 *
 * One box is opened as a template and never used; all others are forks of it, which a thread in the
 * background makes and closes. A box is used once: one that is given back is closed.
 */
struct pool;

/* Keeps `size` boxes ready, of these options or of this snapshot, which must outlive the pool. */
int pool_open(const struct box_options *o, size_t size, struct pool **ret, struct error *err);
int pool_open_snapshot(struct snapshot *s, size_t size, struct pool **ret, struct error *err);

/* A fresh box, ready or made now. The caller gives it back or closes it. */
int pool_take(struct pool *p, struct box **ret, struct error *err);

/* Ends a box in the background. */
void pool_give(struct pool *p, struct box *b);

/* Ends everything; takes NULL, returns NULL. */
struct pool *pool_close(struct pool *p);
