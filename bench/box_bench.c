/*
 * Boxes at the level of the library, without the start of a program around them.
 *
 *     box_bench start ROUNDS WORKSPACE :: NAME PROGRAM…  a fresh box, one of a pool, programs
 *     box_bench exec ROUNDS WORKSPACE :: NAME PROGRAM…   a command in a live box, programs
 *     box_bench rate ROUNDS WORKSPACE IN_FLIGHT SLICE_MS :: …
 *                                                        runs per second of the same
 *     box_bench fork ROUNDS LARGE                        start, snapshot and fork
 *     box_bench leftovers BOXES                          descriptors and memory left behind
 *     box_bench idle BOXES                               memory of boxes that do nothing
 *
 * hutch-guest must be beside this program. All print JSON, for bench.py.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cleanup.h"
#include "contest.h"
#include "subject.h"
#include "tally.h"
#include "thread.h"
#include "banned.h"

#define POOL_SIZE 4

static unsigned number(const char *text)
{
    int n = atoi(text);
    if (n <= 0)
        errx(2, "'%s' is not a number above 0", text);
    return (unsigned)n;
}

static int start_run(char **args)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    struct subject s;
    size_t n = 2;
    subject_init(&s, args[1]);
    subject_open_pool(&s, POOL_SIZE);
    list[0] = subject_fresh(&s);
    list[1] = subject_pooled(&s);
    command_parse(args + 2, commands, list, &n);
    int r = contest_print(list, n, number(args[0]));
    subject_free(&s);
    return r;
}

/* A command in a box has its output collected through pipes; so there is posix_spawn with a pipe to
 * compare with too. */
static int exec_run(char **args)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    struct subject s;
    size_t n = 1;
    subject_init(&s, args[1]);
    subject_open_live(&s);
    list[0] = subject_live(&s);
    command_parse(args + 2, commands, list, &n);
    if (n == 2) {
        list[n] = list[1];
        list[n].name = "piped";
        command_set_piped(&list[n++]);
    }
    int r = contest_print(list, n, number(args[0]));
    subject_free(&s);
    return r;
}

/* Throughput: threads that each run the same contestant again and again for a slice of time; then
 * the next contestant follows. A slice ends when its last thread has finished. */

#define IN_FLIGHT_MAX 256
#define ROUNDS_MAX    64

struct slice {
    const struct contestant *contestant;
    int64_t deadline;
};

struct lane {
    pthread_t thread;
    const struct slice *slice;
    unsigned runs;
    int failure;
};

static void *lane_run(void *data)
{
    struct lane *lane = data;
    int64_t values[CONTEST_PARTS_MAX];
    while (lane->failure == 0 && clock_now() < lane->slice->deadline) {
        lane->failure = lane->slice->contestant->run(lane->slice->contestant->data, values);
        lane->runs++;
    }
    return NULL;
}

/* Runs per second of one slice. */
static int slice_run(const struct contestant *c, unsigned in_flight, unsigned slice_ms,
                     double *ret_rate)
{
    struct lane lanes[IN_FLIGHT_MAX] = {0};
    int64_t begin = clock_now();
    struct slice slice = {.contestant = c, .deadline = begin + slice_ms * NS_PER_MS};
    unsigned started = 0, runs = 0;
    int r = 0;
    while (r == 0 && started < in_flight) {
        lanes[started].slice = &slice;
        r = -pthread_create(&lanes[started].thread, NULL, lane_run, &lanes[started]);
        if (r == 0)
            started++;
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(lanes[i].thread, NULL);
        runs += lanes[i].runs;
        r = r < 0 ? r : lanes[i].failure;
    }
    *ret_rate = (double)runs * NS_PER_S / (double)(clock_now() - begin);
    return r;
}

static int rate_run(char **args)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    double rates[ROUNDS_MAX][CONTEST_MAX];
    struct subject s;
    unsigned rounds = number(args[0]), in_flight = number(args[2]), slice_ms = number(args[3]);
    size_t n = 2;
    int r = 0;
    if (in_flight > IN_FLIGHT_MAX || rounds > ROUNDS_MAX)
        errx(2, "at most %d rounds with %d in flight", ROUNDS_MAX, IN_FLIGHT_MAX);
    subject_init(&s, args[1]);
    subject_open_pool(&s, in_flight);
    list[0] = subject_fresh(&s);
    list[1] = subject_pooled(&s);
    command_parse(args + 4, commands, list, &n);
    for (size_t run = 0; r == 0 && run < rounds * n; run++) {
        r = slice_run(&list[run % n], in_flight, slice_ms, &rates[run / n][run % n]);
        if (r < 0)
            warnx("%s failed with %u in flight", list[run % n].name, in_flight);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        printf("%s\"%s\":[", i ? ",\n" : "{", list[i].name);
        for (unsigned round = 0; round < rounds; round++)
            printf("%s%.2f", round ? "," : "", rates[round][i]);
        printf("]%s", i + 1 == n ? "}\n" : "");
    }
    subject_free(&s);
    return r;
}

/* Start, snapshot and fork: of a large workspace and of an empty one in which the same files were
 * written, and with the box's files on disk instead of in memory. Every measurement has a fresh
 * box, since a snapshot stays in the store of its box. */

