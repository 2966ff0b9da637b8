/*
 * What the functions that serve a request have in common. Each answers by itself when it succeeds;
 * when it fails it returns a negative errno with the text set, which keeper_serve() sends. A client
 * that has gone is no failure.
 */
#pragma once

#include "keeper_held.h"
#include "wire.h"

#define KEEPER_ANSWER_MAX (WIRE_HEADER + WIRE_BODY_MAX)

/* Everything a request's function needs: what was asked, with which descriptors, and where answers
 * go. */
struct visit {
    struct request *q;
    const struct wire_frame *frame;
    struct wire_reader *reader;
    struct buf out; /* the frame that is being answered */
};

/* Ends the frame that was begun in v->out, and sends it. */
int visit_send(struct visit *v, size_t begin);
int visit_answer(struct visit *v);

/* Locks the owner's lock and enters; visit_unlock_owner undoes both. */
int visit_lock_owner(struct visit *v, struct error *err);
void visit_unlock_owner(struct visit *v);

/* keeper_exec.c */
int serve_exec(struct visit *v, struct error *err);
int serve_changes(struct visit *v, struct error *err);

/* keeper_family.c */
int serve_fork(struct visit *v, struct error *err);
int serve_snapshot(struct visit *v, struct error *err);
int serve_restore(struct visit *v, struct error *err);
int serve_remove(struct visit *v, struct error *err);

/* keeper_apply.c */
int serve_apply(struct visit *v, struct error *err);
int serve_sync(struct visit *v, struct error *err);
int serve_note(struct visit *v, struct error *err);
