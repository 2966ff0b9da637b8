/*
 * SEARCH and TREE: what is in the files beneath a folder, and what their names are.
 * docs/protocol.md has the fields.
 *
 * tree_walk.c walks the folders with several threads. For SEARCH, each thread scans files for the
 * pattern; the hits of all threads are collected in the order of their paths.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "glob.h"
#include "relpath.h"
#include "text.h"

struct file_call;

int search_files(struct file_call *c, struct error *err);
int search_tree(struct file_call *c, struct error *err);

/*
 * The pattern of a search: compiled once, matched by several threads.
 *
 * A pattern matches lines: each line by itself, without its line end (nor a carriage return before
 * it, unless the pattern names one). pattern.c chooses how to find matching lines; the result does
 * not depend on that choice. Patterns are untrusted: length, match steps, depth and memory are
 * limited.
 */
#define PATTERN_MAX 8192 /* bytes */

struct pattern;
struct matcher;

struct pattern_options {
    bool literal; /* no character has a special meaning */
    bool ignore_case;
};

int pattern_compile(const char *text, size_t n, const struct pattern_options *o,
                    struct pattern **ret, struct error *err);
struct pattern *pattern_free(struct pattern *p);

/* Per-thread state of matching. */
int matcher_new(const struct pattern *p, struct matcher **ret);
struct matcher *matcher_free(struct matcher *m);

/* Which kinds of bytes occur in a text. */
enum { TEXT_NUL = 1, TEXT_NON_ASCII = 2, TEXT_CR = 4 };
unsigned text_kinds(const uint8_t *s, size_t n);

struct hit {
    size_t line, line_end; /* the line, without its end */
    size_t next;           /* where the next line begins */
    size_t match, match_end;
};

/* Finds the first matching line that begins at `at` or later. `text` begins with a line; `kinds` is
 * text_kinds of it. 1, 0, or -E2BIG: the pattern exceeds a limit in the line that *ret names. */
int matcher_next(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                 struct hit *ret);

/* The reason of the last -E2BIG, for a message. */
const char *matcher_error(const struct matcher *m);

/* Searching one file, see scan.c. */
#define SCAN_CONTEXT_MAX 20u
#define SCAN_FILE_MAX    (1ull << 30) /* bytes of one file that are searched */
#define SCAN_WINDOW_MAX  (8u << 20)   /* a longer line is searched in pieces */
#define SCAN_LINE_SHOWN  400u         /* bytes of a line that are shown */

struct scan {
    struct matcher *matcher;
    unsigned context;
    uint64_t file_max;
    uint8_t *text; /* the window */
    size_t room;
};

struct scan_result {
    uint64_t count;    /* lines that match */
    unsigned keep_max; /* in: how many to describe, */
    size_t bytes_max;  /* and until how many bytes of frames there are */
    unsigned kept;     /* out: how many were */
    struct buf frames; /* an ENTRY for each, see docs/protocol.md */
    bool binary;       /* the scan ended at a NUL byte */
    bool partly; /* it is larger than what is searched, or has a line that was searched in pieces */
    uint64_t failed_line; /* if -E2BIG: the line for which the pattern needs too much */
};

/* Takes the matcher. */
int scan_init(struct scan *s, struct matcher *matcher, unsigned context, uint64_t file_max);
void scan_free(struct scan *s);

/* Searches what can be read from fd. -E2BIG: the pattern needs too much; other errors are of
 * reading. */
int scan_file(struct scan *s, int fd, struct scan_result *r);

/*
 * The collection of what all threads of a search found: the first files in the order of their
 * paths, with as many matches as the answer may have, and exact counts of everything.
 *
 * It holds at most about twice what the answer may have: then the files are sorted, the excess is
 * dropped, and files behind the last one kept are only counted from then on. Results are cut at a
 * path, not at a count, so that parallel scans give the same answer in every run.
 */
struct hits_limits {
    uint64_t matches, files, bytes;
};

struct hits {
    struct hits_limits limits;
    pthread_mutex_t lock; /* of all that follows */
    struct hits_file *list;
    size_t count, room;
    uint64_t kept, bytes;
    uint64_t matches, files;      /* all there were */
    char *last_path_with_matches; /* later files: counts only */
    char *last_path_counted;      /* later files: only the totals */
};

void hits_init(struct hits *h, const struct hits_limits *limits);
void hits_free(struct hits *h);

/* How many matches of the file at this path the answer may have. */
unsigned hits_room(struct hits *h, const char *path);

/* Adds a file with matches; takes its frames. -ENOMEM. */
int hits_add(struct hits *h, const char *path, struct scan_result *r);

/* Sends the answer in order: an ENTRY with PATH and COUNT for each file, then those of its matches.
 * False in *ret_all if something was left out. */
int hits_send(struct hits *h, int (*send)(void *data, const uint8_t *frame, size_t n), void *data,
              bool *ret_all);

/* The order of a walk: by components, a folder before what is in it. */
int hits_compare_paths(const char *a, const char *b);

