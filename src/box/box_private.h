/* What box.c and snapshot.c lend to each other and to pool.c. */
#pragma once

#include "backend.h"

struct box *box_new(void);

/* The calls of box.h for a box of this process. */
extern const struct box_ops LOCAL_BOX;
int local_request(struct box *b, struct buf *request, int *ret_fd, struct error *err);
int local_exec(struct box *b, const struct box_command *c, struct box_result *ret,
               struct error *err);
int local_adjust(struct box *b, const struct box_options *o, unsigned fields, struct error *err);
int local_changes(struct box *b, struct box_changes *ret, struct error *err);
int local_diff(struct box *b, bool stat, int out, struct error *err);
int local_apply(struct box *b, const struct apply_options *o, const struct apply_report *report,
                struct error *err);
int local_sync(struct box *b, const struct apply_options *o, const struct apply_report *report,
               struct error *err);
int local_note_seen(struct box *b, struct error *err);

/* The clock of change times: a file that is changed after this call gets a time that is not
 * earlier. */
int64_t box_time(void);

/* The same, but waits for the clock to tick: what was changed before this call has an earlier time.
 */
int64_t box_time_after_now(void);

/* Keeps a record of the folder's files that commands touch, for apply and sync. */
void box_track(struct box *b);

/* What box.c, snapshot.c and box_adjust.c do with the network of a box. */
int box_start_proxy(struct box *b, struct error *err);
int box_network_init(struct box *b, const struct box_options *o);
int box_network_copy(struct box *to, struct box *from);
void box_network_free(struct box_network *n);

/* Gives a box that was forked in order to replace `current`, or to stand beside it, its present
 * settings: what box_adjust() changed belongs to the box and not to its files. */
int box_inherit_settings(struct box *fresh, struct box *current, struct error *err);

/* A prepared box begins when it is taken: what changed in the person's folder before is no
 * conflict. */
void box_begin_now(struct box *b);

/* A snapshot of a box in which nothing was done yet: free, and its forks have no layer of it. */
int box_template(struct box *b, struct snapshot **ret, struct error *err);

/* The place that forks of a snapshot start from, and a box without one that has their options. */
struct place *snapshot_place(const struct snapshot *s);
const struct box *snapshot_like(const struct snapshot *s);

/* A stream to the guest has ended without an answer: says why. Always -EPIPE, or -EAGAIN if the
 * guest is well. */
int box_lost(struct box *b, struct error *err);

/* A request did not reach the guest, for this negative errno; 0 is no error. */
int box_unreached(struct box *b, int r, struct error *err);

/* The guest did not answer in time: ends the box. -EPIPE. */
int box_silent(struct box *b, struct error *err);
/* Position of the box's applied log when the snapshot was taken. What the log of the present box
 * has after that (applied_log_each), a box restored from the snapshot must show as it was before.
 */
uint64_t snapshot_applied(const struct snapshot *s);

/* Hands a box just forked from `s`, in order to replace `current`, what is known about the folder
 * since: the applied log, and for each path that applies wrote after `s`, what they wrote. Call it
 * before the earlier states are written into `fresh`. */
int box_inherit_applied(struct box *fresh, const struct box *current, const struct snapshot *s,
                        struct error *err);

char **list_copy(char *const *list);
char **list_copy_n(const char *const *list, size_t n);
char **list_free(char **list);
