/*
 * History: one JSON file per session, valid after every message, in the data folder:
 *
 *     $XDG_DATA_HOME/hutch/history/YYYYMMDD-HHMMSS.json        (~/.local/share/hutch/history; -2, -3, … in
 * the same second)
 *
 *     {"version": 1, "session": ID, "created": TIME, "workspace": DIR, "forked_from": {"session": ID, "turn":
 * N}, "messages": [
 *     {"time": TIME, "role": "user", "content": [block, …]},
 *     {"time": TIME, "role": "assistant", "content": […], "model": S, "stop": S, "usage": {…}, "cost": N},
 *     {"time": TIME, "role": "hutch", "kind": KIND, …}
 *     ]}
 *
 * One message per line. Blocks are those of model.h; a user's message that begins a turn has "turn": N (from
 * 1). Messages of the role "hutch" are what happened beside the conversation: "box" {"box": ID}, "snapshot"
 * {"turn", "snapshot"}, "undo" {"to": turn that is the last to count}, "summary" {"until": index of the first
 * message it does not cover, "text"}, "plan" {"items"}, "applied", "cleared", "note", …
 *
 * Appending is one write over the closing "\n]}\n" and one fdatasync: it takes time in proportion to the
 * message. Nothing is ever rewritten, so a write that a crash tore can only be the last: loading cuts it off
 * (and says so) and loses nothing else. A session that is open is locked (flock), the second program is told
 * who has it.
 *
 * A file of millions of tokens is not held in memory: history_open() keeps an index (offset, length, kind,
 * role, turn) and messages are parsed when asked for.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "error.h"

#define HISTORY_ID_MAX      32
#define HISTORY_MESSAGE_MAX (64u << 20)

struct history;

enum history_role { HISTORY_USER, HISTORY_ASSISTANT, HISTORY_HUTCH };

/* What the index knows of one message. */
struct history_entry {
    uint64_t offset;
    uint32_t length;
    enum history_role role;
    bool begins_turn; /* the person's own words */
    uint32_t turn;    /* that it belongs to; 0: before the first */
    bool counts;      /* it was not taken back by an undo or cleared */
};

/* The folder, made if need be (0700). */
int history_folder(int *ret_fd, struct error *err);

/* A new session: the file appears with its first message. `workspace` and `parent` may be NULL. */
int history_new(const char *workspace, const char *parent, unsigned parent_turn, struct history **ret,
                struct error *err);

/* Opens a session to go on with it. `given`: its ID, a beginning that only one has, "last", or a path.
 * -EBUSY: another program has it, and the text says which. *ret_repaired: a torn last write was cut off. */
int history_open(const char *given, bool read_only, struct history **ret, bool *ret_repaired,
                 struct error *err);
struct history *history_close(struct history *h);

const char *history_id(const struct history *h);
const char *history_workspace(const struct history *h); /* or NULL */
const char *history_path(const struct history *h);

/* Appends a message and syncs; sets its "time" if it has none. */
int history_append(struct history *h, json_t *message, struct error *err);

size_t history_count(const struct history *h);
const struct history_entry *history_entry(const struct history *h, size_t i);
unsigned history_turns(const struct history *h); /* turns that count */

/* Parses message i: a new reference. */
int history_read(struct history *h, size_t i, json_t **ret, struct error *err);

/* The newest message of role "hutch" and this kind that counts: a new reference, or NULL. */
json_t *history_last(struct history *h, const char *kind);
