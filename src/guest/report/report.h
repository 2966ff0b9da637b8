/*
 * What a test runner reported, as a list of tests.
 *
 * The agent can write the files of a report, so they are parsed here, in the box, and not on the
 * host. Every format has one parser, which reads a source to its end and adds the tests it finds to
 * a struct report; that cleans them (valid UTF-8, limits) and passes them on. Totals that a report
 * claims are not used: tests are counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "file.h"
#include "buf.h"

#define REPORT_SIZE_MAX  (64u << 20) /* bytes of one report */
#define REPORT_TESTS_MAX 100000u     /* tests that are passed on; the rest is only counted */
#define REPORT_NAME_MAX  1000u       /* bytes of a name */
#define REPORT_TEXT_MAX  8192u       /* bytes of a message: its beginning and its end */
#define REPORT_PATH_MAX  1000u       /* bytes of a file's name */
#define REPORT_NEST_MAX  32u         /* suites in suites, subtests in subtests */

/* Text that is collected in pieces of which only the beginning and the end are kept. */
struct clip {
    struct buf head, tail;
    struct buf whole; /* what clip_text made of them */
    size_t total;
};

#define CLIP_HEAD (REPORT_TEXT_MAX / 3)
#define CLIP_TAIL (REPORT_TEXT_MAX - CLIP_HEAD - 64)
#define CLIP_INIT                                                                                  \
    ((struct clip){.head = BUF_INIT(CLIP_HEAD),                                                    \
                   .tail = BUF_INIT(CLIP_TAIL * 2),                                                \
                   .whole = BUF_INIT(REPORT_TEXT_MAX + 1)})

void clip_add(struct clip *c, const void *data, size_t n);
void clip_add_str(struct clip *c, const char *s);
void clip_reset(struct clip *c);
void clip_free(struct clip *c);

/* All of it if it fits, else both ends with a mark between; valid until the clip is touched. */
const char *clip_text(struct clip *c);

struct report_test {
    const char *name; /* any bytes but NUL, like all texts here; NULL is as good as empty */
    enum wire_outcome outcome;
    const char *message;
    const char *file;
    uint64_t line; /* 0: not known */
    int64_t duration_ns;
};

struct report {
    int (*emit)(void *data, const struct report_test *t);
    void *data;
    const char *label;    /* put before each name: the file, if names are only unique in one */
    const char *fallback; /* the message of a failure that has none, or NULL */
    uint64_t counts[WIRE_OUTCOME_SKIPPED + 1];
    uint64_t left_out; /* tests over the limit */
    int64_t duration_ns;
};

/* Cleans and counts one test, and passes it on unless there were too many already. */
int report_add(struct report *r, const struct report_test *t);

uint64_t report_total(const struct report *r);

/* A descriptor with a report's size as its limit: -EFBIG beyond it. */
struct report_source {
    int fd;
    size_t total;
};

ssize_t report_read(struct report_source *s, void *data, size_t n);

/* Calls `take` for each line without its end, NUL-terminated (a NUL inside becomes a space). Of a
 * line longer than `max` bytes the rest is dropped and `cut` set. Ends early if `take` returns
 * something else than 0, and returns that; or a negative errno. */
int report_each_line(struct report_source *s, size_t max,
                     int (*take)(void *data, char *line, size_t n, bool cut), void *data);

/* The first place in a source file that a failure's text names: "src/a.py:12", "(/x/a.js:3:7)",
 * "File "a.py", line 3", "at t/a.t line 5". With `like`, only one of that file. The path goes to
 * `path`. */
bool report_locate(const char *text, const char *like, char path[REPORT_PATH_MAX + 1],
                   uint64_t *ret_line);

/* "1.25" seconds, or the like, as nanoseconds; 0 for anything else. */
int64_t report_seconds(const char *s);
int64_t report_duration(double seconds);

/* A format: one row in the table of report.c, with its functions in one file. */
struct report_format {
    const char *name;
    bool (*is_document)(const char *head); /* by its first bytes; or NULL */
    bool (*is_line)(const char *line);     /* a line that only this format has; or NULL */
    /* 0, or a negative errno with an error. */
    int (*parse)(struct report *r, struct report_source *s, struct error *err);
};

extern const struct report_format REPORT_JUNIT, REPORT_JSON, REPORT_GO, REPORT_MESON, REPORT_TAP,
    REPORT_LIBTEST, REPORT_AUTOMAKE;

/* NULL for a number that is none. */
const struct report_format *report_format_of(enum wire_report_format format);

/* Which format these bytes have; rewinds the source. 0 (auto) if none is recognised. */
enum wire_report_format report_sniff(struct report_source *s);

/* TAP inside another report, the output of one test program. Has it a plan or a version, and
 * tests? */
bool tap_looks_like(const char *text);
int tap_parse_text(struct report *r, const char *text);

/*
 * Which files a REPORT is about: one file, all of a folder, or those that match a pattern (* ? [ ]
 * within a part of the path, ** for any number of parts). Links are not followed on the way, and
 * neither .git nor node_modules is entered.
 */
#define REPORT_FILES_MAX 10000u

struct report_files {
    char **paths; /* sorted */
    size_t count;
    bool single; /* the path itself was the file */
    size_t base; /* how many bytes of each path are the folder that was asked about */
};

int report_files_find(struct file_call *c, struct report_files *ret, struct error *err);
void report_files_free(struct report_files *f);

/* Does the path match? Both are relative, with / between their parts. */
bool report_glob(const char *pattern, const char *path);

/* REPORT: what a test runner reported, as ENTRY frames and totals (docs/protocol.md). */
int report_serve(struct file_call *c, struct error *err);
