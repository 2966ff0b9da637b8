/*
 * Which state of which box stands for the beginning of a turn. Before the first call of a turn that
 * may change something the history is told a snapshot's name; a turn without one changed nothing,
 * so the next one's stands for it, too.
 */
#include <errno.h>
#include <string.h>

#include "agent_private.h"
#include "banned.h"

static bool read_state(struct agent *a, size_t i, struct box_state *ret)
{
    json_t *m = NULL;
    const struct history_entry *e = history_entry(a->history, i);
    if (e->kind != HISTORY_SNAPSHOT || !e->counts || history_read(a->history, i, &m, NULL) < 0)
        return false;
    const char *box = json_string_value(json_object_get(m, "box"));
    const char *snapshot = json_string_value(json_object_get(m, "snapshot"));
    bool is_one = box && snapshot;
    if (is_one) {
        ret->turn = (unsigned)json_integer_value(json_object_get(m, "turn"));
        snprintf(ret->box, sizeof ret->box, "%s", box);
        snprintf(ret->snapshot, sizeof ret->snapshot, "%s", snapshot);
    }
    json_decref(m);
    return is_one;
}

/* The first state of a turn behind turn `after`. -ENOENT: no such turn changed anything. */
int agent_find_state(struct agent *a, unsigned after, struct box_state *ret)
{
    bool found = false;
    for (size_t i = history_count(a->history); i-- > 0;) {
        struct box_state s;
        if (history_entry(a->history, i)->turn <= after && history_entry(a->history, i)->counts)
            break;
        if (read_state(a, i, &s) && s.turn > after) {
            *ret = s;
            found = true;
        }
    }
    return found ? 0 : -ENOENT;
}

/* A fork has the snapshots of the boxes that it was forked from under their name and the box's. */
void agent_state_name(const struct agent *a, const struct box_state *s,
                      char ret[KEEPER_SNAPSHOT_NAME])
{
    if (strcmp(s->box, workbox_id(a->box)) == 0)
        snprintf(ret, KEEPER_SNAPSHOT_NAME, "%s", s->snapshot);
    else
        snprintf(ret, KEEPER_SNAPSHOT_NAME, "%.8s:%.6s", s->box, s->snapshot);
}

int agent_go_to_state(struct agent *a, const struct box_state *s, struct workbox_reverted *reverted,
                      struct error *err)
{
    char name[KEEPER_SNAPSHOT_NAME];
    agent_state_name(a, s, name);
    return workbox_restore(a->box, name, reverted, err);
}
