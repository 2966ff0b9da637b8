/*
 * SEARCH and TREE: what is in the files beneath a folder, and what their names are.
 * docs/protocol.md has the fields.
 *
 * tree_walk.h walks the folders with several threads. For SEARCH, each thread scans files for the
 * pattern; the hits of all threads are collected in the order of their paths.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
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
