/*
 * A session for people: as a sequence of pieces, which the terminal, Markdown and HTML show each in
 * their way. A call comes together with its result, although a history has them in two messages.
 */
#pragma once

#include <stdio.h>

#include "history.h"

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
