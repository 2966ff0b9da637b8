/* The index of a history, built from the bytes of one message at a time. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history_file.h"
#include "json_scan.h"
#include "banned.h"

enum { ROLE, KIND, TURN, TO, MODEL, USAGE, COST, N_MEMBERS };

static const char *const MEMBER_NAMES[N_MEMBERS] = {"role",  "kind",  "turn", "to",
                                                    "model", "usage", "cost"};

static const char *const KINDS[] = {
    [HISTORY_BOX] = "box",         [HISTORY_SNAPSHOT] = "snapshot", [HISTORY_UNDO] = "undo",
    [HISTORY_SUMMARY] = "summary", [HISTORY_PLAN] = "plan",         [HISTORY_APPLIED] = "applied",
    [HISTORY_CLEARED] = "cleared", [HISTORY_NOTE] = "note",
};

static int member_find(const struct scan_member *m, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] && scan_is(m, names[i]))
            return (int)i;
    return -1;
}

/* The totals stand where the next message is written over them: nothing in them may look like the
 * end of a message (load.c), so a model's name with strange characters is left out. */
static void totals_add_answer(struct history_totals *t, const struct scan_member *m)
{
    struct scan_member counts[] = {{"input"}, {"output"}, {"cache_read"}, {"cache_write"}};
    uint64_t *const sums[] = {&t->input, &t->output, &t->cache_read, &t->cache_write}, n;
    const struct scan_member *usage = &m[USAGE], *cost = &m[COST], *model = &m[MODEL];
    size_t length;
    bool doubt;
    if (usage->at &&
        scan_value(usage->at, usage->n, counts, ARRAY_SIZE(counts), &length, &doubt) == 0)
        for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
            if (scan_count(&counts[i], UINT32_MAX, &n))
                *sums[i] += n;
    json_t *v = cost->at ? json_loadb(cost->at, cost->n, JSON_DECODE_ANY, NULL) : NULL;
    if (json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) < 1e9)
        t->cost = (t->cost < 0 ? 0 : t->cost) + json_number_value(v);
    json_decref(v);
    if (!model->at || model->at[0] != '"' || model->n < 3 || model->n - 2 >= sizeof t->model)
        return;
    for (size_t i = 1; i < model->n - 1; i++)
        if (!isalnum((unsigned char)model->at[i]) && !strchr("-._:/@+ ", model->at[i]))
            return;
    memcpy(t->model, model->at + 1, model->n - 2);
    t->model[model->n - 2] = 0;
}

static int index_take_members(struct history_index *x, const struct scan_member *m, uint64_t offset,
                              size_t length)
{
    static const char *const roles[] = {
        [HISTORY_USER] = "user", [HISTORY_ASSISTANT] = "assistant", [HISTORY_HUTCH] = "hutch"};
    struct history_entry e = {.offset = offset, .length = (uint32_t)length, .counts = true};
    int role = member_find(&m[ROLE], roles, ARRAY_SIZE(roles)), kind;
    uint64_t n;
    if (role < 0)
        return -EBADMSG;
    e.role = (enum history_role)role;
    if (x->count == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 64;
        struct history_entry *more = realloc(x->entries, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        x->entries = more;
        x->cap = cap;
    }
    if (e.role == HISTORY_HUTCH && (kind = member_find(&m[KIND], KINDS, ARRAY_SIZE(KINDS))) > 0)
        e.kind = (enum history_kind)kind;
    /* Where a turn begins, and how far an undo goes back. */
    if (e.role == HISTORY_USER && scan_count(&m[TURN], HISTORY_TURN_MAX, &n) && n > 0) {
        e.begins_turn = true;
        x->turn = (unsigned)n;
    } else if (e.kind == HISTORY_UNDO && scan_count(&m[TO], HISTORY_TURN_MAX, &n)) {
        x->turn = n < x->turn ? (unsigned)n : x->turn;
    } else if (e.kind == HISTORY_CLEARED) {
        x->turn = 0;
    }
    e.turn = x->turn;
    x->entries[x->count++] = e;
    if (e.role == HISTORY_ASSISTANT)
        totals_add_answer(&x->totals, m);
    x->totals.messages = x->count;
    x->totals.turns = x->turn;
    return 0;
}

static void members_init(struct scan_member *m)
{
    for (size_t i = 0; i < N_MEMBERS; i++)
        m[i] = (struct scan_member){.name = MEMBER_NAMES[i]};
}

/* A message that is valid only if jansson says so: index what jansson understood. */
static int index_take_doubtful(struct history_index *x, const char *text, uint64_t offset,
                               size_t length)
{
    struct scan_member m[N_MEMBERS];
    size_t n;
    bool doubt;
    json_t *message = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
    _cleanup_free_ char *plain = message ? json_dumps(message, 0) : NULL;
    json_decref(message);
    if (!plain)
        return -EBADMSG;
    members_init(m);
    int r = scan_value(plain, strlen(plain), m, N_MEMBERS, &n, &doubt);
    return r < 0 ? -EBADMSG : index_take_members(x, m, offset, length);
}

static bool member_has_escapes(const struct scan_member *m)
{
    return m->at && memchr(m->at, '\\', m->n);
}

int index_take(struct history_index *x, const char *text, size_t n, uint64_t offset,
               size_t *ret_length)
{
    struct scan_member m[N_MEMBERS];
    bool doubt;
    members_init(m);
    int r = scan_value(text, n, m, N_MEMBERS, ret_length, &doubt);
    if (r == 0 && *ret_length > HISTORY_MESSAGE_MAX)
        r = -EBADMSG;
    if (r < 0)
        return r;
    doubt |= member_has_escapes(&m[ROLE]) || member_has_escapes(&m[KIND]);
    return doubt ? index_take_doubtful(x, text, offset, *ret_length)
                 : index_take_members(x, m, offset, *ret_length);
}

/* An undo stands behind what it takes back, so the entries are read backwards. The turn of an
 * undo's entry is where it led. */
void index_settle(struct history_index *x)
{
    unsigned limit = UINT32_MAX;
    bool cleared = false;
    for (size_t i = x->count; i-- > 0;) {
        struct history_entry *e = &x->entries[i];
        bool marks =
            e->kind == HISTORY_BOX || e->kind == HISTORY_UNDO || e->kind == HISTORY_CLEARED;
        e->undone = !marks && e->turn > limit;
        e->counts = marks || (!cleared && !e->undone);
        if (e->kind == HISTORY_CLEARED) {
            cleared = true;
            limit = UINT32_MAX; /* what was undone before is of other turns */
        }
        if (e->kind == HISTORY_UNDO && e->turn < limit)
            limit = e->turn;
    }
}

struct index_mark index_mark(const struct history_index *x)
{
    return (struct index_mark){x->count, x->turn, x->totals};
}

void index_go_back(struct history_index *x, const struct index_mark *m)
{
    x->count = m->count;
    x->turn = m->turn;
    x->totals = m->totals;
    index_settle(x);
}

bool index_may_be(enum history_kind kind, const char *name)
{
    for (size_t i = HISTORY_BOX; i < ARRAY_SIZE(KINDS); i++)
        if (strcmp(name, KINDS[i]) == 0)
            return kind == (enum history_kind)i;
    return kind == HISTORY_OTHER;
}

void index_free(struct history_index *x)
{
    free(x->entries);
    *x = INDEX_INIT;
}