/*
 * A walk through all folders beneath one, by several threads, for SEARCH and TREE.
 *
 * No link is followed: each folder is opened by its path from where the walk began, resolved by the
 * kernel beneath there and through no link, so that a folder which is swapped for a link meanwhile
 * leads nowhere. No descriptor is held for a folder that waits. What cannot be opened or read is
 * counted, and what vanishes meanwhile is left out.
 *
 * A walk serves one request in a worker process: what it allocates lives as long as the process.
 *
 * Left out are `.git`, what ignore files name (unless `ignored`), what the filter refuses, and with
 * `hidden` off every name that begins with a dot.
 */
#define TREE_WALK_THREADS_MAX 16

enum entry_type { ENTRY_FILE = 'f', ENTRY_FOLDER = 'd', ENTRY_LINK = 'l', ENTRY_OTHER = 'o' };

struct entry {
    uint32_t name; /* offset; the name ends in a NUL */
    uint16_t n;
    uint8_t type;
    bool unlisted; /* a folder that is only walked through */
};

/* One folder: its path and what was found in it. Names are bytes in one block that entries point
 * into. */
struct folder {
    atomic_uint uses; /* by jobs, and by a folder that keeps it as a child */
    unsigned depth;   /* 0: where the walk starts */
    char *path;       /* relative to the root, "" for the root itself; NUL-terminated */
    size_t n_path;
    const struct ignore *ignore; /* for what is in it, once it was read */
    char *names;
    size_t n_names;
    struct entry *entries;
    size_t count;
    struct folder **children; /* if kept: one for each entry that is a folder, in order */
    size_t n_children;
};

static inline const char *folder_name(const struct folder *f, const struct entry *e)
{
    return f->names + e->name;
}

/* The length of the folder's path with its slash. */
static inline size_t folder_base(const struct folder *f)
{
    return f->n_path ? f->n_path + 1 : 0;
}

struct tree_walk;

/* What the walk is for. Called by several threads at once, with the walk's data and with the state
 * that `thread_begin` made for the thread. A negative errno ends the walk. */
struct tree_walk_ops {
    bool keeps;      /* folders are kept, sorted and linked to their children, for after the walk */
    bool everything; /* links and special files are wanted too */
    int (*thread_begin)(void *data, void **ret_state);
    void (*thread_end)(void *data, void *state);
    /* Regular files of a folder, entries [first, first + count); NULL: not called. */
    int (*files)(struct tree_walk *w, void *state, const struct folder *f, int fd, size_t first,
                 size_t count);
};

/* A folder to read, or some of its files to pass to `files`. */
struct tree_job {
    struct folder *folder;
    uint32_t first, count; /* of its files; no count: the folder itself */
};

struct tree_walk {
    /* set by the caller */
    const struct tree_walk_ops *ops;
    void *data;
    uint64_t keep_max; /* entries that are kept; those beyond are counted only */

    /* of the request */
    struct filter filter;
    bool hidden, ignored;
    unsigned depth_max; /* 0: none; 1: what is in the first folder alone */

    int start;                       /* the first folder */
    struct folder *top;              /* it again, with its path */
    size_t skip;                     /* bytes of a path, with a slash, that lead there */
    atomic_uint_fast64_t unreadable; /* folders and files */
    atomic_uint_fast64_t unkept;     /* entries beyond keep_max */
    atomic_uint_fast64_t kept;
    atomic_size_t memory; /* of ignore rules */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t more;
    struct tree_job *jobs; /* a stack, so that the tree is walked depth first and few jobs wait */
    size_t n_jobs, room;
    unsigned busy; /* threads that do a job, and may push others */
    bool ended;
    int failed;
    struct error error; /* with the message of `failed`, if there is one */
};

/* Reads HIDDEN, IGNORED, GLOB and DEPTH of a request, and opens the folder that its path names. The
 * path becomes clean. -ENOTDIR if it is no folder. */
int tree_walk_open(struct tree_walk *w, struct file_call *c, struct error *err);

/* Walks to the end. If the connection closes meanwhile, the process ends. */
int tree_walk_run(struct tree_walk *w, struct file_call *c, struct error *err);

/* Remembers the first failure, with its message if err is given, and ends the walk. */
int tree_walk_fail(struct tree_walk *w, int code, const struct error *err);

/* Opens a folder of the walk for reading. */
int tree_walk_open_folder(const struct tree_walk *w, const struct folder *f, int *ret_fd);

/* The path of an entry with its NUL, in a buffer that is used again and again. -ENOMEM, or -ENOBUFS
 * if it is too long for any use. */
#define ENTRY_PATH_INIT BUF_INIT(2 * RELPATH_MAX)
int entry_path_set(struct buf *path, const struct folder *f, const struct entry *e);

/* Removes `.`, empty components and `..` from a path, in place; a `..` that would lead above the
 * root stays. */
void tree_walk_clean_path(char *path);
