/*
 * Memory of boxes that do nothing: the proportional share of their guests, as the kernel counts it,
 * and how much less is available on the whole host, which has the kernel's own part in it (and
 * whatever else happens meanwhile).
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "box_bench.h"
#include "cleanup.h"
#include "subject.h"
#include "tally.h"
#include "banned.h"

#define SETTLE_S 1 /* what ended before is still being freed */

/* Of the whole host: the kernel's own memory, and the files that live in memory. */
static int64_t kernel_memory(void)
{
    static const char *const KEYS[] = {"Slab", "KernelStack", "PageTables", "Percpu", "Shmem"};
    int64_t sum = 0;
    for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
        sum += tally_number("/proc/meminfo", KEYS[i]);
    return sum;
}

static void add_share(int pid, void *data)
{
    int64_t *sum = data;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    int64_t share = tally_number(path, "Pss");
    if (share > 0)
        *sum += share;
}

static int open_all(const struct box_options *o, struct box **list, unsigned boxes)
{
    struct error err = {0};
    for (unsigned i = 0; i < boxes; i++) {
        int r = box_open(o, &list[i], &err);
        if (r < 0) {
            warnx("box %u: %s", i, err.text);
            return r;
        }
    }
    return 0;
}

int idle_bench(unsigned boxes)
{
    struct subject s;
    struct tally before, after;
    int64_t share = 0, ns;
    _cleanup_free_ struct box **list = calloc(boxes, sizeof(struct box *));
    if (!list)
        return -ENOMEM;
    subject_init(&s, NULL);
    subject_fresh(&s).run(&s, &ns);
    sleep(SETTLE_S);
    tally_take(&before);
    int64_t kernel = kernel_memory();
    int64_t available = tally_number("/proc/meminfo", "MemAvailable");
    int r = open_all(&s.options, list, boxes);
    available -= tally_number("/proc/meminfo", "MemAvailable");
    kernel = kernel_memory() - kernel;
    tally_take(&after);
    int64_t guests = tally_children(add_share, &share);
    for (unsigned i = 0; i < boxes; i++)
        box_close(list[i]);
    printf("{\"boxes\":%u,\"guests\":%" PRId64 ",\"share_kib\":%" PRId64 ",\"kernel_kib\":%" PRId64
           ",\"host_kib\":%" PRId64 ",\"own_kib\":%" PRId64 ",\"descriptors\":%" PRId64 "}\n",
           boxes, guests, share, kernel, available, after.memory - before.memory,
           after.descriptors - before.descriptors);
    return r;
}
