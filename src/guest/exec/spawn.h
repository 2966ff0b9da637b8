/*
 * Starting a process.
 *
 * vfork is fast: the child borrows our memory until it executes its program, so nothing is copied.
 * But it suspends us, and hostile code in the box could stop the child and with it us. So the guest
 * uses vfork only while no other process exists, and fork otherwise. Either way the child reports
 * what failed in memory that both share; the guest reads it when the child has ended.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Finds a program as execvp does: a name with a slash is a path; any other is tried in each folder
 * of PATH. In memory of the caller, since nothing may be allocated between vfork and exec. */
#define SEARCH_PATH_DEFAULT "/bin:/usr/bin"

struct search_path {
    const char *name;
    const char *rest; /* folders not tried yet; NULL at the end */
    char candidate[PATH_MAX];
};

/* envp is searched for PATH. Both must outlive the search. */
void search_path_begin(struct search_path *s, const char *name, char *const *envp);

/* The next path to try, or NULL. Folders that make it too long are passed over. */
const char *search_path_next(struct search_path *s);

/* Whether a failure to execute a candidate means that the next one is tried. */
bool search_path_goes_on(int code);

enum spawn_step { SPAWN_SETUP, SPAWN_CWD, SPAWN_EXEC };

struct spawn_report {
    bool taken;
    enum spawn_step step; /* the one that failed */
    const char *call;     /* of SPAWN_SETUP: which system call */
    int error;            /* errno; 0: the program was executed */
};

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
    rlim_t files; /* the soft limit; 0: as many as the guest itself may have */
    struct spawn_report *report;
    struct search_path search;
};

#define SPAWN_MORE_MAX 4

/* The new process's id, or a negative errno. */
pid_t spawn_start(struct spawn *s);
void spawn_close(struct spawn *s);

/* Memory for n reports, shared with children; or NULL. */
struct spawn_report *spawn_reports_map(size_t n);

/* Takes a free report among n, or NULL. Clear `taken` to return it. */
struct spawn_report *spawn_report_take(struct spawn_report *reports, size_t n);
