/*
 * Memory: recall over this and past sessions. An SQLite database beside the histories (memory.db,
 * FTS5 with BM25; where an embedding model is configured also vectors, ranks fused by reciprocal
 * rank). The histories are the truth: the database holds no text, only where words stand; it is
 * made from them, brought up to date by each search, and discarded when it is damaged. Several
 * programs may use it at once.
 *
 * Searches find what was cleared, but not what was undone.
 */
#pragma once

#include "history.h"
#include "session.h"

#define MEMORY_LIMIT_MAX   50
#define MEMORY_SNIPPET_MAX 480         /* bytes */
#define MEMORY_PAGE_MAX    (64u << 10) /* of a message that is read in full */

struct model;
struct memory;

struct memory_options {
    const char *folder;   /* of the histories, see history_folder; NULL: the person's */
    const char *embedder; /* model for vectors; NULL: words only */
    struct model *model;  /* that is asked for them; borrowed; used while a search is under way */
};

/* May be used from several threads. */
int memory_open(const struct memory_options *o, struct memory **ret, struct error *err);
struct memory *memory_close(struct memory *m);

struct memory_query {
    const char *text;    /* words, "phrases in quotes"; anything is valid */
    const char *session; /* only this one; NULL: all */
    struct history *own; /* the session that asks, borrowed; or NULL */
    unsigned limit;      /* 0: 10 */
    int cancel;          /* becomes readable to cancel the search; -1: never */
};

/* Indexes what is new in the histories (all, or only that of this ID), in pieces. -ECANCELED. */
int memory_update(struct memory *m, const char *session, struct history *own, int cancel,
                  struct error *err);

/* Brings the database up to date and searches it: [{"session", "message": INDEX, "call", "time",
 * "role", "turn", "snippet", "score"}, …], best first: a new reference. "call" is the tool_use's ID
 * where the words are in a tool's call or output. */
int memory_search(struct memory *m, const struct memory_query *q, json_t **ret, struct error *err);

/* The `memory` tool for an agent's session, as a source of tools: search, and reading one message
 * (or one tool's output) in full. Opens the database when it is first called. `history` is the
 * session's own, borrowed, and so are the strings and the model of `o` (which may be NULL). NULL
 * without memory. */
struct tool_source *memory_tools(struct history *h, const struct memory_options *o);
