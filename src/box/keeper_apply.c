/* A keeper's side of `apply`, `sync` and `note`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keeper_visit.h"
#include "keeper_wire.h"
#include "banned.h"

#define PATHS_MAX 4096

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
