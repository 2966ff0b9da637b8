/*
 * Throughput: threads that each run the same contestant again and again for a slice of time; then
 * the next contestant's turn. The rate of a slice counts the time until its last thread has come
 * back, so nothing is left out at its end.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "box_bench.h"
#include "thread.h"
#include "banned.h"

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

static void *drive(void *data)
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
static int run_slice(const struct contestant *c, unsigned in_flight, unsigned slice_ms,
                     double *ret_rate)
{
    struct lane lanes[IN_FLIGHT_MAX] = {0};
    int64_t begin = clock_now();
    struct slice slice = {.contestant = c, .deadline = begin + slice_ms * NS_PER_MS};
    unsigned started = 0, runs = 0;
    int r = 0;
    while (r == 0 && started < in_flight) {
        lanes[started].slice = &slice;
        r = -pthread_create(&lanes[started].thread, NULL, drive, &lanes[started]);
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

static void print_rates(const struct contestant *list, size_t n, unsigned rounds,
                        double (*rates)[CONTEST_MAX])
{
    for (size_t i = 0; i < n; i++) {
        printf("%s\"%s\":[", i ? ",\n" : "{", list[i].name);
        for (unsigned round = 0; round < rounds; round++)
            printf("%s%.2f", round ? "," : "", rates[round][i]);
        putchar(']');
    }
    printf("}\n");
}

int rate_print(const struct contestant *list, size_t n, unsigned in_flight, unsigned rounds,
               unsigned slice_ms)
{
    double rates[ROUNDS_MAX][CONTEST_MAX];
    if (in_flight > IN_FLIGHT_MAX || rounds > ROUNDS_MAX)
        return -EINVAL;
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < n; i++) {
            int r = run_slice(&list[i], in_flight, slice_ms, &rates[round][i]);
            if (r < 0) {
                fprintf(stderr, "bench: %s failed with %u in flight\n", list[i].name, in_flight);
                return r;
            }
        }
    print_rates(list, n, rounds, rates);
    return 0;
}
