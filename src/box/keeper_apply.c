/* `apply`, `sync` and `note` of a kept box, both sides. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keeper_ask.h"
#include "keeper_visit.h"
#include "banned.h"

#define PATHS_MAX 4096

static void put_options(struct buf *out, const struct apply_options *o)
{
    if (!o)
        return;
    wire_put_u64(out, KEEPER_K_ON_CONFLICT, o->on_conflict);
    wire_put_u64(out, KEEPER_K_ALLOW_GIT_DIRS, o->allow_git_dirs);
    wire_put_u64(out, KEEPER_K_REPLACED_FOLDER, o->replaced_folder);
    for (size_t i = 0; i < o->n_paths; i++)
        wire_put_str(out, WIRE_K_PATH, o->paths[i]);
}

static int client_apply(enum keeper_type type, int registry, const struct registry_id *id,
                        const struct apply_options *o, const struct apply_report *report,
                        struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    int r = keeper_ask_begin(&a, registry, id, type, err);
    if (r < 0)
        return r;
    put_options(&a.out, o);
    r = keeper_ask_send(&a, NULL, 0, err);
    while (r == 0) {
        struct wire_frame frame;
        r = keeper_ask_next(&a, &frame, err);
        if (r < 0)
            return r;
        if (frame.type == WIRE_RESULT)
            return (int)wire_find_u64(&frame, WIRE_K_COUNT, 0);
        _cleanup_free_ char *path = wire_find_str(&frame, WIRE_K_PATH);
        _cleanup_free_ char *why = wire_find_str(&frame, WIRE_K_TEXT);
        r = 0;
        if (path && report && report->say)
            report->say(report->data, path,
                        (enum apply_outcome)wire_find_u64(&frame, WIRE_K_KIND, APPLY_REFUSED), why);
    }
    return r;
}

int keeper_apply(int registry, const struct registry_id *id, const struct apply_options *o,
                 const struct apply_report *report, struct error *err)
{
    return client_apply(KEEPER_APPLY, registry, id, o, report, err);
}

int keeper_sync(int registry, const struct registry_id *id, const struct apply_options *o,
                const struct apply_report *report, struct error *err)
{
    return client_apply(KEEPER_SYNC, registry, id, o, report, err);
}

int keeper_note(int registry, const struct registry_id *id, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_NOTE, err);
    if (r == 0)
        r = keeper_ask_send(&a, NULL, 0, err);
    if (r == 0)
        r = keeper_ask_next(&a, &frame, err);
    return r < 0 ? r : 0;
}

/* A client that has gone changes nothing: what was begun is finished. */
static void serve_report(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct visit *v = data;
    size_t begin = wire_begin(&v->out, WIRE_ENTRY);
    wire_put_str(&v->out, WIRE_K_PATH, path);
    wire_put_u64(&v->out, WIRE_K_KIND, outcome);
    if (why)
        wire_put_str(&v->out, WIRE_K_TEXT, why);
    visit_send(v, begin);
}

typedef int box_apply_function(struct box *b, const struct apply_options *o,
                               const struct apply_report *report, struct error *err);

static int serve_with_options(struct visit *v, box_apply_function *function, struct error *err)
{
    char *paths[PATHS_MAX];
    struct wire_field field;
    size_t n = 0;
    struct apply_options o = {
        .on_conflict =
            (enum apply_choice)wire_find_u64(v->frame, KEEPER_K_ON_CONFLICT, APPLY_REPORT),
        .allow_git_dirs = wire_find_u64(v->frame, KEEPER_K_ALLOW_GIT_DIRS, 0),
        .replaced_folder = wire_find_u64(v->frame, KEEPER_K_REPLACED_FOLDER, 0),
    };
    for (size_t at = 0; n < PATHS_MAX && wire_next(v->frame, &at, &field);)
        if (field.key == WIRE_K_PATH && (paths[n] = strndup((const char *)field.data, field.size)))
            n++;
    o.paths = n ? (const char *const *)paths : NULL;
    o.n_paths = n;
    int r = n == PATHS_MAX ? error_set(err, E2BIG, "more than %d paths", PATHS_MAX - 1)
                           : visit_lock_owner(v, err);
    if (r == 0) {
        r = function(v->q->in->box, &o, &(struct apply_report){.say = serve_report, .data = v},
                     err);
        visit_unlock_owner(v);
    }
    for (size_t i = 0; i < n; i++)
        free(paths[i]);
    if (r < 0)
        return r;
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    wire_put_u64(&v->out, WIRE_K_COUNT, (uint64_t)r);
    visit_send(v, begin);
    return 0;
}

int serve_apply(struct visit *v, struct error *err)
{
    return serve_with_options(v, box_apply, err);
}

int serve_sync(struct visit *v, struct error *err)
{
    return serve_with_options(v, box_sync, err);
}

int serve_note(struct visit *v, struct error *err)
{
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_note_seen(v->q->in->box, err);
    visit_unlock_owner(v);
    if (r == 0)
        visit_answer(v);
    return r;
}
