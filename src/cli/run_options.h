/*
 * "run's options": what `hutch run`, `hutch box new` and `hutch box exec` take, in one table.
 *
 * Two steps. Parsing is pure (options.h): it fills a struct run_options with pointers into argv and
 * refuses what is wrong whatever the host looks like; that is wrong usage. Resolving
 * (box_wish_resolve) looks at the host; what fails there is a box that could not be made.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "host.h"
#include "options.h"
#include "wish.h"

/* Bits of option.where. */
#define FOR_RUN  2u
#define FOR_NEW  4u
#define FOR_EXEC 8u
#define FOR_TOOL 16u
#define FOR_MCP  32u
#define FOR_CHAT 64u
#define FOR_ASK  128u
#define FOR_SET  256u

struct run_options {
    struct box_wish wish; /* what makes a box what it is */
    bool apply, tty, json;
    const char *box_id;  /* --box of the tools' commands; NULL: a fresh one */
    bool list, markdown; /* of `tool` */
    bool trust;          /* use what the workspace's files say, for this run */
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
    char start[PATH_MAX]; /* of an agent: the folder of the workspace that it begins in; empty: its
                             top */
    bool makes;           /* the box is to be a special one, beside its folder */
    bool cache;           /* of `mcp` */
    struct box_limits initial; /* what the box has if nothing is asked for; an agent's has more */
    enum box_store initial_store;
    int64_t ttl_ns;  /* 0: until it is removed */
    const char *cwd; /* of `box exec`; NULL: /workspace */
};

extern const struct option RUN_OPTIONS[];

void run_options_init(struct run_options *o);
void run_options_init_agent(
    struct run_options *o); /* with the larger box that an agent's work needs */
void run_options_free(struct run_options *o);
#define _cleanup_run_options_ _cleanup_(run_options_free)

/* Wrapper of options_parse for this table. */
int run_options_parse(struct run_options *o, unsigned mask, int argc, char *const *argv,
                      int *ret_used, struct error *err);

/* What host-side tools may do by these options. */
struct tool_host run_options_host(const struct run_options *o);

/* Says what the groups of --net leave out, if anything. After the second step. */
void run_options_say_note(const struct run_options *o);

/* Says what the person should know about the folder before a box is made. */
void run_options_warn(const struct run_options *o);

/* Is there an option among them that makes a box what it is? They mean nothing to one that is
 * there. Before the second step. */
bool run_options_make(const struct run_options *o);
