/*
 * The tools: what an agent can do, each one file, one `const struct tool`, one line in the table.
 *
 * Every frontend (the command line, MCP, the agent's loop, REST, a job's steps, the gym, Python) is
 * made from this table: it shows the names and the schemas, and calls tool_call(). A frontend knows
 * no tool, and a tool no frontend.
 *
 * A tool's function is given input that its schema allows, works through the box (ask.h for the
 * guest's file requests, box_exec for commands) and fills a result: data for programs and text for
 * a model, which say the same. What comes from the box is untrusted: bounded when it is read, made
 * valid UTF-8 when it is kept.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "json.h"
#include "schema.h"
#include "text.h"

#define TOOL_SUMMARY_MAX (16u << 10) /* bytes of the summary of a foreign tool */
#define TOOL_TITLE_MAX   200u

/* Flags. A tool that only reads runs beside others that do; any other runs alone, in the order of
 * the calls. */
#define TOOL_READS   1u  /* changes nothing, neither in the box nor anywhere */
#define TOOL_CHANGES 2u  /* changes files of the workspace, those of its input only */
#define TOOL_RUNS    4u  /* runs code: it may change whatever the box lets it */
#define TOOL_CACHED  8u  /* the same input on the same snapshot gives the same result */
#define TOOL_HOST    16u /* works on the host with the person's rights, outside of any box */

/*
 * What a call gives: data for programs, text for a model, perhaps a picture. The text of a failed
 * result says what went wrong and what to do; its data, if any, holds the details.
 */
#define RESULT_TEXT_MAX  (1u << 20)
#define RESULT_IMAGE_MAX (16u << 20)

struct tool_result {
    bool failed;
    bool cached;      /* came from the cache */
    bool lingers;     /* something that the call started runs on in the box */
    json_t *data;     /* an object, or NULL */
    struct buf text;  /* valid UTF-8 */
    const char *mime; /* of the image; NULL: there is none */
    struct buf image; /* its bytes */
};

#define TOOL_RESULT_INIT                                                                           \
    ((struct tool_result){.text = BUF_INIT(RESULT_TEXT_MAX), .image = BUF_INIT(RESULT_IMAGE_MAX)})

void tool_result_free(struct tool_result *r);
#define _cleanup_result_ _cleanup_(tool_result_free)

/* An independent copy. 0 or -ENOMEM. */
int tool_result_copy(const struct tool_result *from, struct tool_result *ret);

/* The whole result as JSON: {"data", "text", "failed", "image"}; NULL without memory. */
json_t *tool_result_json(const struct tool_result *r);

/* Appends bytes of any kind as valid UTF-8: what is not becomes U+FFFD. NUL bytes become U+2400. */
int text_append(struct buf *b, const void *data, size_t n);

/* The same as a JSON string. */
json_t *text_json(const void *data, size_t n);

/* Sets a member of an object and drops the reference; without memory the object gets no such member
 * and the call fails later, when it is printed: -ENOMEM. */
int data_set(json_t *object, const char *name, json_t *value);

struct tool_session;
struct tool_call;

/* How a person sees a call: one line for what it does, one for its result, and a body beneath, of
 * which a terminal shows a few lines. A tool without a view is shown in a general form. */
struct tool_view {
    int (*call)(const json_t *input, struct buf *b);  /* NULL: a string of the input */
    int (*result)(const json_t *data, struct buf *b); /* only of calls that did not fail */
    const char *input_body; /* member of the input that is the body; NULL: none */
    const char *data_body;  /* member of the data that is; NULL: the result's text */
    enum tool_body { TOOL_BODY_TEXT, TOOL_BODY_DIFF, TOOL_BODY_PLAN } body;
    uint8_t head, tail; /* lines of the body that are shown unasked */
    bool quiet;         /* none if the call went well */
};

struct tool {
    const char *name;
    const char *title;   /* for people: a few words */
    const char *summary; /* for models: what it does, when to use it, what it gives */
    const char *input;   /* JSON Schema of an object, as SCHEMA(…) */
    const char *output;  /* the same for result.data; NULL: nothing is promised */
    unsigned flags;
    /* 0 with the result filled (also if it is marked as failed, see tool_fail); or a negative errno
     * with the text set, which becomes a failed result. */
    int (*run)(struct tool_call *c, struct error *err);
    const struct tool_view *view; /* or NULL */
    /* True if this call certainly changed nothing, although the tool can. NULL: not known. */
    bool (*unchanged)(const json_t *input, const struct tool_result *r);
};

/* Called now and then while a call takes long, from its thread. `message` is clean UTF-8. */
struct tool_progress {
    void (*say)(void *data, double seconds, const char *message);
    void *data;
};

/* What a tool's function is given. */
struct tool_call {
    struct tool_session *session;
    const struct tool *tool;
    json_t *input; /* valid by the tool's schema */
    struct tool_result *result;
    int cancel;                           /* becomes readable when the call is to end; -1: never */
    const struct tool_progress *progress; /* or NULL */
};

/* The tools that are built in, ended by NULL; the order is that of lists. */
extern const struct tool *const TOOLS[];

/* One of them, or NULL. */
const struct tool *tool_builtin(const char *name);

/* Rows that other layers call by themselves: a person's shell command, the tests of an attempt, the
 * actions of a training task. */
extern const struct tool TOOL_BASH, TOOL_READ_FILE, TOOL_LIST_FILES, TOOL_APPLY_DIFF,
    TOOL_RUN_TESTS;

/* Marks the result as failed, with this text; returns 0, for `return tool_fail(c, …)`. Further data
 * may be set in c->result. */
int tool_fail(struct tool_call *c, const char *fmt, ...) PRINTF(2, 3);

/* One call as a frontend asks for it. */
struct tool_request {
    const char *name;
    const struct tool *tool; /* one of the frontend's own, instead of that of a name; or NULL */
    json_t *input;           /* borrowed; NULL: an empty object */
    int cancel;              /* -1: none */
    int patience_ms;         /* goes ahead if its turn has not come by then; 0: waits */
    const struct tool_progress *progress;
};

/*
 * Calls a tool: finds it, checks the input, waits for its turn, asks the cache, runs it. There is
 * always a result, failed or not, which the caller frees; the return value says whether the tool
 * was reached at all: 0, -ENOENT (no such tool), -EIO (there is one, but its source failed) or
 * -EINVAL (the input is not what the schema allows).
 */
int tool_call(struct tool_session *s, const struct tool_request *q, struct tool_result *ret);

/* The same in two steps, for frontends that receive calls in one thread and run them in others: the
 * first takes the call's place in the order and waits for nothing (0 or -ENOMEM); the second does
 * all the rest and frees the turn. The request lives until then. */
struct tool_turn;
int tool_begin(struct tool_session *s, const struct tool_request *q, struct tool_turn **ret);
int tool_finish(struct tool_turn *t, struct tool_result *ret);

/* Members of a call's input, which its schema has allowed, or the fallback. An integer may be
 * written as 5.0: to JSON that is the same. */
int64_t input_int(const struct tool_call *c, const char *name, int64_t fallback);
bool input_bool(const struct tool_call *c, const char *name, bool fallback);
const char *input_string(const struct tool_call *c, const char *name); /* or NULL */

/* {"name", "title", "description", "input_schema", "output_schema", "reads_only", "changes_files",
 * "runs_code", "cacheable", "host_side"}; NULL without memory. */
json_t *tool_describe(const struct tool *t);

/* The page docs/tools.md, made from the table. */
int tool_markdown(struct buf *page);
