/*
 * What a test runner reported, as a list of tests.
 *
 * The agent can write the files of a report, so they are parsed here, in the box, and not on the
 * host. Every format has one parser, which reads a whole report and adds the tests it finds to a
 * struct report; that cleans them (valid UTF-8, limits) and passes them on. Totals that a report
 * claims are not used: tests are counted.
 */
#pragma once

#include "file.h"
#include "text.h"

#define REPORT_SIZE_MAX  (64u << 20) /* bytes of one report */
#define REPORT_TESTS_MAX 100000u     /* tests that are passed on; the rest is only counted */
#define REPORT_NAME_MAX  1000u       /* bytes of a name */
#define REPORT_TEXT_MAX  8192u       /* bytes of a message: its beginning and its end */
#define REPORT_PATH_MAX  1000u       /* bytes of a file's name */
#define REPORT_NEST_MAX  32u         /* suites in suites, subtests in subtests */

/* REPORT: what a test runner reported, as ENTRY frames and totals (docs/protocol.md). */
int report_serve(struct file_call *c, struct error *err);

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
void clip_add_strings(struct clip *c, const char *const *strings); /* up to a NULL */
#define clip_add_str(c, ...) clip_add_strings(c, (const char *const[]){__VA_ARGS__, NULL})
void clip_reset(struct clip *c);
void clip_free(struct clip *c);
#define _cleanup_clip_ _cleanup_(clip_free)

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
    uint64_t total, counts[WIRE_OUTCOME_SKIPPED + 1];
    uint64_t left_out; /* tests over the limit */
    int64_t duration_ns;
};

/* Cleans and counts one test, and passes it on unless there were too many already. */
int report_add(struct report *r, const struct report_test *t);

uint64_t report_bad(const struct report *r); /* failed tests and errors */

/* Calls `take` for each line of a text without its end, NUL-terminated (a NUL inside becomes a
 * space); `take` may change the line. Ends early if `take` returns something else than 0, and
 * returns that. */
int report_each_line(char *text, size_t n, int (*take)(void *data, char *line, size_t n),
                     void *data);

/* What follows the prefix in s, or NULL if s does not begin with it. */
char *report_after(const char *s, const char *prefix);

/* A runner's words for outcomes, up to one that is NULL, which stands for all others. */
struct report_word {
    const char *word;
    enum wire_outcome outcome;
};

enum wire_outcome report_outcome(const struct report_word *words, const char *word);

/* Replaces *at by a copy of n bytes, or by NULL. */
void report_set_string(char **at, const char *s, size_t n);

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
    bool (*is_document)(const char *head); /* by its first bytes; or NULL */
    bool (*is_line)(const char *line);     /* a line that only this format has; or NULL */
    /* `text` has n bytes and a NUL behind them, and may be changed. 0, or a negative errno with an
     * error. */
    int (*parse)(struct report *r, char *text, size_t n, struct error *err);
};

extern const struct report_format REPORT_JUNIT, REPORT_JSON, REPORT_GO, REPORT_MESON, REPORT_TAP,
    REPORT_LIBTEST, REPORT_AUTOMAKE;

/* NULL for a number that is none. */
const struct report_format *report_format_of(enum wire_report_format format);

/* Which format a text has. 0 (auto) if none is recognised. */
enum wire_report_format report_sniff(char *text, size_t n);

/* TAP inside another report, the output of one test program, if it has a plan or a version, and
 * tests. */
bool tap_looks_like(const char *text);
int tap_parse_text(struct report *r, const char *text);
