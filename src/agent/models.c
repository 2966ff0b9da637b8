/* Figures of the providers' public price lists; a name stands for itself and all that begin with
 * it, the longest that fits counts. What is missing or out of date here, "models" of the
 * configuration says (settings_facts.c). */
#include <string.h>

#include "cleanup.h"
#include "models.h"
#include "banned.h"

#define K 1000u
#define M 1000000u

struct row {
    const char *provider, *prefix;
    uint64_t window, max_output;
    double input, output, cache_read, cache_write;
    uint64_t long_above;
    double long_input, long_output;
};

static const struct row ROWS[] = {
    {"anthropic", "claude-fable-5-1", M, 128 * K, 10, 50, 0.25, 12.5, 0, 1, 1},
    {"anthropic", "claude-fable-5", M, 128 * K, 10, 50, 1, 12.5, 0, 1, 1},
    {"anthropic", "claude-opus-5-5", M, 128 * K, 4, 20, 0.2, 5, 0, 1, 1},
    {"anthropic", "claude-opus-5", M, 128 * K, 5, 25, 0.5, 6.25, 0, 1, 1},
    {"anthropic", "claude-opus-4-8", M, 128 * K, 5, 25, 0.5, 6.25, 0, 1, 1},
    {"anthropic", "claude-opus-4-7", M, 128 * K, 5, 25, 0.5, 6.25, 0, 1, 1},
    {"anthropic", "claude-opus-4-6", 200 * K, 128 * K, 5, 25, 0.5, 6.25, 0, 1, 1},
    {"anthropic", "claude-opus-4-5", 200 * K, 64 * K, 5, 25, 0.5, 6.25, 0, 1, 1},
    {"anthropic", "claude-opus-4", 200 * K, 32 * K, 15, 75, 1.5, 18.75, 0, 1, 1},
    {"anthropic", "claude-sonnet-5-5", M, 128 * K, 2, 10, 0.1, 2.5, 0, 1, 1},
    {"anthropic", "claude-sonnet-5", M, 128 * K, 2, 10, 0.2, 2.5, 0, 1, 1},
    {"anthropic", "claude-sonnet-4", 200 * K, 64 * K, 3, 15, 0.3, 3.75, 0, 1, 1},
    {"anthropic", "claude-3-7-sonnet", 200 * K, 64 * K, 3, 15, 0.3, 3.75, 0, 1, 1},
    {"anthropic", "claude-3-5-sonnet", 200 * K, 8192, 3, 15, 0.3, 3.75, 0, 1, 1},
    {"anthropic", "claude-haiku-5-5", M, 128 * K, 0.1, 0.5, 0.01, 0.125, 100 * K, 5, 5},
    {"anthropic", "claude-haiku-4-5", 200 * K, 64 * K, 1, 5, 0.1, 1.25, 0, 1, 1},
    {"anthropic", "claude-3-5-haiku", 200 * K, 8192, 0.8, 4, 0.08, 1, 0, 1, 1},
    {"anthropic", "claude-3-haiku", 200 * K, 4096, 0.25, 1.25, 0.03, 0.3, 0, 1, 1},
    {"openai", "gpt-6-sol", 1050 * K, 128 * K, 2, 10, 0.2, 2.5, 272 * K, 2, 1.5},
    {"openai", "gpt-6-luna", 1050 * K, 128 * K, 0.1, 0.5, 0.01, 0.125, 272 * K, 2, 1.5},
    {"openai", "gpt-6", 1050 * K, 128 * K, -1, -1, -1, -1, 0, 1, 1},
    {"openai", "gpt-5.6-terra", 1050 * K, 128 * K, 2, 12, 0.2, 2.5, 272 * K, 2, 1.5},
    {"openai", "gpt-5.6-luna", 1050 * K, 128 * K, 0.2, 1.2, 0.02, 0.25, 272 * K, 2, 1.5},
    {"openai", "gpt-5.6", 1050 * K, 128 * K, 4, 20, 0.4, 5, 272 * K, 2, 1.5},
    {"openai", "gpt-5.5", 1050 * K, 128 * K, 5, 30, 0.5, 5, 272 * K, 2, 1.5},
    {"openai", "gpt-5.5-pro", 1050 * K, 128 * K, 30, 180, 3, 30, 272 * K, 2, 1.5},
    {"openai", "gpt-5.4", 1050 * K, 128 * K, 2.5, 15, 0.25, 2.5, 272 * K, 2, 1.5},
    {"openai", "gpt-5.4-mini", 400 * K, 128 * K, 0.75, 4.5, 0.075, 0.75, 0, 1, 1},
    {"openai", "gpt-5.4-nano", 400 * K, 128 * K, 0.2, 1.25, 0.02, 0.2, 0, 1, 1},
    {"openai", "gpt-5.3", 400 * K, 128 * K, 1.75, 14, 0.175, 1.75, 0, 1, 1},
    {"openai", "gpt-5.2", 400 * K, 128 * K, 1.75, 14, 0.175, 1.75, 0, 1, 1},
    {"openai", "gpt-5-pro", 400 * K, 128 * K, 15, 120, 15, 15, 0, 1, 1},
    {"openai", "gpt-5-mini", 400 * K, 128 * K, 0.25, 2, 0.025, 0.25, 0, 1, 1},
    {"openai", "gpt-5-nano", 400 * K, 128 * K, 0.05, 0.4, 0.005, 0.05, 0, 1, 1},
    {"openai", "gpt-5.1-codex-mini", 400 * K, 128 * K, 0.25, 2, 0.025, 0.25, 0, 1, 1},
    {"openai", "gpt-5", 400 * K, 128 * K, 1.25, 10, 0.125, 1.25, 0, 1, 1},
    {"openai", "gpt-4.1-mini", 1047576, 32768, 0.4, 1.6, 0.1, 0.4, 0, 1, 1},
    {"openai", "gpt-4.1-nano", 1047576, 32768, 0.1, 0.4, 0.025, 0.1, 0, 1, 1},
    {"openai", "gpt-4.1", 1047576, 32768, 2, 8, 0.5, 2, 0, 1, 1},
    {"openai", "gpt-4o-mini", 128 * K, 16384, 0.15, 0.6, 0.075, 0.15, 0, 1, 1},
    {"openai", "gpt-4o", 128 * K, 16384, 2.5, 10, 1.25, 2.5, 0, 1, 1},
    {"openai", "o4-mini", 200 * K, 100 * K, 1.1, 4.4, 0.275, 1.1, 0, 1, 1},
    {"openai", "o3-mini", 200 * K, 100 * K, 1.1, 4.4, 0.55, 1.1, 0, 1, 1},
    {"openai", "o3", 200 * K, 100 * K, 2, 8, 0.5, 2, 0, 1, 1},
};

static const struct row *find(const char *provider, const char *name)
{
    const struct row *best = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
        size_t n = strlen(ROWS[i].prefix);
        if (strcmp(ROWS[i].provider, provider) == 0 && strncmp(ROWS[i].prefix, name, n) == 0 &&
            (!best || n > strlen(best->prefix)))
            best = &ROWS[i];
    }
    return best;
}

bool models_find(const char *provider, const char *name, struct model_facts *ret)
{
    const struct row *row = find(provider, name);
    if (row) {
        *ret = (struct model_facts){row->window,
                                    row->max_output,
                                    {row->input, row->output, row->cache_read, row->cache_write,
                                     row->long_above, row->long_input, row->long_output}};
        return true;
    }
    bool claude = strstr(name, "claude") != NULL;
    *ret = (struct model_facts){
        claude ? 200 * K : 128 * K, claude ? 32 * K : 16384, {-1, -1, -1, -1, 0, 1, 1}};
    return false;
}
