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
 * The limit on processes is the box's, so all are counted; a command answers for it if it holds a good part
 * of them. Touching the limit for a moment is no harm: only one that stays there is a bomb.
 */
static bool stays_at_pids(struct command *c, const struct ptree_usage *u)
{
    bool at_limit = c->limits.pids && u->box_tasks >= c->limits.pids && u->tasks >= u->box_tasks / 4;
    c->samples_at_pids = at_limit ? c->samples_at_pids + 1 : 0;
    return c->samples_at_pids >= SAMPLES_AT_PIDS;
}

static enum wire_limit exceeded(struct command *c, const struct ptree_usage *u)
{
    if (c->limits.cpu_us && c->cpu_us + u->cpu_us > c->limits.cpu_us)
        return WIRE_LIMIT_CPU;
    if (c->limits.memory && u->memory > c->limits.memory)
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
