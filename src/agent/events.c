/* What an agent reports: events for its frontend, notes for the model, and what was used up. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "agent_session.h"
#include "banned.h"

void agent_emit(struct agent *a, const struct agent_event *e)
{
    if (a->sink.event)
        a->sink.event(a->sink.data, e);
}

void agent_note(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    agent_emit(a, &(struct agent_event){.kind = AGENT_NOTE, .text = text, .n = strlen(text)});
}

void prompt_note_printf(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_printf(&a->prompt_notes, "[%s]\n", text);
}

void prompt_note(struct agent *a, const char *text, size_t n)
{
    if (a->prompt_notes.len + n + 1 > a->prompt_notes.max) /* the model can look for itself */
        return;
    buf_append(&a->prompt_notes, text, n);
    buf_append(&a->prompt_notes, "\n", 1);
}

void agent_account(struct agent *a, const struct model_usage *u)
{
    double cost = u->known ? model_price_of(&a->facts.price, u) : -1;
    model_usage_add(&a->usage, u);
    a->turn.tokens += u->output;
    if (cost >= 0) {
        a->turn.cost += cost;
        a->money.cost += cost;
        a->money.known = true;
    }
    agent_emit(a, &(struct agent_event){.kind = AGENT_USAGE,
                                        .usage = *u,
                                        .money = {.known = cost >= 0, .cost = cost >= 0 ? cost : 0},
                                        .session_usage = a->usage,
                                        .session_money = a->money,
                                        .context = context_tokens(a->context),
                                        .window = a->facts.window});
}

/* Undone turns count as well: they were paid for. */
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
        snprintf(why, size, "reached the limit of %u answers (--max-turns)", o->max_turns);
    else if (o->max_tokens && t->tokens >= o->max_tokens)
        snprintf(why, size, "reached the limit of %" PRIu64 " tokens (--max-tokens)",
                 o->max_tokens);
    else if (o->max_cost > 0 && t->cost >= o->max_cost)
        snprintf(why, size, "reached the limit of $%.2f (--max-cost)", o->max_cost);
    else
        return false;
    return true;
}
