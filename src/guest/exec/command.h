/* Commands of a box (command.c), their input and output (stdio.c), and processes (process.c). */
#pragma once

#include <limits.h>

#include "guest.h"

struct error;

/*
 * stdio.c: the output of a background command on its way to a file of the box. The file is bounded:
 * it holds the head and the tail of the output, and between them a line with the number of bytes
 * left out.
 */
#define OUTPUT_LOG_MIN     (64u << 10) /* smaller and larger limits are */
#define OUTPUT_LOG_MAX     (64u << 20) /* raised and lowered to these */
#define OUTPUT_LOG_DEFAULT (1u << 20)

struct output_log {
    struct loop_source pipe; /* our end; fd -1 once all writers are gone */
    int file;                /* -1: there is no log */
    char *path;
    uint64_t keep;  /* bytes of output that the file may hold */
    uint64_t total; /* bytes received: head + dropped + tail */
    uint64_t head, dropped, tail;
    bool head_ended; /* all further output belongs to the tail */
};

#define OUTPUT_LOG_INIT ((struct output_log){.pipe = {.fd = -1}, .file = -1})

/* Makes the file, whose name is *number or a later one that is free. */
int output_log_create(struct output_log *l, uint64_t *number);
void output_log_free(struct output_log *l, struct loop *loop);

/* Moves one piece from the pipe to the file. False if there is nothing to read now. */
bool output_log_step(struct output_log *l, struct loop *loop, void *scratch, size_t size);

/* What was added since byte `from`: its first bytes, and its last ones if that is not all of it.
 * Each of the two buffers has room for `room` bytes. */
struct output_log_news {
    size_t first, last;
    uint64_t dropped; /* bytes of it that the file does not have any more */
};
void output_log_read(const struct output_log *l, uint64_t from, void *first, void *last,
                     size_t room, struct output_log_news *ret);

/* stdio.c: relays bytes between a command's pipes or terminal and the host's connection, in frames;
 * nothing if none were opened. They are made with the command's ends, which the caller closes. */
struct command;
void relay_init(struct command *c);
void relay_close(struct command *c);

#define RELAY_STDIN  1u
#define RELAY_STDOUT 2u
#define RELAY_STDERR 4u
int relay_open_pipes(struct command *c, unsigned which, int ret_fds[3]);
int relay_open_pty(struct command *c, const struct wire_frame *f, int ret_fds[3]);
int relay_resize(struct command *c, const struct wire_frame *f);

/* Input for the command. -EPIPE if its input is closed; -ENOBUFS if too much would wait for it,
 * which without a connection is RELAY_INPUT_MAX. */
#define RELAY_INPUT_MAX (1u << 20)
int relay_feed(struct command *c, const void *data, size_t n, bool end);

/* Reads output, or leaves it in the pipes until the connection has room again. */
void relay_watch_output(struct command *c, bool on);

/* After the command's end: relays what is already there. False: call it again when the connection
 * has room. */
bool relay_drain(struct command *c);

/* process.c: starting a process. */
#define SEARCH_PATH_DEFAULT "/bin:/usr/bin"

enum spawn_step { SPAWN_SETUP, SPAWN_CWD, SPAWN_EXEC };

struct spawn_report {
    enum spawn_step step; /* the one that failed */
    const char *call;     /* of SPAWN_SETUP: which system call */
    int error;            /* errno; 0: the program was executed */
};

#define SPAWN_MORE_MAX 4

struct spawn {
    char **argv; /* argv[-1] is a free slot */
    char **envp;
    const char *cwd;
    int fds[3];      /* each above 2, or -1 to leave the guest's own, which is /dev/null; owned */
    const int *more; /* further descriptors, which become 3, 4, … */
    size_t n_more;
    int anchor;         /* one more, which is a copy of 0; 0: none */
    const char *or_cwd; /* where to go if cwd cannot be entered; NULL: that is a failure */
    bool tty;           /* fds[0] becomes the controlling terminal */
    bool apart;         /* do not wait until it is executed: no vfork */
    bool alone;         /* no other process exists */
    rlim_t tag;
    rlim_t files;                /* the soft limit; 0: as many as the guest itself may have */
    struct spawn_report *report; /* in memory that the child shares */
    char candidate[PATH_MAX];    /* here, since nothing may be allocated between vfork and exec */
};

