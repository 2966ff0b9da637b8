/* What is known about a model, and what an answer cost. */
#include <string.h>

#include "models.h"
#include "settings_private.h"
#include "banned.h"

/* The member of "models" that fits best: the whole name, else the longest beginning that ends with
 * a `*`. */
static const json_t *best_row(const json_t *table, const char *full)
{
    const char *name;
    json_t *row;
    const json_t *best = json_object_get(table, full);
    size_t length = 0;
    if (best)
        return best;
    json_object_foreach((json_t *)table, name, row)
    {
        size_t n = strlen(name);
        if (n > length && name[n - 1] == '*' && strncmp(name, full, n - 1) == 0) {
            best = row;
            length = n;
        }
    }
    return best;
}

static void set_number(const json_t *row, const char *name, double *value)
{
    const json_t *found = json_object_get(row, name);
    if (found)
        *value = json_number_value(found);
}

static void set_count(const json_t *row, const char *name, uint64_t *value)
{
    const json_t *found = json_object_get(row, name);
    if (found)
        *value = (uint64_t)json_number_value(found);
}

/* A price of the person's own is a whole one: what it leaves out of caches follows from it. */
static void take_row(const json_t *row, bool anthropic, struct model_facts *f)
{
    set_count(row, "window", &f->window);
    set_count(row, "max_output", &f->max_output);
    if (json_object_get(row, "input")) {
        double input = json_number_value(json_object_get(row, "input"));
        f->price = (struct model_price){.input = input,
                                        .output = f->price.output,
                                        .cache_read = anthropic ? 0.1 * input : input,
                                        .cache_write = anthropic ? 1.25 * input : input,
                                        .long_input = 1,
                                        .long_output = 1};
    }
    set_number(row, "output", &f->price.output);
    set_number(row, "cache_read", &f->price.cache_read);
    set_number(row, "cache_write", &f->price.cache_write);
}

/* Somebody else's copy of a well-known model ("anthropic/claude-…" of a gateway): its size is
 * known, its price is that provider's own. */
static void by_name(const char *name, struct model_facts *f)
{
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    models_find(strncmp(last, "claude", 6) == 0 ? "anthropic" : "openai", last, f);
    f->price = (struct model_price){-1, -1, -1, -1, 0, 1, 1};
}

void settings_facts(const struct settings *s, const struct model_spec *spec,
                    struct model_facts *ret)
{
    char full[1024];
    struct model_facts f;
    bool known = models_find(spec->provider, spec->name, &f);
    if (!known && strcmp(spec->provider, "replay") != 0)
        by_name(spec->name, &f);
    snprintf(full, sizeof full, "%s/%s", spec->provider, spec->name);
    const json_t *row = best_row(settings_member(s, "models"), full);
    if (row)
        take_row(row, spec->api == MODEL_ANTHROPIC, &f);
    if (f.max_output > f.window / 2)
        f.max_output = f.window / 2;
    *ret = f;
}

double price_of(const struct model_price *p, const struct model_usage *u)
{
    uint64_t cached = u->cache_read + u->cache_write;
    uint64_t fresh = u->input > cached ? u->input - cached : 0;
    bool is_long = p->long_above > 0 && u->input > p->long_above;
    if (!u->known || p->input < 0 || p->output < 0)
        return -1;
    double read = p->cache_read < 0 ? p->input : p->cache_read;
    double write = p->cache_write < 0 ? p->input : p->cache_write;
    double in =
        (double)fresh * p->input + (double)u->cache_read * read + (double)u->cache_write * write;
    double out = (double)u->output * p->output;
    return (in * (is_long ? p->long_input : 1) + out * (is_long ? p->long_output : 1)) / 1e6;
}
