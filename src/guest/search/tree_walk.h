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
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "wire.h"

/*
 * A list of ignore rules, as in one .gitignore file.
 *
 * Syntax and meaning are those of gitignore(5): blank lines and comments; `!` re-includes; a slash
 * at the end is for folders; a slash elsewhere ties the pattern to the folder of the file; the last
 * rule that matches counts. Paths are relative to that folder. The walk does not enter an ignored
 * folder, so nothing beneath one can be re-included.
 */
struct rules;

enum rules_verdict { RULES_NOTHING, RULES_IGNORE, RULES_KEEP };

#define RULES_FILE_MAX (1u << 20) /* bytes of one file; the rest is not read */

/* From the text of a file. -ENOMEM. */
int rules_parse(const char *text, size_t n, struct rules **ret);

/* Adds one pattern, as a line of a file. -ENOMEM. */
int rules_add(struct rules *r, const char *line, size_t n);

struct rules *rules_new(void);
struct rules *rules_free(struct rules *r);

/* `path` of n bytes ends in the entry's own name, of n_name bytes. */
enum rules_verdict rules_match(const struct rules *r, const char *path, size_t n, size_t n_name,
                               bool is_folder);

/*
 * The ignore files that hold for a folder: its own and those of the folders above it.
 *
 * .gitignore counts wherever it lies, whether or not there is a repository; a folder with a .git
 * begins anew, as a repository of its own, and has its .git/info/exclude besides. .ignore files,
 * which rg and fd know too, are asked first. Chains are shared by all folders beneath, and live as
 * long as the request.
 */
struct ignore {
    const struct ignore *up;
    size_t base; /* bytes of a path, with its last slash, up to this folder */
    struct rules *dot, *git, *exclude;
    bool repository;
};

/* Which ignore files a folder has. */
enum { IGNORE_HAS_DOT = 1, IGNORE_HAS_GITIGNORE = 2, IGNORE_HAS_GIT = 4 };

#define IGNORE_MEMORY_MAX (64u << 20) /* of all rules of one request */

/* The chain for a folder that has these files: `up` itself if there is nothing to add. Its path has
 * `base` bytes with its slash. -E2BIG if there are too many rules, -ENOMEM. */
int ignore_extend(const struct ignore *up, int folder, unsigned has, size_t base,
                  atomic_size_t *memory, const struct ignore **ret);

/* One of the bits above, or 0. */
unsigned ignore_file_bit(const char *name, size_t n);

/* Is the entry at this path ignored? */
bool ignore_has(const struct ignore *chain, const char *path, size_t n, size_t n_name,
                bool is_folder);

/*
 * The globs of a request: rules as in a .gitignore, with braces, and with the opposite meaning: a
 * glob wants what it matches, one with `!` leaves it out, the last that matches counts. If there is
 * a glob without `!`, a file that none matches is not wanted. A glob with a slash is tied to the
 * folder of the request or to the root: either will do.
 */
enum filter_verdict {
    FILTER_WANTS,
    FILTER_LACKS,  /* no glob matches; what is beneath a folder may still be wanted */
    FILTER_REFUSES /* with all that is beneath it */
};

#define FILTER_GLOBS_MAX 64

struct filter {
    struct rules *rules; /* NULL: everything is wanted */
};

/* From the GLOB fields of a request. */
int filter_read(const struct wire_frame *f, struct filter *ret, struct error *err);

/* Adds one glob. */
int filter_add(struct filter *f, const char *glob, size_t n, struct error *err);
void filter_free(struct filter *f);

/* `path` is relative to the root; its first `skip` bytes are the folder of the request, with its
 * slash. */
enum filter_verdict filter_match(const struct filter *f, const char *path, size_t n, size_t skip,
                                 size_t n_name, bool is_folder);

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

struct file_call;
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

/* The path of an entry, composed again and again in the same memory: first the folder's, which can
 * fail with -ENOMEM, then each name; returns its length. */
struct entry_path {
    char *text;
    size_t room;
};
int entry_path_set_folder(struct entry_path *p, const struct folder *f);
size_t entry_path_set_name(struct entry_path *p, const struct folder *f, const char *name,
                           size_t n);

/* Removes `.`, empty components and `..` from a path, in place; a `..` that would lead above the
 * root stays. */
void tree_walk_clean_path(char *path);
