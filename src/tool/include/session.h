/*
 * A session: one agent at work in one box, through any frontend.
 *
 * It holds what lasts from call to call: the box, the name of its shell, the plan, the person's own
 * tools and those of MCP servers, and the order of the calls. It may be used from several threads
 * at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "tool.h"
#include "box.h"

struct tool_cache;

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

/* `box` is borrowed and outlives the session. */
int tool_session_new(struct box *box, const char *shell, struct tool_session **ret,
                     struct error *err);
struct tool_session *tool_session_free(struct tool_session *s);

/* Takes the source over. At most 8. */
int tool_session_add(struct tool_session *s, struct tool_source *source);

/* Lets calls that only read be answered from a cache (borrowed), as long as the box is as
 * `snapshot` says: any name that stands for one state of the box and of the folder beneath it. The
 * first call that may change something ends that, until it is said again. NULL: not known. */
int tool_session_state(struct tool_session *s, struct tool_cache *cache, const char *snapshot);

/* The same for a box and a folder that nobody but this session changes: each call that may change
 * something leaves a state with a name of its own, until one leaves something running. The cache is
 * this session's. */
int tool_session_alone(struct tool_session *s, struct tool_cache *cache);

/* Names that calls make up (a file for long output, a folder for a report) are then made of this
 * number, which must be another one for each call: the same calls give the same names. 0: no two
 * programs take the same. */
void tool_session_serial(struct tool_session *s, uint64_t serial);
uint64_t tool_session_serial_now(struct tool_session *s);

/* How many calls there were so far that may have changed the box. */
uint64_t tool_session_changes(struct tool_session *s);

struct box *tool_session_box(struct tool_session *s);
const char *tool_session_shell(const struct tool_session *s);

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

/* Gives the session the tools that the configuration names. Takes the configuration over, also on
 * failure. */
int tool_sources_add(struct tool_session *s, struct config *config, struct error *err);
