/* Limits where no control group counts: what a command and the box use is looked at several times a
 * second.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "command.h"
#include "guest.h"
#include "sample.h"
#include "ptree.h"
#include "banned.h"

#define SAMPLE_EACH     (50 * NS_PER_MS)
#define SAMPLES_AT_PIDS 5

void sample_start(struct command *c)
{
    const struct command_limits *l = &c->limits;
    if (l->cpu_us || l->memory || l->pids)
        loop_timer_set(&c->guest->loop, &c->sample, clock_now() + SAMPLE_EACH);
}

/*
 * The limit on processes is the box's, so all are counted; a command answers for it if it holds a
 * good part of them. Touching the limit for a moment is no harm: only one that stays there is a
 * bomb.
 */
static bool stays_at_pids(struct command *c, const struct ptree_usage *u)
{
    bool at_limit =
        c->limits.pids && u->box_tasks >= c->limits.pids && u->tasks >= u->box_tasks / 4;
    c->samples_at_pids = at_limit ? c->samples_at_pids + 1 : 0;
    return c->samples_at_pids >= SAMPLES_AT_PIDS;
}

#define SOCKET_SIZE 4096 /* about what the kernel needs for the socket itself */

static const char *const LISTS[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6",
                                    "/proc/self/net/udp", "/proc/self/net/udp6"};

/* Pages of all namespaces together, which the kernel has at hand: mostly so few that no list need
 * be read. */
static uint64_t sockets_of_host(void)
{
    _cleanup_fclose_ FILE *f = fopen("/proc/self/net/sockstat", "re");
    char line[256];
    uint64_t pages = 0;
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long mem = 0;
        const char *at = strstr(line, " mem ");
        if (at && sscanf(at, " mem %llu", &mem) == 1)
            pages += mem;
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Lines are "sl local remote state tx_queue:rx_queue …", numbers in hexadecimal. */
static uint64_t sockets_in_list(const char *path, uint64_t enough)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    char line[512];
    uint64_t sum = 0;
    while (sum <= enough && f && fgets(line, sizeof line, f)) {
        unsigned long long sent, received;
        if (sscanf(line, " %*[0-9]: %*s %*s %*s %llx:%llx", &sent, &received) == 2)
            sum += SOCKET_SIZE + sent + received;
    }
    return sum;
}

/* Bytes of all TCP and UDP sockets of the box's network namespace; counting stops above `enough`,
 * and 0 stands for all that is not more than that. */
static uint64_t sockets_memory(uint64_t enough)
{
    uint64_t sum = 0;
    if (sockets_of_host() <= enough)
        return 0;
    for (size_t i = 0; sum <= enough && i < ARRAY_SIZE(LISTS); i++)
        sum += sockets_in_list(LISTS[i], enough);
    return sum;
}

static enum wire_limit exceeded(struct command *c, const struct ptree_usage *u)
{
    if (c->limits.cpu_us && c->cpu_us + u->cpu_us > c->limits.cpu_us)
        return WIRE_LIMIT_CPU;
    if (c->limits.memory && u->memory > c->limits.memory)
        return WIRE_LIMIT_MEMORY;
    if (c->limits.sockets && sockets_memory(c->limits.sockets) > c->limits.sockets)
        return WIRE_LIMIT_MEMORY;
    return stays_at_pids(c, u) ? WIRE_LIMIT_PIDS : WIRE_LIMIT_NONE;
}

void sample_fire(struct loop_timer *t)
{
    struct command *c = CONTAINER_OF(t, struct command, sample);
    struct ptree_usage usage;
    enum wire_limit limit = WIRE_LIMIT_NONE;
    loop_timer_set(&c->guest->loop, t, clock_now() + SAMPLE_EACH);
    if (ptree_measure(c->guest, c->tag, &usage) >= 0)
        limit = exceeded(c, &usage);
    if (limit)
        command_kill(c, limit);
}