/* Writes 20 KB each over the first files of the large workspace (bench.py names them so), by the
 * shell alone. */
#define CHANGE                                                                                     \
    "s=$(head -c 20000 /dev/zero | tr '\\0' x); mkdir -p 0 && i=0;"                                \
    " while [ $i -lt %u ]; do printf %%s \"$s\" >0/$i || exit 1; i=$((i+1)); done"

static const char *const FORK_PARTS[] = {"snapshot", "fork", "both", "start", NULL};

struct fork_case {
    struct subject subject;
    char script[256];
};

static int fork_measure(struct box *b, int64_t *ret_values, struct error *err)
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

static int fork_case_run(void *data, int64_t *ret_values)
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
        r = fork_measure(b, ret_values, &err);
    if (err.code)
        warnx("%s", err.text);
    box_close(b);
    return r;
}

static int fork_run(char **args)
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
        subject_init(&cases[i].subject, CASES[i].large ? args[1] : NULL);
        cases[i].subject.options.store = CASES[i].store;
        snprintf(cases[i].script, sizeof cases[i].script, CHANGE, CASES[i].changed);
        list[i] = (struct contestant){
            .name = CASES[i].name, .parts = FORK_PARTS, .run = fork_case_run, .data = &cases[i]};
    }
    return contest_print(list, ARRAY_SIZE(list), number(args[0]));
}

/* Many boxes one after the other in one process. The first tenth lets allocator and kernel reach
 * their steady state. */

#define CHECKPOINTS 10

static void leftovers_print(unsigned boxes, bool first)
{
    struct tally t;
    tally_take(&t);
    printf("%s{\"boxes\":%u,\"descriptors\":%" PRId64 ",\"memory\":%" PRId64 ",\"mounts\":%" PRId64
           ",\"children\":%" PRId64 "}",
           first ? "[" : ",\n", boxes, t.descriptors, t.memory, t.mounts, t.children);
}

static int leftovers_run(char **args)
{
    unsigned boxes = number(args[0]);
    struct subject s;
    int64_t ns;
    int r = 0;
    subject_init(&s, NULL);
    struct contestant fresh = subject_fresh(&s);
    unsigned step = boxes < CHECKPOINTS ? 1 : boxes / CHECKPOINTS;
    leftovers_print(0, true);
    for (unsigned i = 1; r == 0 && i <= boxes; i++) {
        r = fresh.run(fresh.data, &ns);
        if (r == 0 && i % step == 0)
            leftovers_print(i, false);
    }
    printf("]\n");
    return r;
}

/* Memory of idle boxes: the proportional share of their guests (Pss), and how much less is
 * available on the whole host, which includes the kernel's part and unrelated changes. */

#define SETTLE_S 1 /* what ended before is still being freed */

/* Of the whole host: the kernel's own memory, and the files that live in memory. */
static int64_t idle_kernel_memory(void)
{
    static const char *const KEYS[] = {"Slab", "KernelStack", "PageTables", "Percpu", "Shmem"};
    int64_t sum = 0;
    for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
        sum += tally_number("/proc/meminfo", KEYS[i]);
    return sum;
}

static void idle_add_share(int pid, void *data)
{
    int64_t *sum = data;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    int64_t share = tally_number(path, "Pss");
    if (share > 0)
        *sum += share;
}

static int idle_run(char **args)
{
    unsigned boxes = number(args[0]);
    struct error err = {0};
    int r = 0;
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
    int64_t kernel = idle_kernel_memory();
    int64_t available = tally_number("/proc/meminfo", "MemAvailable");
    for (unsigned i = 0; r == 0 && i < boxes; i++) {
        r = box_open(&s.options, &list[i], &err);
        if (r < 0)
            warnx("box %u: %s", i, err.text);
    }
    available -= tally_number("/proc/meminfo", "MemAvailable");
    kernel = idle_kernel_memory() - kernel;
    tally_take(&after);
    int64_t guests = tally_children(idle_add_share, &share);
    for (unsigned i = 0; i < boxes; i++)
        box_close(list[i]);
    printf("{\"boxes\":%u,\"guests\":%" PRId64 ",\"share_kib\":%" PRId64 ",\"kernel_kib\":%" PRId64
           ",\"host_kib\":%" PRId64 ",\"own_kib\":%" PRId64 ",\"descriptors\":%" PRId64 "}\n",
           boxes, guests, share, kernel, available, after.memory - before.memory,
           after.descriptors - before.descriptors);
    return r;
}

static const struct {
    const char *name;
    int n_args; /* at least */
    int (*run)(char **args);
} MODES[] = {
    {"start", 2, start_run}, {"exec", 2, exec_run},           {"rate", 4, rate_run},
    {"fork", 2, fork_run},   {"leftovers", 1, leftovers_run}, {"idle", 1, idle_run},
};

int main(int argc, char **argv)
{
    struct rlimit limit; /* many boxes at once hold many descriptors */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(MODES); i++)
        if (strcmp(argv[1], MODES[i].name) == 0 && argc - 2 >= MODES[i].n_args)
            return MODES[i].run(argv + 2) < 0;
    errx(2, "usage: box_bench start|exec|rate|fork|leftovers|idle NUMBER …");
}
