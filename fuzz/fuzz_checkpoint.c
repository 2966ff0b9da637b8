/*
 * A checkpoint of any bytes. What is accepted is a table like any other: it can be gone on with,
 * and written and read again.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "env.h"
#include "banned.h"

static struct task_patch PATCHES[2];
static struct task TASK = {.name = "small", .patches = PATCHES, .n_patches = 2, .call_price = 0.01};

/* An explorer's way through it, as far as it leads. */
static void go_through(struct qtable *q)
{
    qtable_replay(q);
    size_t at = 0;
    for (unsigned i = 0; i < 64 && at < q->states.count; i++) {
        ssize_t best = qtable_best(q, at), next = qtable_explore(q, at);
        assert(best < (ssize_t)q->actions && next < (ssize_t)q->actions);
        if (next < 0)
            break;
        const struct qtable_entry *e = qtable_entry(q, at, (size_t)next);
        if (e->next < 0)
            break;
        at = (size_t)e->next;
    }
    assert(at == 0 || at < q->states.count);
}

static void read_again(const struct checkpoint *c)
{
    struct checkpoint again;
    json_t *o = checkpoint_json(c);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17));
    assert(text && checkpoint_parse(&TASK, text, strlen(text), "c", &again, NULL) == 0);
    assert(again.table.n_tried == c->table.n_tried &&
           again.table.states.count == c->table.states.count);
    checkpoint_free(&again);
    free(text);
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint c;
    struct error err = {0};
    memset(TASK.digest, 'a', 64);
    if (checkpoint_parse(&TASK, (const char *)data, size, "c", &c, &err) < 0) {
        assert(err.code && err.text[0]);
        return 0;
    }
    read_again(&c);
    go_through(&c.table);
    checkpoint_free(&c);
    return 0;
}
