/*
 * The chat with an agent: on a screen (ncursesw), or line by line where there is none.
 *
 * On a screen the agent works in a thread of its own and its events come through a queue; one other
 * thread owns the screen and the keys. Untrusted text (files, output, the model's words) is cleaned
 * before it reaches the terminal (text/clean.h).
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "agent.h"
#include "text.h"

struct tui_options {
    const struct agent_options *agent;
    bool apply;          /* apply at the end of each turn without asking */
    bool no_apply;       /* never offer to */
    bool allow_git_dirs; /* also apply files that make a folder a git directory */
    bool plain;          /* line by line even on a terminal */
    const char *first;   /* message from the command line, or NULL */
    unsigned attempts;   /* at each message, side by side; 0 or 1: one */
    const char *test;    /* command that picks the best attempt */
};

/* Runs until the user leaves. Returns 0 or a negative errno with the text set. */
int tui_run(const struct tui_options *o, struct error *err);

/*
 * Summaries: what happened, in a few words on one line: `make test` · `exit 2`. The chat on the
 * screen, the chat line by line and `hutch ask` all use the same words.
 *
 * The text comes from a model or a box. Here it becomes one line (blanks and newlines become one
 * blank), control characters become visible (harmless.h), and it is cut to `width` columns. All
 * functions append to `out` and return 0 or a negative errno of the buffer.
 */

/* What the call does: its command, path or pattern. */
int summary_of_call(const char *name, const json_t *input, size_t width, struct buf *out);

/* The outcome, if there is more to say than that it succeeded: `exit 2`, `12 passed, 1 failed`, `+3
 * −1`, or why it failed. May append nothing. */
int summary_of_result(const char *name, const struct tool_result *r, size_t width, struct buf *out);

/* How a tool's calls are shown; of an unknown tool, in a general form. */
const struct tool_view *summary_view(const char *name);

/* Did the call fail, or the command that it ran, or one of the tests? */
bool summary_is_bad(const struct tool_result *r);

/* `3 files, +41 −2`, `commits` or `nothing`. */
int summary_of_changes(const struct agent_changes *c, struct buf *out);

/* `3 files changed, +41 −2`, then a line per file: `M path  +1 −2`. Of many files the first ones.
 */
int summary_list_changes(const struct agent_changes *c, struct buf *out);

/* Any bytes as one line, with … where something was cut. */
int summary_line(const char *text, size_t n, size_t width, struct buf *out);

/* `12,345` */
int summary_number(uint64_t n, struct buf *out);

/* `0.3s`, `12s`, `3m05s`, `1h02m`. Returns `out`. */
#define SUMMARY_TIME_MAX 16
const char *summary_time(double seconds, char out[SUMMARY_TIME_MAX]);
