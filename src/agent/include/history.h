/*
 * History: one JSON file per session, valid after every message, in the data folder:
 *
 *     $XDG_DATA_HOME/hutch/history/YYYYMMDD-HHMMSS.json     (default ~/.local/share; a second
 *                                         session in the same second gets -2, then -3, …)
 *
 *     {"version": 1, "session": ID, "created": TIME, "workspace": DIR,
 *      "forked_from": {"session": ID, "turn": N}, "messages": [
 *     {"time": TIME, "role": "user", "turn": N, "content": [block, …]},
 *     {"time": TIME, "role": "assistant", "content": […], "model": S, "stop": S, "usage": {…},
 *      "cost": N},
 *     {"time": TIME, "role": "hutch", "kind": KIND, …}
 *     ], "totals": {"turns": N, "messages": N, "model": S, "input": N, "output": N, "cost": N}}
 *
 * Each message is one line, and so is what precedes them. Blocks are those of model.h; a user's
 * message that begins a turn has "turn": N (from 1; the number of an undone turn is used again).
 * Messages of the role "hutch" record what happened beside the conversation: "box" {"box": ID,
 * "folder": [DEV, INODE]}, "snapshot" {"turn", "snapshot"}, "undo" {"to": last turn that counts},
 * "summary" {"until": index of the first message it does not cover, "text"}, "plan" {"items"},
 * "applied", "cleared", "note", …
 *
 * Appending is one write over what closes the file, in time proportional to the message. Nothing
 * before that place is ever rewritten, so a crash of hutch can tear only the last write: loading
 * cuts it off, reports it, and loses nothing else. history_sync() makes it safe from a loss of
 * power, too. "totals" serve lists of sessions; opening a session ignores them. An open session is
 * locked (flock); a second program gets an error that names the first.
 *
 * A file of millions of tokens is not held in memory: history_open() keeps an index (offset,
 * length, kind, role, turn) and parses messages when they are asked for. People may edit the file:
 * any valid JSON of this shape is understood, however it is laid out. What cannot be read is left
 * out and reported; before hutch rewrites a file, it keeps the original (ID.json.kept).
 *
 * Companions of a session lie beside it, as ID.SOMETHING, and are removed together with it.
 *
 * history_read(), history_count() and history_id() may be called from any thread; the rest by one
 * at a time.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "error.h"

#define HISTORY_ID_MAX      32
#define HISTORY_MESSAGE_MAX (64u << 20)

struct history;

enum history_role { HISTORY_USER, HISTORY_ASSISTANT, HISTORY_HUTCH };

enum history_kind {
    HISTORY_OTHER, /* a kind that is not named here; and all messages of user and assistant */
    HISTORY_BOX,
    HISTORY_SNAPSHOT,
    HISTORY_UNDO,
    HISTORY_SUMMARY,
    HISTORY_PLAN,
    HISTORY_APPLIED,
    HISTORY_CLEARED,
    HISTORY_NOTE,
};

/* What the index knows of one message. */
struct history_entry {
    uint64_t offset;
    uint32_t length;
    uint32_t turn; /* that it belongs to; 0: before the first */
    enum history_role role;
    enum history_kind kind;
    bool begins_turn; /* the person's own words */
    bool undone;      /* by an undo */
    /* it was neither undone nor cleared; a "box" always counts: files are not undone by taking
     * another one */
    bool counts;
};

/* The sums over all answers, those of undone turns included: they were paid for. */
struct history_totals {
    size_t messages;
    unsigned turns; /* that count */
    uint64_t input, output, cache_read, cache_write;
    double cost; /* dollars; negative: no answer had a price */
    char model[128];
};

/* The folder, made if need be (0700): this one, or the person's if it is NULL. Histories of several
 * people, as a worker has them, are in folders of their own: the memory searches all of a folder. */
int history_folder(const char *folder, int *ret_fd, struct error *err);

/* A new session: its ID is taken, the file appears with its first message. `folder` as above;
 * `workspace` and `parent` may be NULL. */
int history_new(const char *folder, const char *workspace, const char *parent, unsigned parent_turn,
                struct history **ret, struct error *err);

