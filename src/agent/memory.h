/*
 * Memory: recall over this and past sessions. An SQLite database beside the histories (memory.db, FTS5 with
 * BM25; where an embedding model is configured also vectors, ranks fused by reciprocal rank). The histories
 * are the truth: the database is made from them, brought up to date when it is asked, and thrown away when it
 * is damaged.
 */
#pragma once

#include "history.h"
#include "session.h"

struct memory;

struct memory_options {
    const char *embedder; /* model for vectors; NULL: words only */
    struct model *model;  /* that is asked for them; borrowed */
};

int memory_open(const struct memory_options *o, struct memory **ret, struct error *err);
struct memory *memory_close(struct memory *m);

struct memory_query {
    const char *text;
    const char *session;   /* only this one; NULL: all */
    const char *workspace; /* those of this folder come first; or NULL */
    unsigned limit;
};

/* [{"session", "message": INDEX, "time", "role", "snippet", "score", "turn"}, …], best first: a new
 * reference. */
int memory_search(struct memory *m, const struct memory_query *q, json_t **ret, struct error *err);

/* The `memory` tool for an agent's session, as a source of tools: search, and reading one message (or one
 * tool's output) in full. Opens the database when it is first called. `history` is the session's own,
 * borrowed. */
struct tool_source *memory_tools(struct history *h, const struct memory_options *o);