/* The new process's id, or a negative errno. */
pid_t spawn_start(struct spawn *s);
void spawn_close(struct spawn *s);

/* process.c: processes as /proc shows them. */
struct proc_stat {
    char state; /* R S D T t Z X … */
    pid_t parent;
    uint64_t cpu_us; /* its own and that of the children it waited for */
    uint64_t threads;
};

/* The text of a stat file; -EINVAL if it has another form. */
int proc_parse_stat(const char *text, size_t n, uint64_t ticks_per_second, struct proc_stat *ret);

/* No thread of it will run again. A dead leader may leave living threads behind. */
bool proc_stat_is_dead(const struct proc_stat *s);

/* process.c: the tag of a process (0: it is gone), and the command of a tag, or NULL. */
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

void freeze_request(struct conn *conn, const struct wire_frame *f);

/* command.c */
#define GUEST_COMMANDS_MAX 1024

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
    struct conn *conn;         /* waits for the result; NULL in the background and after a cancel */
    struct loop_source out[2]; /* relayed: stdout and stderr; a terminal has only the first */
    struct loop_source in;
    struct buf backlog; /* input that the command has not taken yet */
    bool in_ends;       /* once the backlog is written */
    bool pty;
    size_t drained;              /* bytes relayed since the command's end */
    struct spawn_report *report; /* why the program was never executed, if so */
    struct loop_source arrival;  /* of a process that enters from outside (ADOPT); fd -1: none */
    rlim_t tag;
    pid_t pid; /* 0 once it was reaped */
    bool draining;
    bool background;
    bool signalled; /* by the host */
    bool last;      /* the guest ends with it, and the box with the guest */
    bool idle;      /* a shell that waits for a call: no other process may carry its tag */
    uint64_t handle;
    struct output_log log;             /* of a background command */
    uint64_t mark;                     /* how far the log was read */
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
    uint64_t cpu_us; /* of what was reaped so far */
    uint64_t max_rss;
    enum wire_limit limit;
};

/* A new command in the guest's list, nothing started; or NULL. The caller frees it until it has a
 * process; from then on it frees itself. */
struct command *command_new(struct guest *g);
struct command *command_free(struct command *c);
int command_spawn(struct command *c, struct spawn *s);

void command_parse_limits(struct command_limits *l, const struct wire_frame *f);

/* Its limits hold from now on. Gives the connection to the command, which gets its frames and sends
 * output and the result; a command in the background answers at once with its handle. */
void command_serve(struct command *c, struct conn *conn);

/* Its process was reaped; one of its orphans was. */
void command_exited(struct command *c, int status, const struct rusage *ru);
void command_account(struct command *c, const struct rusage *ru);

/* Kills the whole tree; the first limit given is the one that the result names. */
void command_kill(struct command *c, enum wire_limit limit);

/* The guest has no child left: trees that are being killed are gone. */
void command_none_left(struct guest *g);

/* Sends the result, or why the program was never executed. Takes c->conn. */
void command_answer(struct command *c);

/* Makes the log of a background command, and its two ends of the pipe to it: fds[1], fds[2]. */
int background_open_log(struct command *c, int fds[3], struct error *err);

/* The repeated string fields of a request as a NULL-terminated list, for execve. */
struct words {
    char **list; /* list[-1] is a free slot */
    size_t count;
};

void words_free(struct words *s);
#define _cleanup_words_ _cleanup_(words_free)

/* All fields with that key, in order. -EINVAL if one holds a NUL, -ENOMEM. */
int words_collect(const struct wire_frame *f, uint16_t key, struct words *ret);

void exec_request(struct conn *conn, const struct wire_frame *f);
void adopt_request(struct conn *conn, const struct wire_frame *f);
void background_status_request(struct conn *conn, const struct wire_frame *f);
void background_signal_request(struct conn *conn, const struct wire_frame *f);
void background_input_request(struct conn *conn, const struct wire_frame *f);
