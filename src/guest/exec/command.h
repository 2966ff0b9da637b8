/*
 * One command, from its start to its result.
 *
 * A command ends when its process ends, not when its pipes close. Then the guest kills what is left
 * of its tree, relays what is already in its pipes, and sends the result:
 *
 *     runs ── process ends ──▶ tree is killed, pass by pass ──▶ pipes are drained ──▶ result, freed
 *
 * None of these steps blocks: a timer repeats the passes, and pipes are drained as the connection
 * takes it. A background command answers at once with a handle, its output goes to a file of the
 * box (output_log.h), and its tree outlives its process. The guest remembers the last ones that
 * ended; one that it forgets loses what is left of its tree.
 *
 * The processes of a command carry its tag: the hard limit RLIMIT_RTTIME, set before the program is
 * executed. It passes through fork, exec, setsid and the loss of all parents, and it means nothing
 * to processes without real-time scheduling, which is all of them. A process can only lower it, and
 * tags grow, so a process can only join the tree of an older command, with which it then ends. The
 * guest kills a process whose tag belongs to no command.
 */
#pragma once

#include "guest.h"
#include "output_log.h"
#include "relay.h"
#include "spawn.h"

struct error;
struct session;

struct command_limits {
    uint64_t timeout_ms; /* each 0: none */
    uint64_t cpu_us;
    uint64_t memory;
    uint64_t pids;
    uint64_t files;
    uint64_t log;          /* bytes of a background command's output that are kept */
    uint64_t output_total; /* bytes of it after which the command is ended */
    uint64_t sockets;      /* bytes that the sockets of the whole box may hold */
};

/* What a shell of a session does beside what every command does. */
struct command_hooks {
    void (*exited)(struct command *c); /* its process ended */
    /* its tree is gone: true if another command took over the call, and c is freed */
    bool (*again)(struct command *c);
    void (*over)(struct command *c); /* all output is relayed: answers and frees it */
    void (*put_result)(struct command *c, struct buf *b);
    void (*free)(struct command *c);
};

struct command {
    LIST_ENTRY(command) link;
    struct guest *guest;
    struct conn *conn; /* waits for the result; NULL in the background and after a cancel */
    struct relay relay;
    struct spawn_report *report;
    struct loop_source arrival; /* of a process that enters from outside (ADOPT); fd -1: none */
    rlim_t tag;
    pid_t pid; /* 0 once it was reaped */
    bool draining;
    bool background;
    bool signalled; /* by the host */
    bool last;      /* the guest ends with it, and the box with the guest */
    bool idle;      /* a shell that waits for a call: no other process may carry its tag */
    uint64_t handle;
    char *output_path;
    struct output_log log;             /* of a background command, at that path */
    uint64_t mark;                     /* how far it was read */
    struct shell *shell;               /* of a session; NULL: any other program */
    const struct command_hooks *hooks; /* of a shell; NULL: none */
    char *name;                        /* argv[0], for messages; as is cwd */
    char *cwd;
    struct command_limits limits;
    struct loop_timer deadline;
    struct loop_timer sweep;
    struct loop_timer sample;
    unsigned samples_at_pids;
    int64_t started;
    int64_t ended;
    int64_t give_up; /* when to stop waiting for a tree that will not die */
    int status;
    int error; /* errno why the program was never executed, with the step */
    enum spawn_step error_step;
    const char *error_call;
    uint64_t cpu_us; /* of what was reaped so far */
    uint64_t max_rss;
    enum wire_limit limit;
};

/* A new command in the guest's list, nothing started; or NULL. The caller frees it until it has a
 * process; from then on it frees itself. */
struct command *command_new(struct guest *g);
struct command *command_free(struct command *c);
int command_spawn(struct command *c, struct spawn *s);

/* From now on its time runs and its limits hold. */
void command_arm(struct command *c);

/* Gives the connection to the command, which gets its frames and sends output and the result. */
void command_serve(struct command *c, struct conn *conn);

/* Its process was reaped; one of its orphans was. */
void command_exited(struct command *c, int status, const struct rusage *ru);
void command_account(struct command *c, const struct rusage *ru);

/* Kills the whole tree; the first limit given is the one that the result names. */
void command_kill(struct command *c, enum wire_limit limit);

/* The guest has no child left: trees that are being killed need no other look. */
void command_none_left(struct guest *g);

/* Sends the result, or why the program was never executed. Takes c->conn. */
void command_answer(struct command *c);

/* The fields of a result: how the command ended, or its use of resources so far. */
void command_put_result(struct command *c, struct buf *b);

/* ptree.c: the tag of a process (0: it is gone), and the command of a tag, or NULL. */
void ptree_init(struct guest *g);
rlim_t ptree_tag_of(pid_t pid);
struct command *ptree_command(struct guest *g, rlim_t tag);

/* Sends a signal to every process of the tree; returns how many living ones got it. */
unsigned ptree_signal(struct guest *g, rlim_t tag, int sig);

/* One pass of SIGKILL over the tree; returns how many processes were still there, 0: it is gone. A
 * process with a pending SIGKILL does not fork, so passes converge. */
unsigned ptree_kill(struct guest *g, const struct command *c);

/* The limit that the tree exceeds, of those that no cgroup enforces. */
enum wire_limit ptree_exceeds(struct guest *g, struct command *c);

/* background.c: makes the file of the output, and the command's two ends of the pipe to it. */
int background_open_output(struct command *c, int *ret_out, int *ret_err, struct error *err);

/* Sends the handle of a command just started. */
void background_answer(struct command *c, struct conn *conn);

/* Its process has ended: remembers it, and forgets the oldest if there are too many. */
void background_ended(struct command *c);

/* The box is no longer frozen: logs are written again. */
void background_thaw(struct guest *g);

/* The background command that a request names, or NULL after an ERROR was sent. */
struct command *background_find(struct conn *conn, const struct wire_frame *f);

int background_status_request(struct conn *conn, const struct wire_frame *f);
int background_signal_request(struct conn *conn, const struct wire_frame *f);

/* exec.c: the repeated string fields of a request as a NULL-terminated list, for execve. */
struct words {
    char **list; /* list[-1] is a free slot */
    size_t count;
};

void words_free(struct words *s);
#define _cleanup_words_ _cleanup_(words_free)

/* All fields with that key, in order. -EINVAL if one holds a NUL, -ENOMEM. */
int words_collect(const struct wire_frame *f, uint16_t key, struct words *ret);

void exec_parse_limits(struct command_limits *l, const struct wire_frame *f);
int exec_request(struct conn *conn, const struct wire_frame *f);
int adopt_request(struct conn *conn, const struct wire_frame *f);
