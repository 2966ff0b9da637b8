/* A box that a live job holds: what live_box.c (its life), box_calls.c (commands and files) and
 * terminal.c share. */
#pragma once

#include <pthread.h>

#include "keeper.h"
#include "live.h"
#include "session.h"

struct box_state {
    struct box *box; /* a keeper's, so any number of calls may use it at once */
    struct registry_id id;
    int hold; /* an idle connection to the keeper: the box outlives this process for BOX_ORPHAN_NS */
    struct tool_session *tools;
    struct terminals *terminals;
    char *folder; /* of the host, with the workspace that it began with; NULL: empty */
    pthread_mutex_t lock;
    json_t *snapshots; /* [{"id", "name", "created_at"}, …] */
};

static inline struct box_state *call_box(const struct live_call *c)
{
    return call_state(c);
}

/* box_calls.c */
void box_call_exec(struct live_call *c);
void box_call_tool(struct live_call *c);
void box_call_diff(struct live_call *c);
void box_call_changes(struct live_call *c);
void box_call_files_get(struct live_call *c);
void box_call_files_put(struct live_call *c);
void box_call_files_list(struct live_call *c);

/* terminal.c: terminals of a box. Each is a shell that ends by itself, or with the box; viewers
 * come and go. */
struct terminals *terminals_new(void);                 /* NULL without memory */
struct terminals *terminals_free(struct terminals *t); /* ends them all; takes NULL */
json_t *terminals_json(struct terminals *t); /* [{"id", "rows", "cols", "viewers"}, …] */
void box_call_terminal(struct live_call *c);
void box_call_terminal_resize(struct live_call *c);
