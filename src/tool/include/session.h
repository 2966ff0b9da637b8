/*
 * A session: one agent at work in one box, through any frontend.
 *
 * It holds what lasts from call to call: the box, the plan, the person's own
 * tools and those of MCP servers, and the order of the calls. It may be used from several threads
 * at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "box.h"
#include "config.h"
#include "tool.h"

#define TOOL_SHELL "main" /* the shell of the box that bash and run_tests use */

struct tool_session;

/* Tools that are not built in: a set that is asked when the table does not know a name, and for
 * lists; from several threads at once. */
struct tool_source {
    /* The tool of that name, which lives as long as the source. NULL: there is none; or, with the
     * text set, the source failed. */
    const struct tool *(*find)(struct tool_source *s, struct tool_session *session,
                               const char *name, struct error *err);
    /* Calls `each` for all of them, and `trouble` about what is left out. */
    void (*list)(struct tool_source *s, struct tool_session *session,
                 void (*each)(void *data, const struct tool *t),
                 void (*trouble)(void *data, const char *text), void *data);
    void (*free)(struct tool_source *s);
};

struct tool_cache;

/* `box` is borrowed and outlives the session. */
int tool_session_new(struct box *box, struct tool_session **ret, struct error *err);
struct tool_session *tool_session_free(struct tool_session *s);

/* Takes the source over. At most 8. */
int tool_session_add(struct tool_session *s, struct tool_source *source);

/* Lets calls that only read be answered from a cache (borrowed, this session's alone), for a box
 * and a folder that nothing but this session changes: each call that may change something leaves a
 * state of its own, until one leaves something running. */
void tool_session_set_cache(struct tool_session *s, struct tool_cache *cache);

/* Names that calls make up (a file for long output, a folder for a report) are then made of this
 * number, which must be another one for each call: the same calls give the same names. 0: no two
 * programs take the same. */
void tool_session_serial(struct tool_session *s, uint64_t serial);
uint64_t tool_session_serial_now(struct tool_session *s);

/* How many calls there were so far that may have changed the box. */
uint64_t tool_session_changes(struct tool_session *s);

struct box *tool_session_box(struct tool_session *s);

/* The plan, see plan.c: a list of items. A new reference. */
json_t *tool_session_plan(struct tool_session *s);
void tool_session_set_plan(struct tool_session *s, json_t *plan);

/* A tool of the table or of a source. NULL with the text set, which was empty before: ENOENT if
 * there is none, EIO if its source failed. */
const struct tool *tool_session_find(struct tool_session *s, const char *name, struct error *err);

/* All tools, in the order of the table, then those of the sources. */
void tool_session_list(struct tool_session *s, void (*each)(void *data, const struct tool *t),
                       void (*trouble)(void *data, const char *text), void *data);

/* Does a background command of the box still run? -ESRCH: there is none with that handle. */
int tool_session_is_running(struct tool_session *s, uint64_t handle, bool *ret);

/* Adds the tools of the MCP servers to a session; takes the configuration over, also on failure.
 * The layer mcp sets it when its program starts; without that layer it is NULL. */
extern int (*tool_servers_add)(struct tool_session *s, struct config *config, struct error *err);

/* The tools in the person's folder and in the workspace, see own_tools.c; NULL without memory. */
struct tool_source *own_tools_new(void);

/* Gives the session the person's own tools and those of the configured MCP servers. Takes the
 * configuration over, also on failure. */
int tool_sources_add(struct tool_session *s, struct config *config, struct error *err);

/*
 * --- host-side tools (TOOL_HOST) ---
 *
 * Which folder of the host a session works on, who confirms, and what the person allowed in
 * advance. A session without it (the gym, the C library) does not offer these tools.
 */
#define TOOL_HOST_CLONES_MAX 16
#define TOOL_HOST_NETS_MAX   32

/* Asks the person, showing them a text that is safe for a terminal. 1: yes; 0: no; -ENOTTY: nobody
 * can be asked; -ECANCELED. From the thread of the call; `cancel` as in tool_call. */
struct tool_confirm {
    int (*ask)(void *data, const char *title, const char *text, int cancel);
    void *data;
};

struct tool_host {
    /* the folder that the box shows; NULL: none; filled in by tool_session_set_host */
    const char *workspace;
    bool direct;     /* the box writes into it: the host must not believe its .git; likewise */
    bool trial;      /* one of several attempts side by side, of which most are dropped */
    bool allow_push; /* --allow-push: yes to every push and pull request */
    /* --allow-clone: hosts that may be cloned from unasked */
    const char *clones[TOOL_HOST_CLONES_MAX];
    size_t n_clones;
    /* --allow-net: HOST[:PORT] and @GROUPs that need no asking */
    const char *nets[TOOL_HOST_NETS_MAX];
    size_t n_nets;
    uint64_t clone_max; /* bytes of a clone; 0: HOST_CLONE_MAX */
    struct tool_confirm confirm;
};

#define HOST_CLONE_MAX (1ull << 30)

/* Copies it, and asks the box for its folder and mode. */
int tool_session_set_host(struct tool_session *s, const struct tool_host *host, struct error *err);
const struct tool_host *tool_session_host(const struct tool_session *s); /* NULL: none */

/*
 * Lets the person confirm what is shown. Yes is remembered in this session for exactly the same
 * text. 0, or a negative errno with the text set: -EPERM (they said no), -ENOTTY (nobody can be
 * asked; `option` says how to decide in advance).
 */
int host_confirm(struct tool_call *c, const char *title, const char *text, const char *option,
                 struct error *err);

/*
 * --- the cache ---
 *
 * Results of calls that only read, kept by what they depend on: the snapshot, the tool and the
 * input. The key is the SHA-256 of the three, so that sessions in boxes that were forked from one
 * snapshot share results. Bounded in bytes, least recently used first. Any number of threads.
 */
#define CACHE_KEY_SIZE 32

struct tool_cache *tool_cache_new(size_t max_bytes); /* NULL without memory */
struct tool_cache *tool_cache_free(struct tool_cache *c);

int tool_cache_key(const char *snapshot, const char *tool, const json_t *input,
                   uint8_t ret[CACHE_KEY_SIZE]);

/* True with a copy, marked as cached. */
bool tool_cache_find(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                     struct tool_result *ret);

/* Keeps a copy. A result that is too large is not kept, nor is one for which there is no memory. */
void tool_cache_add(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                    const struct tool_result *r);
