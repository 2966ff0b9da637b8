/* A keeper's side of what makes, replaces and removes boxes: fork, snapshot, restore, rm. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keeper.h"
#include "keeper_visit.h"
#include "banned.h"

static int find_snapshot(const struct held *h, const char *name, struct snapshot **ret,
                         struct error *err)
{
    if (strcmp(name, KEEPER_ORIGIN) == 0 && h->origin) {
        *ret = h->origin;
        return 0;
    }
    for (size_t i = 0; i < h->n_snapshots; i++)
        if (strcmp(h->snapshots[i].name, name) == 0) {
            *ret = h->snapshots[i].snapshot;
            return 0;
        }
    for (size_t i = 0; i < h->n_inherited; i++)
        if (strcmp(h->inherited[i].name, name) == 0) {
            *ret = h->inherited[i].snapshot;
            return 0;
        }
    if (h->n_snapshots == 0)
        return error_set(err, ENOENT, "the box '%s' has no snapshot '%s': it has no snapshots",
                         h->id.text, name);
    return error_set(err, ENOENT, "the box '%s' has no snapshot '%s'; the last is s%u", h->id.text,
                     name, h->last_snapshot);
}

/* Sends what a fork or restore did with a path that was applied. */
static void send_restored(void *data, const char *path, const char *why)
{
    struct visit *v = data;
    size_t begin = wire_begin(&v->out, WIRE_ENTRY);
    wire_put_str(&v->out, WIRE_K_PATH, path);
    if (why)
        wire_put_str(&v->out, WIRE_K_TEXT, why);
    visit_send(v, begin);
}

/* Finds a box by name and takes a reference; NULL if it has gone. */
static struct held *take_by_id(struct keeper *k, const struct registry_id *id)
{
    pthread_mutex_lock(&k->lock);
    struct held *h = k->boxes;
    while (h && (h->removed || strcmp(h->id.text, id->text) != 0))
        h = h->next;
    if (h)
        h->refs++;
    pthread_mutex_unlock(&k->lock);
    return h;
}

static void let_go(struct keeper *k, struct held *h)
{
    pthread_mutex_lock(&k->lock);
    h->refs--;
    pthread_mutex_unlock(&k->lock);
    keeper_wake(k);
}

/* Gives a fork references to what its parent can go back to, so that it can as well when the parent
 * has gone. The newest ones, if there are more than a box may have. */
static int inherit_snapshots(const struct held *parent, struct held *fork)
{
    size_t n = 0, all = 1 + parent->n_snapshots + parent->n_inherited;
    size_t most = all < KEEPER_SNAPSHOTS_MAX ? all : KEEPER_SNAPSHOTS_MAX;
    struct kept_snapshot *list = calloc(most, sizeof *list);
    if (!list)
        return -ENOMEM;
    for (size_t i = parent->n_snapshots; i-- > 0 && n < most;) {
        snprintf(list[n].name, sizeof list[n].name, "%s:%.6s", parent->id.text,
                 parent->snapshots[i].name);
        list[n++].snapshot = snapshot_ref(parent->snapshots[i].snapshot);
    }
    if (n < most && parent->origin) {
        snprintf(list[n].name, sizeof list[n].name, "%s:%s", parent->id.text, KEEPER_ORIGIN);
        list[n++].snapshot = snapshot_ref(parent->origin);
    }
    for (size_t i = 0; i < parent->n_inherited && n < most; i++, n++) {
        list[n] = parent->inherited[i];
        snapshot_ref(list[n].snapshot);
    }
    pthread_mutex_lock(&fork->owner);
    fork->inherited = list;
    fork->n_inherited = n;
    pthread_mutex_unlock(&fork->owner);
    return 0;
}

/* Makes the forks; those made before one failed are removed by the caller. */
static int make_forks(struct visit *v, const char *name, size_t n, struct registry_id *ids,
                      size_t *ret_made, struct error *err)
{
    struct request *q = v->q;
    const struct restore_report report = {.say = send_restored, .data = v};
    struct snapshot *fresh = NULL, *from = NULL;
    int r = name ? find_snapshot(q->held, name, &from, err) : box_snapshot(q->in->box, &fresh, err);
    for (*ret_made = 0; r == 0 && *ret_made < n;) {
        struct box *b = NULL;
        r = box_fork_at(name ? from : fresh, q->in->box, *ret_made ? NULL : &report, &b, err);
        if (r == 0)
            r = held_add(q->keeper, b, &q->held->life, &ids[*ret_made], err);
        if (r < 0)
            break;
        struct held *h = take_by_id(q->keeper, &ids[(*ret_made)++]);
        if (h && inherit_snapshots(q->held, h) < 0)
            r = error_set(err, ENOMEM, "no memory");
        if (h)
            let_go(q->keeper, h);
    }
    snapshot_free(fresh);
    return r;
}