/* Opens a session to continue it, or only to read it: then it is neither locked nor changed.
 * `given`: its ID or a unique prefix, "last" (written last), or a path if it is only read. -ENOENT;
 * -EBUSY: another program has it, and the text says which; -EBADMSG: not a session of hutch.
 * *ret_repaired: something could not be read, see history_trouble(). */
int history_open(const char *folder, const char *given, bool read_only, struct history **ret,
                 bool *ret_repaired, struct error *err);
struct history *history_close(struct history *h);

/* What could not be read and what was done about it: one line for a person; NULL: all is well. */
const char *history_trouble(const struct history *h);

const char *history_id(const struct history *h);
const char *history_workspace(const struct history *h); /* or NULL */
const char *history_path(const struct history *h);
const json_t *history_head(
    const struct history *h); /* the file's members but "messages" and "totals" */
void history_totals(const struct history *h, struct history_totals *ret);

/* Appends a message; sets its "time" if it has none. After a failure (-ENOSPC, …) the file is as it
 * was before, and the caller may try again. -ESTALE: another program changed it. */
int history_append(struct history *h, json_t *message, struct error *err);

/* Waits until all messages are on disk. history_close() does so, too. */
int history_sync(struct history *h, struct error *err);

/* For a fork: appends to `to` what counts of `from`, up to the end of turn `turn` (0: all of it),
 * except which box it has. A fork of that box still has the snapshots. Summaries get the new
 * numbers of messages. */
int history_copy_until(struct history *from, unsigned turn, struct history *to, struct error *err);

size_t history_count(const struct history *h);
const struct history_entry *history_entry(const struct history *h,
                                          size_t i); /* until the next append */
unsigned history_turns(const struct history *h);     /* the number of the last turn that counts */

/* Parses message i: a new reference. */
int history_read(struct history *h, size_t i, json_t **ret, struct error *err);

/* The newest message of role "hutch" and this kind that counts: a new reference, or NULL. */
json_t *history_last(struct history *h, const char *kind);

/* The sessions of the folder, the one that was written last first. Reads little of each file. */
struct history_info {
    char id[HISTORY_ID_MAX];
    char *created, *workspace, *title, *parent; /* clean UTF-8; NULL: not known */
    struct history_totals totals;
    uint64_t bytes;
    time_t written;
};
int history_list(struct history_info **ret, size_t *ret_count, struct error *err);
void history_list_free(struct history_info *list, size_t count);

/* Removes a session of the folder with its companions. -EBUSY: a program has it; -EINVAL: `given`
 * is a path; -EBADMSG: the file is not a history. ret_id: which it was. */
int history_remove(const char *given, char ret_id[HISTORY_ID_MAX], struct error *err);

/* The text of a message's blocks, or of one of them, for people and for searching: text as it is,
 * tool calls as name and input, results as their text. */
struct buf;
int history_text(const json_t *message, struct buf *ret);

/* A session for people: a sequence of pieces, which the terminal, Markdown and HTML show each in
 * their way. A call comes together with its result, although a history has them in two messages. */
enum piece_kind {
    PIECE_PERSON,   /* text: what the person said */
    PIECE_ANSWER,   /* text: Markdown of the model */
    PIECE_THINKING, /* text */
    PIECE_CALL,     /* name, brief, input; text: the result; failed; answered */
    PIECE_IMAGE,    /* name: its type; text: base64 */
    PIECE_NOTE,     /* name: the kind of one of hutch's own messages; text */
};

struct piece {
    enum piece_kind kind;
    size_t message;
    unsigned turn;
    bool counts; /* neither undone nor cleared */
    bool undone;
    bool failed, answered;
    const char *time, *name, *brief, *input; /* or NULL */
    const char *text; /* n bytes of UTF-8, with a NUL behind them; untrusted */
    size_t n;
};

struct piece_sink {
    int (*piece)(void *data, const struct piece *p); /* 0, or a negative errno that ends it */
    void *data;
};

/* Passes on all pieces, in order; without `full` only those that count. */
int history_pieces(struct history *h, bool full, const struct piece_sink *sink, struct error *err);

/* Writes a session as Markdown, or as one HTML page with everything in it. */
int history_export(struct history *h, bool html, FILE *out, struct error *err);
