/*
 * What a test runner reported, as a list of tests.
 *
 * Reports are files inside the box and so are bytes of the agent: that is why they are parsed here
 * and not on the host. Every format has one parser, which reads a source to its end and adds the
 * tests it finds to a struct report; that cleans what it is given (valid UTF-8, limits) and hands
 * it on. Nothing here trusts a total that a report claims: what counts is counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "buf.h"
#include "error.h"
#include "wire.h"

#define REPORT_SIZE_MAX  (64u << 20) /* bytes of one report */
#define REPORT_TESTS_MAX 100000u     /* tests that are told of; the rest is only counted */
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
    const char *label; /* put before each name: the file, where several are read and names alone do
                          not tell */
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

/* Lines of a source. */
struct lines {
    struct report_source *source;
    struct buf in;
    size_t at;  /* where in it the next line begins */
    size_t max; /* bytes of one line; the rest of a longer one is dropped */
    bool ended;
    bool cut; /* the line was longer */
};

#define LINES_INIT(from, longest)                                                                  \
    ((struct lines){.source = (from), .max = (longest), .in = BUF_INIT((longest) + (128u << 10))})

/* The next line without its end, NUL-terminated (a NUL inside becomes a space), valid until the
 * next call. 1, 0 at the end, or a negative errno. */
int lines_next(struct lines *l, char **ret, size_t *ret_n);
void lines_free(struct lines *l);
#define _cleanup_lines_ _cleanup_(lines_free)

/* The first place in a source file that a failure's text names: "src/a.py:12", "(/x/a.js:3:7)",
 * "File "a.py", line 3", "at t/a.t line 5". With `like`, only one of that file. The path goes to
 * `path`. */
bool report_locate(const char *text, const char *like, char path[REPORT_PATH_MAX + 1],
                   uint64_t *ret_line);

/* "1.25" seconds, or the like, as nanoseconds; 0 for anything else. */
int64_t report_seconds(const char *s);
int64_t report_duration(double seconds);

/* Parsers. 0, or a negative errno with words. */
typedef int (*report_parse)(struct report *r, struct report_source *s, struct error *err);

int report_parse_junit(struct report *r, struct report_source *s, struct error *err);
int report_parse_json(struct report *r, struct report_source *s, struct error *err);
int report_parse_go(struct report *r, struct report_source *s, struct error *err);
int report_parse_meson(struct report *r, struct report_source *s, struct error *err);
int report_parse_tap(struct report *r, struct report_source *s, struct error *err);
int report_parse_libtest(struct report *r, struct report_source *s, struct error *err);
int report_parse_automake(struct report *r, struct report_source *s, struct error *err);

/* The parser of a format; NULL for a number that is none. */
report_parse report_parser(enum wire_report_format format);

/* Which format these bytes have; rewinds the source. 0 (auto) if none is recognised. */
enum wire_report_format report_sniff(struct report_source *s);