static void remove_forks(struct keeper *k, const struct registry_id *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct held *h = take_by_id(k, &ids[i]);
        if (!h)
            continue;
        held_remove(k, h);
        let_go(k, h);
    }
}

int serve_fork(struct visit *v, struct error *err)
{
    struct registry_id ids[KEEPER_FORKS_MAX];
    uint64_t n = wire_find_u64(v->frame, WIRE_K_COUNT, 1);
    _cleanup_free_ char *name = wire_find_str(v->frame, WIRE_K_NAME);
    size_t made = 0;
    if (n == 0 || n > KEEPER_FORKS_MAX)
        return error_set(err, EINVAL, "the number of forks must be between 1 and %d",
                         KEEPER_FORKS_MAX);
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = make_forks(v, name, n, ids, &made, err);
    visit_unlock_owner(v);
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    for (size_t i = 0; i < made; i++)
        wire_put_str(&v->out, WIRE_K_NAME, ids[i].text);
    if (r < 0 || visit_send(v, begin) < 0)
        remove_forks(v->q->keeper, ids, made);
    return r;
}

/* Adds it to those that the box has; the owner lock is held, the other one is for those who only
 * count them.
 */
static int keep_snapshot(struct request *q, struct snapshot *s, struct error *err)
{
    struct held *h = q->held;
    size_t n = h->n_snapshots;
    struct kept_snapshot *more =
        n < KEEPER_SNAPSHOTS_MAX ? realloc(h->snapshots, (n + 1) * sizeof *more) : NULL;
    if (!more) {
        snapshot_free(s);
        return error_set(err, ENOSPC, "a box can have at most %d snapshots", KEEPER_SNAPSHOTS_MAX);
    }
    h->snapshots = more;
    more[n].snapshot = s;
    snprintf(more[n].name, sizeof more[n].name, "s%u", ++h->last_snapshot);
    pthread_mutex_lock(&q->keeper->lock);
    h->n_snapshots++;
    pthread_mutex_unlock(&q->keeper->lock);
    return 0;
}

int serve_snapshot(struct visit *v, struct error *err)
{
    struct held *h = v->q->held;
    struct snapshot *s = NULL;
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_snapshot(v->q->in->box, &s, err);
    if (r == 0)
        r = keep_snapshot(v->q, s, err);
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    if (r == 0)
        wire_put_str(&v->out, WIRE_K_NAME, h->snapshots[h->n_snapshots - 1].name);
    visit_unlock_owner(v);
    if (r == 0)
        visit_send(v, begin);
    return r;
}

int serve_restore(struct visit *v, struct error *err)
{
    struct held *h = v->q->held;
    struct snapshot *s = NULL;
    struct box *fresh = NULL;
    _cleanup_free_ char *name = wire_find_str(v->frame, WIRE_K_NAME);
    if (!name)
        return error_set(err, EPROTO, "malformed request");
    pthread_mutex_lock(&h->owner);
    int r = find_snapshot(h, name, &s, err);
    if (r == 0 && !h->in)
        r = error_set(err, ENOENT, "the box '%s' has been removed", h->id.text);
    if (r == 0)
        r = box_fork_at(s, h->in->box, &(struct restore_report){.say = send_restored, .data = v},
                        &fresh, err);
    if (r == 0)
        r = held_replace(v->q->keeper, h, fresh, err);
    pthread_mutex_unlock(&h->owner);
    if (r == 0)
        visit_answer(v);
    return r;
}

int serve_remove(struct visit *v, struct error *err)
{
    if (!held_remove(v->q->keeper, v->q->held))
        return error_set(err, ENOENT, "the box '%s' has been removed", v->q->held->id.text);
    visit_answer(v);
    return 0;
}
