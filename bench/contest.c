#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "contest.h"
#include "cleanup.h"
#include "banned.h"

#define WARM_UP_MAX 20

static size_t count_parts(const struct contestant *c)
{
    size_t n = 0;
    while (c->parts && c->parts[n])
        n++;
    return c->parts ? n : 1;
}

/* The same order in every run of the program: a xorshift of a fixed seed. */
static uint32_t next_random(void)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static void shuffle(size_t *order, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = next_random() % i;
        size_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

static int run_round(const struct contestant *list, size_t *order, size_t n,
                     int64_t (*values)[CONTEST_PARTS_MAX])
{
    shuffle(order, n);
    for (size_t i = 0; i < n; i++) {
        int r = list[order[i]].run(list[order[i]].data, values[order[i]]);
        if (r < 0) {
            fprintf(stderr, "bench: %s failed\n", list[order[i]].name);
            return r;
        }
    }
    return 0;
}

static void print_values(int64_t (*values)[CONTEST_PARTS_MAX], size_t n, size_t index, size_t part,
                         unsigned rounds)
{
    putchar('[');
    for (unsigned round = 0; round < rounds; round++)
        printf("%s%" PRId64, round ? "," : "", values[round * n + index][part]);
    putchar(']');
}

static void print_all(const struct contestant *list, size_t n, int64_t (*values)[CONTEST_PARTS_MAX],
                      unsigned rounds)
{
    const char *separator = "{";
    for (size_t i = 0; i < n; i++)
        for (size_t part = 0; part < count_parts(&list[i]); part++) {
            const char *name = list[i].parts ? list[i].parts[part] : NULL;
            printf("%s\"%s%s%s\":", separator, list[i].name, name ? "/" : "", name ? name : "");
            print_values(values, n, i, part, rounds);
            separator = ",\n";
        }
    printf("}\n");
}

int contest_print(const struct contestant *list, size_t n, unsigned rounds)
{
    size_t order[CONTEST_MAX];
    int64_t warm_up[CONTEST_MAX][CONTEST_PARTS_MAX];
    if (n == 0 || n > CONTEST_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    _cleanup_free_ int64_t(*values)[CONTEST_PARTS_MAX] = calloc(rounds * n, sizeof *values);
    if (!values)
        return -ENOMEM;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < rounds / 5 + 1 && i < WARM_UP_MAX; i++)
        r = run_round(list, order, n, warm_up);
    for (unsigned i = 0; r == 0 && i < rounds; i++)
        r = run_round(list, order, n, values + i * n);
    if (r == 0)
        print_all(list, n, values, rounds);
    return r;
}
