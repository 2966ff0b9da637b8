/* What was used up: tokens and money, of the turn and of the session, and whether that is more than
 * allowed.
 */
#include <inttypes.h>
#include <string.h>

#include "agent_private.h"
#include "banned.h"

void agent_account(struct agent *a, const struct model_usage *u)
{
    double cost = u->known ? price_of(&a->facts.price, u) : -1;
    model_usage_add(&a->usage, u);
    a->turn.tokens += u->output;
    if (cost >= 0) {
        a->turn.cost += cost;
        a->money.cost += cost;
        a->money.known = true;
    }
    agent_tell(a, &(struct agent_event){.kind = AGENT_USAGE,
                                        .usage = *u,
                                        .money = {.known = cost >= 0, .cost = cost >= 0 ? cost : 0},
                                        .session_usage = a->usage,
                                        .session_money = a->money,
                                        .context = context_tokens(a->context),
                                        .window = a->facts.window});
}

/* Money that was spent stays spent: what was taken back counts as well. */
void agent_restore_usage(struct agent *a)
{
    struct history_totals t;
    history_totals(a->history, &t);
    a->usage = (struct model_usage){.known = t.input || t.output,
                                    .input = t.input,
                                    .output = t.output,
                                    .cache_read = t.cache_read,
                                    .cache_write = t.cache_write};
    a->money = (struct agent_money){.known = t.cost >= 0, .cost = t.cost >= 0 ? t.cost : 0};
}

bool turn_over_limit(const struct agent_options *o, const struct turn *t, char *why, size_t size)
{
    if (o->max_turns && t->answers >= o->max_turns)
        snprintf(why, size, "the limit of %u answers is reached (--max-turns)", o->max_turns);
    else if (o->max_tokens && t->tokens >= o->max_tokens)
        snprintf(why, size, "the limit of %" PRIu64 " tokens is reached (--max-tokens)",
                 o->max_tokens);
    else if (o->max_cost > 0 && t->cost >= o->max_cost)
        snprintf(why, size, "the limit of $%.2f is reached (--max-cost)", o->max_cost);
    else
        return false;
    return true;
}
