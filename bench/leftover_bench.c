/*
 * Many boxes in a row in one process, opened, used and closed. What the process holds is counted on
 * the way; the first tenth is there to let allocator and kernel reach their steady state.
 */
#include <inttypes.h>
#include <stdio.h>

#include "box_bench.h"
#include "subject.h"
#include "tally.h"
#include "banned.h"

#define CHECKPOINTS 10

static void print_tally(unsigned boxes, bool first)
{
    struct tally t;
    tally_take(&t);
    printf("%s{\"boxes\":%u,\"descriptors\":%" PRId64 ",\"memory\":%" PRId64 ",\"mounts\":%" PRId64
           ",\"children\":%" PRId64 "}",
           first ? "[" : ",\n", boxes, t.descriptors, t.memory, t.mounts, t.children);
}

int leftover_bench(unsigned boxes)
{
    struct subject s;
    int64_t ns;
    int r = 0;
    subject_init(&s, NULL);
    struct contestant fresh = subject_fresh(&s);
    unsigned step = boxes < CHECKPOINTS ? 1 : boxes / CHECKPOINTS;
    print_tally(0, true);
    for (unsigned i = 1; r == 0 && i <= boxes; i++) {
        r = fresh.run(fresh.data, &ns);
        if (r == 0 && i % step == 0)
            print_tally(i, false);
    }
    printf("]\n");
    return r;
}
