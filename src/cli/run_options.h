/*
 * Options of the commands that make or use a box: `run`, `box new`, `box exec`, `box set`, `tool`,
 * `mcp`, `chat` and `ask`. Those of the box itself are BOX_OPTIONS (box_options_parse.h); the rest
 * are RUN_OPTIONS. Both fill a struct run_options.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "box_options.h"
#include "session.h"

/* Bits of option.where. */
#define FOR_RUN  1u
#define FOR_NEW  2u
#define FOR_EXEC 4u
#define FOR_TOOL 8u
#define FOR_MCP  16u
#define FOR_CHAT 32u
#define FOR_ASK  64u

struct run_options {
    struct box_spec spec; /* first: it is the target of BOX_OPTIONS, too */
    bool apply, tty, json;
    const char *box_id;  /* --box of the tools' commands; NULL: a fresh one */
    bool list, markdown; /* of `tool` */
    bool trust;          /* use the settings of the workspace's files, for this run */
    /* of the agent's commands: */
    const char *model, *resume, *system, *record, *test;
    uint64_t max_tokens, max_turns, attempts;
    double max_cost;
    bool no_apply, plain;
    bool allow_push; /* of the tools' and the agent's commands: see host.h */
    const char *allow_clone[TOOL_HOST_CLONES_MAX];
    size_t n_allow_clone;
    const char *allow_net[TOOL_HOST_NETS_MAX];
    size_t n_allow_net;
    char *allow_net_text; /* what they point into */
    bool allow_git_dirs;
    bool no_toolchains;
    char start[PATH_MAX]; /* folder of the workspace that an agent starts in; empty: its top */
    bool cache;           /* of `mcp` */
    int64_t ttl_ns;       /* 0: until it is removed */
    const char *cwd;      /* of `box exec`; NULL: /workspace */
};

extern const struct option RUN_OPTIONS[];

#define APPLY_NEEDS_COW "--apply needs --mode cow: other modes keep no changes apart"

void run_options_init(struct run_options *o);
void run_options_init_agent(struct run_options *o); /* with the larger box of an agent */
void run_options_free(struct run_options *o);
#define _cleanup_run_options_ _cleanup_(run_options_free)

/* Wrapper of options_parse: also checks which options go together. */
int run_options_parse(struct run_options *o, const struct option_set *sets, int argc,
                      char *const *argv, int *ret_used, struct error *err);

/* What host-side tools may do by these options. */
struct tool_host run_options_host(const struct run_options *o);

/* After box_spec_resolve: says what the person should know about the groups of --net and about the
 * folder before a box is made. */
void run_options_say_notes(const struct run_options *o);
