/*
 * Start, snapshot and fork: of a large workspace and of an empty one in which the same was written,
 * and with the box's files on disk instead of in memory. Every measurement has a fresh box, since a
 * snapshot stays in the store of its box.
 */
#include <err.h>
#include <stdio.h>

#include "box_bench.h"
#include "subject.h"
#include "thread.h"
#include "banned.h"

/* Writes 20 KB each over the first files of the large workspace (bench.py names them so), by the
 * shell alone. */
#define CHANGE                                                                                     \
    "s=$(head -c 20000 /dev/zero | tr '\\0' x); mkdir -p 0 && i=0;"                                \
    " while [ $i -lt %u ]; do printf %%s \"$s\" >0/$i || exit 1; i=$((i+1)); done"

static const char *const PARTS[] = {"snapshot", "fork", "both", "start", NULL};

struct fork_case {
    struct subject subject;
    char script[256];
};

static int measure(struct box *b, int64_t *ret_values, struct error *err)
{
    struct snapshot *snapshot = NULL;
    struct box *fork = NULL;
    int64_t begin = clock_now();
    int r = box_snapshot(b, &snapshot, err);
    int64_t between = clock_now();
    if (r == 0)
        r = box_fork(snapshot, &fork, err);
    int64_t end = clock_now();
    ret_values[0] = between - begin;
    ret_values[1] = end - between;
    ret_values[2] = end - begin;
    if (r == 0)
        r = subject_exec(fork, "test -s 0/0"); /* it is there, with the change */
    box_close(fork);
    snapshot_free(snapshot);
    return r;
}

static int run_case(void *data, int64_t *ret_values)
{
    struct fork_case *c = data;
    struct box *b = NULL;
    struct error err = {0};
    int64_t begin = clock_now();
    int r = box_open(&c->subject.options, &b, &err);
    ret_values[3] = clock_now() - begin;
    if (r == 0)
        r = subject_exec(b, c->script);
    if (r == 0)
        r = measure(b, ret_values, &err);
    if (err.code)
        warnx("%s", err.text);
    box_close(b);
    return r;
}

int fork_bench(const char *large, unsigned rounds)
{
    static const struct {
        const char *name;
        bool large;
        unsigned changed;
        enum box_store store;
    } CASES[] = {
        {"empty 1", false, 1, BOX_STORE_MEMORY},     {"large 1", true, 1, BOX_STORE_MEMORY},
        {"empty 100", false, 100, BOX_STORE_MEMORY}, {"large 100", true, 100, BOX_STORE_MEMORY},
        {"disk 1", true, 1, BOX_STORE_DISK},         {"disk 100", true, 100, BOX_STORE_DISK}};
    struct fork_case cases[ARRAY_SIZE(CASES)];
    struct contestant list[ARRAY_SIZE(CASES)];
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        subject_init(&cases[i].subject, CASES[i].large ? large : NULL);
        cases[i].subject.options.store = CASES[i].store;
        snprintf(cases[i].script, sizeof cases[i].script, CHANGE, CASES[i].changed);
        list[i] = (struct contestant){
            .name = CASES[i].name, .parts = PARTS, .run = run_case, .data = &cases[i]};
    }
    return contest_print(list, ARRAY_SIZE(list), rounds);
}
